// K is split over the threads and walked in blocks of 1024; a block's products stay in registers and meet in f32, blocks and threads meet in f64.
//
//   A[rows, block]  copied to rows 4160 bytes apart, since rows of A are K*4 bytes apart: a power of two would put them all into one set of a cache
//   B[block, N]     read as it lies
//   C tile          rows x (1, 2 or 4 vectors of columns): 16 rows x 16 columns with AVX-512; an element of A is broadcast, a row of B multiplied with it
//
// Where B has at most 4 columns and A more rows, or B one column, vectors run along k instead: a row of A times a column of B, lanes added up at the end of the block.
// A chain of f32 additions is 64 terms long, 16 chains are added in f32: in units of 2^-24 * S at most 64 + K/64 up to K = 1024 and 64 + 16 beyond, below the gate's 64 + 2*sqrt(K) for any input.
//
// While a tile computes, it calls the next block of A and the next strip of B into the second-level cache, a line of each with every term.
//
// Bound: 4*K*(M+N) bytes from memory up to about 16 x 16; fused multiply-adds from about 32 x 32 on. Measured on one Zen 4 core beside OpenBLAS's sgemm, milliseconds:
//   16 x 16 x 2^20  8.8 against 17.0 (15 GB/s, of 18 that reading alone gives)    64 x 64 x 65536  5.6 against 8.2 (96 GFLOP/s of 118)
//   1 x 64 x 2^20  13.1 against 32.3    1 x 1 x 2^24  6.7 against 23.4    32 x 1 x 1000003  8.3 against 18.9    5 x 7 x 20011  0.044 against 0.038
// Lost: no calling ahead (15.2 ms at 16 x 16 x 2^20), calling B into the first-level cache (11.2), lines called in bursts (13.5), blocks of 512 or 2048 terms (no difference).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linalg/splitk_tall_skinny_gemm/cpu.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "kernels/linalg/splitk_tall_skinny_gemm/cpu.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/splitk_tall_skinny_gemm.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::splitk_tall_skinny_gemm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using V = hn::Vec<F>;
constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(F()));
constexpr std::int64_t registers = HWY_TARGET <= HWY_AVX3 ? 16 : 8;  // accumulators of a tile; as many again are left for operands with AVX-512, half as many with AVX2

constexpr std::int64_t chain = 64;         // f32 additions one after another
constexpr std::int64_t pitch = block_terms + 16;  // of a copied row of A
constexpr std::int64_t strip_terms = 256;  // of the rows of B that a tile walks before the next tile does: 16 to 32 KiB

/// What a tile calls for while it computes: a line of A and one of B with every term, spread out because bursts wait for each other.
struct Ahead {
  const float* a;         ///< the same place in the next block of A
  std::int64_t a_pitch;
  const char* b;          ///< this tile's share of the next strip of B
  std::int64_t b_stride;  ///< bytes a term
};

/// Into the second-level cache: the first one is full of what the tile reads, and a line that comes too early drives that out.
HWY_INLINE void fetch(const void* line) { __builtin_prefetch(line, 0, 2); }

