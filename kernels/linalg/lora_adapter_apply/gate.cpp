// ref and S = |x|@|W|^T + |scale|*(|x|@|A|^T)@|B|^T in one pass over the operands: a panel of columns of y, as many as two vectors hold, against four rows at a time.
#include "kernels/linalg/lora_adapter_apply/gate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linalg/lora_adapter_apply/gate.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"

#ifndef FAIBENCH_LORA_GATE_TYPES
#define FAIBENCH_LORA_GATE_TYPES
namespace faibench::lora_adapter_apply {

/// A left operand in f64: its values, and sums of magnitudes of what they are made of.
struct Rows {
  const double *values, *magnitudes;
  std::int64_t count, K;
};
/// One tile of products with the columns of a right operand.
struct Products {
  static constexpr int rows = 4, most_columns = 16;
  double values[rows][most_columns], magnitudes[rows][most_columns];
};
struct GateProblem {
  Rows x, h;                    ///< h = x@A^T
  const float *W, *B, *y;
  std::int64_t O;
  double scale;
  const std::vector<bool>&x_finite, &W_finite, &x_integer, &W_integer, &B_integer;
  bool adapter_integer;         ///< all of A, and scale
};
/// The wrong element that stands first in y.
struct WrongElement {
  std::int64_t index = INT64_MAX;
  double wanted = 0, ratio = 0;
};

/// Whether y is right there; if not, by how much it misses.
inline bool right(const GateProblem& p, std::int64_t t, std::int64_t o, double base, double base_size, double correction, double correction_size, WrongElement& wrong) {
  const double y = static_cast<double>(p.y[t * p.O + o]), ref = p.scale == 0 ? base : base + p.scale * correction;
  wrong = {t * p.O + o, ref, 0};
  if (!p.x_finite[static_cast<std::size_t>(t)] || !p.W_finite[static_cast<std::size_t>(o)]) {
    if (std::isnan(ref) ? std::isnan(y) : y == ref) return true;
    // scale = 0 is x@W^T by rule 2; the formula as written, 0*Inf, is NaN and is taken too.
    return p.scale == 0 && std::isnan(0 * correction) && std::isnan(y);
  }
  const double S = base_size + (p.scale == 0 ? 0 : std::abs(p.scale) * correction_size);
  if (!(S < 0x1p127)) return true;
  if (p.adapter_integer && S <= 0x1p24 && p.x_integer[static_cast<std::size_t>(t)] && p.W_integer[static_cast<std::size_t>(o)] && p.B_integer[static_cast<std::size_t>(o)])
    return y == ref;
  const double allowed = 0x1p-24 * static_cast<double>(p.x.K + p.h.K + 8) * S + 0x1p-126;
  wrong.ratio = std::isfinite(y) ? std::abs(y - ref) / allowed : HUGE_VAL;
  return std::abs(y - ref) <= allowed;
}

}  // namespace faibench::lora_adapter_apply
#endif

HWY_BEFORE_NAMESPACE();
namespace faibench::lora_adapter_apply::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<double> d;
using V = hn::Vec<decltype(d)>;
constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(d)), columns = 2 * lanes;
constexpr std::int64_t worth_a_team = 1 << 20;  // products; fewer are done before a second thread is awake
static_assert(columns <= Products::most_columns);

/// Rows [first, first + columns) of m[N, K] as f64 columns: panel[k][column]; columns past N are 0.
void pack(const float* m, std::int64_t N, std::int64_t K, std::int64_t first, double* panel) {
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t k = 0; k < K; ++k) panel[k * columns + c] = first + c < N ? static_cast<double>(m[(first + c) * K + k]) : 0.0;
}

template <int R>
HWY_INLINE void multiply_rows(const Rows& a, std::int64_t row, const double* HWY_RESTRICT panel, Products& out, int to) {
  V value[R][2], size[R][2];
  for (int r = 0; r < R; ++r) value[r][0] = value[r][1] = size[r][0] = size[r][1] = hn::Zero(d);
  for (std::int64_t k = 0; k < a.K; ++k) {
    const V left = hn::Load(d, panel + k * columns), right = hn::Load(d, panel + k * columns + lanes), left_size = hn::Abs(left), right_size = hn::Abs(right);
    for (int r = 0; r < R; ++r) {
      const V v = hn::Set(d, a.values[(row + r) * a.K + k]), s = hn::Set(d, a.magnitudes[(row + r) * a.K + k]);
      value[r][0] = hn::MulAdd(v, left, value[r][0]);
      value[r][1] = hn::MulAdd(v, right, value[r][1]);
      size[r][0] = hn::MulAdd(s, left_size, size[r][0]);
      size[r][1] = hn::MulAdd(s, right_size, size[r][1]);
    }
  }
  for (int r = 0; r < R; ++r) {
    hn::StoreU(value[r][0], d, out.values[to + r]);
    hn::StoreU(value[r][1], d, out.values[to + r] + lanes);
    hn::StoreU(size[r][0], d, out.magnitudes[to + r]);
    hn::StoreU(size[r][1], d, out.magnitudes[to + r] + lanes);
  }
}

void multiply_tile(const Rows& a, std::int64_t row, std::int64_t rows, const double* panel, Products& out) {
  constexpr int together = lanes == 8 ? 4 : 2;  // what the registers hold
  int r = 0;
  for (; r + together <= rows; r += together) multiply_rows<together>(a, row + r, panel, out, r);
  for (; r < rows; ++r) multiply_rows<1>(a, row + r, panel, out, r);
}

