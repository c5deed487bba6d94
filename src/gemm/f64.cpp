// A panel of b's columns, as many as two vectors hold, is packed a block of k at a time and meets all rows of a; the panel's sums wait in memory from block to block.
#include "gemm/f64.h"

#include <algorithm>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm/f64.cpp"
#include "hwy/foreach_target.h"
//
#include "gemm/pack-inl.h"
#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::gemm::HWY_NAMESPACE {

constexpr hn::ScalableTag<double> f64;
using Doubles = hn::Vec<decltype(f64)>;
constexpr std::int64_t wide_lanes = static_cast<std::int64_t>(hn::MaxLanes(f64)), panel_columns = 2 * wide_lanes;
constexpr std::int64_t most_depth = 256;        // of a panel: 32 KiB
constexpr std::int64_t worth_a_team = 1 << 20;  // products; fewer are done before a second thread is awake

/// What the rows of a meet: n rows of a packed panel of b. Sums are in rows of panel_columns.
struct Block {
  const double *a, *a_size;
  std::int64_t stride, n;
  const double* panel;
  double *values, *sizes;
};

/// Columns [column, column + columns) of b at k, k + 1, ..., through `floats`; what is beyond them in the panel nobody keeps.
void pack_panel(const Matrix& b, std::int64_t k, std::int64_t n, std::int64_t column, std::int64_t columns, float* floats, double* panel) {
  pack_any(b, k, n, column, columns, floats, panel_columns);
  for (std::int64_t i = 0; i < n * panel_columns; i += wide_lanes) hn::Store(hn::PromoteTo(f64, hn::Load(hn::Rebind<float, decltype(f64)>(), floats + i)), f64, panel + i);
}

template <int R, bool with_sizes>
HWY_INLINE void add_rows(const Block& block, std::int64_t row) {
  constexpr int S = with_sizes ? R : 0;
  double* const values = block.values + row * panel_columns;
  double* const sizes = with_sizes ? block.sizes + row * panel_columns : nullptr;
  Doubles value[R][2], size[S + 1][2];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < 2; ++v) {
      value[r][v] = hn::Load(f64, values + r * panel_columns + v * wide_lanes);
      if constexpr (with_sizes) size[r][v] = hn::Load(f64, sizes + r * panel_columns + v * wide_lanes);
    }
  const double* HWY_RESTRICT const a = block.a + row * block.stride;
  const double* HWY_RESTRICT const a_size = with_sizes ? block.a_size + row * block.stride : nullptr;
  for (std::int64_t k = 0; k < block.n; ++k) {
    const Doubles left = hn::Load(f64, block.panel + k * panel_columns), right = hn::Load(f64, block.panel + k * panel_columns + wide_lanes);
    for (int r = 0; r < R; ++r) {
      const Doubles factor = hn::Set(f64, a[r * block.stride + k]);
      value[r][0] = hn::MulAdd(factor, left, value[r][0]);
      value[r][1] = hn::MulAdd(factor, right, value[r][1]);
    }
    if constexpr (with_sizes) {
      const Doubles left_size = hn::Abs(left), right_size = hn::Abs(right);
      for (int r = 0; r < R; ++r) {
        const Doubles factor = hn::Set(f64, a_size[r * block.stride + k]);
        size[r][0] = hn::MulAdd(factor, left_size, size[r][0]);
        size[r][1] = hn::MulAdd(factor, right_size, size[r][1]);
      }
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < 2; ++v) {
      hn::Store(value[r][v], f64, values + r * panel_columns + v * wide_lanes);
      if constexpr (with_sizes) hn::Store(size[r][v], f64, sizes + r * panel_columns + v * wide_lanes);
    }
}

/// Rows [row, rows), R at a time, then those left over.
template <int R, bool with_sizes>
void add_block(const Block& block, std::int64_t row, std::int64_t rows) {
  for (; row + R <= rows; row += R) add_rows<R, with_sizes>(block, row);
  if constexpr (R > 1) add_block<R / 2, with_sizes>(block, row, rows);
}

void multiply_f64(std::int64_t M, std::int64_t N, std::span<const F64Term> terms, bool with_sizes, const std::function<void(const F64Columns&)>& take) {
  constexpr int together = wide_lanes == 8 ? 8 : 4;  // rows whose sums the registers hold, and with sizes half of them
  const std::int64_t sums = M * panel_columns;
  std::int64_t K = 0;
  for (const F64Term& term : terms) K += term.k;
#pragma omp parallel if (M * N * K > worth_a_team)
  {
    const auto floats = hwy::AllocateAligned<float>(static_cast<std::size_t>(most_depth * panel_columns));
    const auto panel = hwy::AllocateAligned<double>(static_cast<std::size_t>(most_depth * panel_columns));
    const auto values = hwy::AllocateAligned<double>(static_cast<std::size_t>(sums + 1)), sizes = hwy::AllocateAligned<double>(static_cast<std::size_t>((with_sizes ? sums : 0) + 1));
    std::fill_n(floats.get(), most_depth * panel_columns, 0.0f);
#pragma omp for schedule(dynamic)
    for (std::int64_t column = 0; column < N; column += panel_columns) {
      const std::int64_t columns = std::min(panel_columns, N - column);
      std::fill_n(values.get(), sums, 0.0);
      if (with_sizes) std::fill_n(sizes.get(), sums, 0.0);
      for (const F64Term& term : terms)
        for (std::int64_t k = 0; k < term.k; k += most_depth) {
          const Block block{term.a + k, with_sizes ? term.a_size + k : nullptr, term.k, std::min(most_depth, term.k - k), panel.get(), values.get(), sizes.get()};
          pack_panel(term.b, k, block.n, column, columns, floats.get(), panel.get());
          if (with_sizes) add_block<together / 2, true>(block, 0, M);
          else add_block<together, false>(block, 0, M);
        }
      take({column, columns, values.get(), with_sizes ? sizes.get() : nullptr, panel_columns});
    }
  }
}

}  // namespace faibench::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::gemm {

HWY_EXPORT(multiply_f64);

void multiply_f64(std::int64_t M, std::int64_t N, std::span<const F64Term> terms, bool with_sizes, const std::function<void(const F64Columns&)>& take) {
  HWY_DYNAMIC_DISPATCH(multiply_f64)(M, N, terms, with_sizes, take);
}

void multiply_f64(std::int64_t M, std::int64_t N, std::span<const F64Term> terms, double* values, double* sizes) {
  multiply_f64(M, N, terms, sizes != nullptr, [=](const F64Columns& done) {
    for (std::int64_t i = 0; i < M; ++i) {
      std::copy_n(done.values + i * done.pitch, done.columns, values + i * N + done.column);
      if (done.sizes) std::copy_n(done.sizes + i * done.pitch, done.columns, sizes + i * N + done.column);
    }
  });
}

}  // namespace faibench::gemm
#endif