/// sum[rows][columns] += A[rows, terms] * B[terms, columns]; columns fill `vectors` vectors, the last one perhaps partly. Rows of A are `pitch` apart, those of the sum panel_columns.
template <int rows, int vectors, bool partly>
void add_tile(const float* HWY_RESTRICT a, const Ahead& ahead, const float* HWY_RESTRICT b, std::int64_t N, std::int64_t terms, std::int64_t columns, float* HWY_RESTRICT sum) {
  const F f;
  constexpr std::int64_t fetched_rows = rows >= 16 ? 15 : rows >= 8 ? 7 : rows >= 4 ? 3 : rows >= 2 ? 1 : 0;  // of each line of 16 terms; a mask
  const auto last = hn::FirstN(f, static_cast<std::size_t>(columns - (vectors - 1) * lanes));
  for (std::int64_t first = 0; first < terms; first += chain) {
    const std::int64_t end = std::min(terms, first + chain);
    V acc[rows][vectors];
    for (int i = 0; i < rows; ++i)
      for (int v = 0; v < vectors; ++v) acc[i][v] = hn::Zero(f);
    for (std::int64_t k = first; k < end; ++k) {
      fetch(ahead.a + (k & fetched_rows) * ahead.a_pitch + (k & ~std::int64_t{15}));
      fetch(ahead.b + k * ahead.b_stride);
      V row[vectors];
      for (int v = 0; v < vectors; ++v) row[v] = partly && v == vectors - 1 ? hn::MaskedLoad(last, f, b + k * N + v * lanes) : hn::LoadU(f, b + k * N + v * lanes);
      for (int i = 0; i < rows; ++i) {
        const V x = hn::Set(f, a[i * pitch + k]);
        for (int v = 0; v < vectors; ++v) acc[i][v] = hn::MulAdd(x, row[v], acc[i][v]);
      }
    }
    for (int i = 0; i < rows; ++i)
      for (int v = 0; v < vectors; ++v) {
        float* const at = sum + i * panel_columns + v * lanes;
        hn::Store(hn::Add(hn::Load(f, at), acc[i][v]), f, at);
      }
  }
}

using Tile = void (*)(const float*, const Ahead&, const float*, std::int64_t, std::int64_t, std::int64_t, float*);

/// The tile of at most `rows_left` rows, and how many it takes.
template <int vectors, bool partly, int rows = registers / vectors>
std::pair<Tile, std::int64_t> tile_of(std::int64_t rows_left) {
  if constexpr (rows > 1)
    if (rows_left < rows) return tile_of<vectors, partly, (rows > 8 ? 8 : rows - 1)>(rows_left);
  return {add_tile<rows, vectors, partly>, rows};
}

/// One strip of B against all rows, `vectors` vectors of columns at a time.
template <int vectors>
void add_strip(const float* a, Ahead ahead, const float* b, std::int64_t N, std::int64_t rows, std::int64_t terms, std::int64_t columns, float* sum) {
  const bool partly = columns % lanes != 0;
  for (std::int64_t i = 0; i < rows;) {
    const auto [tile, taken] = partly ? tile_of<vectors, true>(rows - i) : tile_of<vectors, false>(rows - i);
    tile(a + i * pitch, ahead, b, N, terms, columns, sum + i * panel_columns);
    ahead.a += taken * ahead.a_pitch;
    ahead.b += terms * ahead.b_stride;
    i += taken;
  }
}

/// One block, an element of A at a time: sum [rows][panel_columns].
void add_block_by_columns(const Panel& p, std::int64_t first, std::int64_t terms, float* packed, float* sum) {
  const float* a = p.a + first;
  if (p.rows > 1) {
    for (std::int64_t i = 0; i < p.rows; ++i) std::memcpy(packed + i * pitch, a + i * p.K, static_cast<std::size_t>(terms) * sizeof(float));
    a = packed;
  }
  const std::int64_t most = p.rows < registers / 2 ? 4 : 2;  // vectors of columns at a time
  for (std::int64_t k = 0; k < terms; k += strip_terms) {
    const std::int64_t here = std::min(strip_terms, terms - k);
    const float* const b = p.b + (first + k) * p.N;
    for (std::int64_t j = 0; j < p.columns;) {
      const std::int64_t left = p.columns - j, vectors = std::min((left + lanes - 1) / lanes, most), taken = std::min(left, (vectors == 3 ? 2 : vectors) * lanes);
      const std::int64_t tile_rows = registers / (vectors == 3 ? 2 : vectors), tiles = (p.rows + tile_rows - 1) / tile_rows;
      Ahead ahead{p.a + first + block_terms + k, p.K, reinterpret_cast<const char*>(b + strip_terms * p.N), std::min<std::int64_t>(64, p.N * 4 / tiles)};
      if (j > 0) ahead = {a, 0, reinterpret_cast<const char*>(a), 0};  // the first columns have called for everything
      if (taken > 2 * lanes) add_strip<4>(a + k, ahead, b + j, p.N, p.rows, here, taken, sum + j);
      else if (taken > lanes) add_strip<2>(a + k, ahead, b + j, p.N, p.rows, here, taken, sum + j);
      else add_strip<1>(a + k, ahead, b + j, p.N, p.rows, here, taken, sum + j);
      j += taken;
    }
  }
}