/// values[M, N] = a @ m^T and the same of the magnitudes.
void multiply(const Rows& a, const float* m, std::int64_t N, double* values, double* magnitudes) {
  const std::int64_t panels = (N + columns - 1) / columns;
#pragma omp parallel if (a.count * a.K * N > worth_a_team)
  {
    const auto panel = hwy::AllocateAligned<double>(static_cast<std::size_t>(a.K * columns + 1));
    Products tile;
#pragma omp for schedule(dynamic)
    for (std::int64_t p = 0; p < panels; ++p) {
      pack(m, N, a.K, p * columns, panel.get());
      for (std::int64_t row = 0; row < a.count; row += Products::rows) {
        const std::int64_t rows = std::min<std::int64_t>(Products::rows, a.count - row), n = std::min(columns, N - p * columns);
        multiply_tile(a, row, rows, panel.get(), tile);
        for (std::int64_t r = 0; r < rows; ++r) {
          std::copy_n(tile.values[r], n, values + (row + r) * N + p * columns);
          std::copy_n(tile.magnitudes[r], n, magnitudes + (row + r) * N + p * columns);
        }
      }
    }
  }
}

WrongElement compare(const GateProblem& problem) {
  const std::int64_t O = problem.O, panels = (O + columns - 1) / columns;
  WrongElement first;
#pragma omp parallel if (problem.x.count * O * (problem.x.K + problem.h.K) > worth_a_team)
  {
    const auto w = hwy::AllocateAligned<double>(static_cast<std::size_t>(problem.x.K * columns + 1)), b = hwy::AllocateAligned<double>(static_cast<std::size_t>(problem.h.K * columns + 1));
    Products base, correction;
    WrongElement mine;
#pragma omp for schedule(dynamic)
    for (std::int64_t p = 0; p < panels; ++p) {
      pack(problem.W, O, problem.x.K, p * columns, w.get());
      pack(problem.B, O, problem.h.K, p * columns, b.get());
      for (std::int64_t row = 0; row < problem.x.count; row += Products::rows) {
        const std::int64_t rows = std::min<std::int64_t>(Products::rows, problem.x.count - row), n = std::min(columns, O - p * columns);
        multiply_tile(problem.x, row, rows, w.get(), base);
        multiply_tile(problem.h, row, rows, b.get(), correction);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < n; ++c) {
            WrongElement wrong;
            if (!right(problem, row + r, p * columns + c, base.values[r][c], base.magnitudes[r][c], correction.values[r][c], correction.magnitudes[r][c], wrong) && wrong.index < mine.index)
              mine = wrong;
          }
      }
    }
#pragma omp critical(lora_gate)
    if (mine.index < first.index) first = mine;
  }
  return first;
}

}  // namespace faibench::lora_adapter_apply::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::lora_adapter_apply {
namespace {

HWY_EXPORT(multiply);
HWY_EXPORT(compare);

using Matrix = View<const float, 2>;

template <class Property>
std::vector<bool> rows_where(Matrix m, Property property) {
  std::vector<bool> all(static_cast<std::size_t>(m.extent(0)));
  for (std::int64_t r = 0; r < m.extent(0); ++r) all[static_cast<std::size_t>(r)] = std::all_of(m.data() + r * m.extent(1), m.data() + (r + 1) * m.extent(1), property);
  return all;
}

}  // namespace

GateResult check_y(const GateCall& call) {
  const TensorRefMap& in = call.inputs;
  const auto x = in.at("x").view<const float, 2>(), W = in.at("W").view<const float, 2>(), A = in.at("A").view<const float, 2>(), B = in.at("B").view<const float, 2>();
  const float scale = in.at("scale").scalar<float>();
  const std::int64_t T = x.extent(0), I = x.extent(1), O = W.extent(0), R = A.extent(0);
  const TensorRef* y = call.outputs.find("y");
  if (!y) return Mismatch{"y", {}, "", "", 0, "output is missing"};
  if (auto bad = same_form("y", *y, {Dtype::f32, {T, O}, nullptr})) return bad;
  if (T * O == 0) return std::nullopt;

  const auto finite = [](float v) { return std::isfinite(v); };
  const auto integer = [](float v) { return v == std::nearbyint(v) && std::isfinite(v); };
  const std::vector<bool> x_finite = rows_where(x, finite), W_finite = rows_where(W, finite), x_integer = rows_where(x, integer), W_integer = rows_where(W, integer), B_integer = rows_where(B, integer);
  const bool adapter_integer = integer(scale) && std::ranges::all_of(A.flat(), integer);

  std::vector<double> values(x.flat().begin(), x.flat().end()), magnitudes(values.size()), h(static_cast<std::size_t>(T * R)), h_magnitudes(h.size());
  std::ranges::transform(values, magnitudes.begin(), [](double v) { return std::abs(v); });
  const Rows rows{values.data(), magnitudes.data(), T, I};
  HWY_DYNAMIC_DISPATCH(multiply)(rows, A.data(), R, h.data(), h_magnitudes.data());
  const GateProblem problem{rows, {h.data(), h_magnitudes.data(), T, R}, W.data(), B.data(), y->flat<const float>().data(), O, static_cast<double>(scale), x_finite, W_finite, x_integer, W_integer,
                            B_integer, adapter_integer};
  const WrongElement wrong = HWY_DYNAMIC_DISPATCH(compare)(problem);
  if (wrong.index == INT64_MAX) return std::nullopt;
  Tensor wanted = Tensor::scalar(wrong.wanted);
  return Mismatch{"y", unflatten(y->shape, wrong.index), element_text(*y, wrong.index), element_text(wanted.ref(), 0), wrong.ratio, wrong.ratio == 0 ? "must be exact: integers, or what is not finite" : ""};
}

}  // namespace faibench::lora_adapter_apply
#endif