#if HWY_TARGET == HWY_SCALAR
double sum_of_lanes(V v) { return static_cast<double>(hn::GetLane(v)); }
#else
double sum_of_lanes(V v) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::PromoteTo(d, hn::LowerHalf(half, v)), hn::PromoteTo(d, hn::UpperHalf(half, v)))));
}
#endif

/// sums[rows][columns] (`sums_pitch` apart) += rows of A times columns of B, both along k.
template <int rows, int columns>
void add_dots(const float* a, std::int64_t a_pitch, const float* b, std::int64_t b_pitch, std::int64_t terms, double* sums, std::int64_t sums_pitch) {
  const F f;
  constexpr int sets = rows * columns >= 4 ? 1 : 4;
  for (std::int64_t first = 0; first < terms; first += chain * lanes) {
    const std::int64_t end = std::min(terms, first + chain * lanes);
    V acc[sets][rows][columns];
    for (int s = 0; s < sets; ++s)
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) acc[s][i][j] = hn::Zero(f);
    const auto add_vector = [&](auto load, std::int64_t k, V (&to)[rows][columns]) HWY_ATTR {
      V column[columns];
      for (int j = 0; j < columns; ++j) column[j] = load(b + j * b_pitch + k);
      for (int i = 0; i < rows; ++i) {
        const V row = load(a + i * a_pitch + k);
        for (int j = 0; j < columns; ++j) to[i][j] = hn::MulAdd(row, column[j], to[i][j]);
      }
    };
    const auto whole = [&](const float* from) HWY_ATTR { return hn::LoadU(f, from); };
    std::int64_t k = first;
    for (; k + sets * lanes <= end; k += sets * lanes)
      for (int s = 0; s < sets; ++s) add_vector(whole, k + s * lanes, acc[s]);
    for (; k + lanes <= end; k += lanes) add_vector(whole, k, acc[0]);
    if (k < end) {
      const auto rest = hn::FirstN(f, static_cast<std::size_t>(end - k));
      add_vector([&](const float* from) HWY_ATTR { return hn::MaskedLoad(rest, f, from); }, k, acc[0]);
    }
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) {
        V total = acc[0][i][j];
        for (int s = 1; s < sets; ++s) total = hn::Add(total, acc[s][i][j]);
        sums[i * sums_pitch + j] += sum_of_lanes(total);
      }
  }
}

template <int columns>
void add_block_by_dots(const Panel& p, std::int64_t first, std::int64_t terms, float* packed, double* sums) {
  const float* b = p.b + first;
  if (p.N > 1) {
    for (std::int64_t k = 0; k < terms; ++k)
      for (int j = 0; j < columns; ++j) packed[j * pitch + k] = p.b[(first + k) * p.N + j];
    b = packed;
  }
  std::int64_t i = 0;
  for (; i + 4 <= p.rows; i += 4) add_dots<4, columns>(p.a + i * p.K + first, p.K, b, pitch, terms, sums + i * p.columns, p.columns);
  for (; i < p.rows; ++i) add_dots<1, columns>(p.a + i * p.K + first, p.K, b, pitch, terms, sums + i * p.columns, p.columns);
}

void add_range(const Panel& p, std::int64_t begin, std::int64_t end, double* sums) {
  const bool by_dots = p.columns == 1 || (p.columns <= 4 && p.rows >= 4);
  const auto packed = hwy::AllocateAligned<float>(static_cast<std::size_t>((by_dots ? p.columns : p.rows) * pitch));
  const auto sum = hwy::AllocateAligned<float>(static_cast<std::size_t>(p.rows * panel_columns));
  if (!packed || !sum) throw std::bad_alloc();
  for (std::int64_t first = begin; first < end; first += block_terms) {
    const std::int64_t terms = std::min(block_terms, end - first);
    if (by_dots) {
      if (p.columns == 1) add_block_by_dots<1>(p, first, terms, packed.get(), sums);
      if (p.columns == 2) add_block_by_dots<2>(p, first, terms, packed.get(), sums);
      if (p.columns == 3) add_block_by_dots<3>(p, first, terms, packed.get(), sums);
      if (p.columns == 4) add_block_by_dots<4>(p, first, terms, packed.get(), sums);
      continue;
    }
    std::memset(sum.get(), 0, static_cast<std::size_t>(p.rows * panel_columns) * sizeof(float));
    add_block_by_columns(p, first, terms, packed.get(), sum.get());
    for (std::int64_t i = 0; i < p.rows; ++i)
      for (std::int64_t j = 0; j < p.columns; ++j) sums[i * p.columns + j] += static_cast<double>(sum[i * panel_columns + j]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace faibench::splitk_tall_skinny_gemm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::splitk_tall_skinny_gemm::cpu {

HWY_EXPORT(add_range);

namespace {

template <class T>
void multiply_into(View<const float, 2> A, View<const float, 2> B, View<T, 2> C) {
  const std::int64_t M = C.extent(0), N = C.extent(1), K = A.extent(1);
  if (C.empty()) return;
  const std::int64_t down = (M + panel_rows - 1) / panel_rows, across = (N + panel_columns - 1) / panel_columns, panels = down * across;
  const bool small = K * (M + N) < 1 << 16 && M * N * K < 1 << 21;  // ends before a second thread is awake
  const int threads = small ? 1 : omp_get_max_threads();
  // Enough panels occupy the threads by themselves; fewer are split along k, in whole blocks.
  const std::int64_t blocks = (K + block_terms - 1) / block_terms, splits = panels >= 4 * threads ? 1 : std::clamp<std::int64_t>(blocks, 1, threads);
  std::vector<double> sums(static_cast<std::size_t>(splits * M * N));
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t item = 0; item < panels * splits; ++item) {
    const std::int64_t panel = item / splits, split = item % splits, i = panel / across * panel_rows, j = panel % across * panel_columns;
    const Panel p{A.data() + i * K, B.data() + j, K, N, std::min(panel_rows, M - i), std::min(panel_columns, N - j)};
    // The sums of a panel lie together: those of the panels before it are i*N + rows*j.
    HWY_DYNAMIC_DISPATCH(add_range)(p, blocks * split / splits * block_terms, std::min(K, blocks * (split + 1) / splits * block_terms), sums.data() + split * M * N + i * N + p.rows * j);
  }
#pragma omp parallel for schedule(static) num_threads(M * N * splits < 1 << 16 ? 1 : threads)
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t i0 = panel / across * panel_rows, j0 = panel % across * panel_columns, rows = std::min(panel_rows, M - i0), columns = std::min(panel_columns, N - j0);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        double total = 0;
        for (std::int64_t split = 0; split < splits; ++split) total += sums[static_cast<std::size_t>(split * M * N + i0 * N + rows * j0 + i * columns + j)];
        C.data()[(i0 + i) * N + j0 + j] = static_cast<T>(total);
      }
  }
}

}  // namespace

void multiply(View<const float, 2> A, View<const float, 2> B, View<float, 2> C) { multiply_into(A, B, C); }
void multiply(View<const float, 2> A, View<const float, 2> B, View<double, 2> C) { multiply_into(A, B, C); }

}  // namespace faibench::splitk_tall_skinny_gemm::cpu
#endif
