// Attention of a whole prompt on the CPU.
//
// Idea. A tile is up to 48 query rows, one a vector lane (3 vectors of 16 with AVX-512); keys are walked 64 at a time with an online softmax.
//   S^T[key][query] = sum_d k[key][d] * q^T[d][query]      8 keys x 48 queries in 24 registers; k is broadcast from where it lies
//   P^T             = exp(scale*S^T - m)                   in place; maximum, sum and correction are vertical, no horizontal reduction anywhere
//   O^T[d][query]  += v[key][d] * P^T[key][query]          8 dimensions x 48 queries in 24 registers; v is broadcast from where it lies
// Neither k nor v is transposed or padded, any D works, and 24 fused multiply-adds share 11 loads. The rows of a tile are the H/Hk heads of neighbouring
// queries, so a loaded key serves all heads of its group and the ragged diagonal is only 48/(H/Hk) keys wide; keys past the tile's last row are never touched.
// scale*S - m is one fused operation, hence the difference comes before the change of base and scores near 1e5 lose nothing more. The sign of the scale goes
// into q: the largest score is then the largest raw product, whatever the scale. Threads take tiles, the longest first.
// A lane's operations never depend on other lanes, on the blocking or on masked keys: a row has the same bits alone, in its prompt and on any number of threads.
//
// Bound. Fused multiply-adds: 128 a vector of scores at D = 64, plus 8 in exp on the same ports: 94% of the peak at best. Measured on a Zen 4 core (peak 116 GFLOP/s):
// 84 to 86% at D = 64, 86% at D = 128 in bf16, 73% at D = 256 (q^T no longer fits the first-level cache); two cores are twice as fast. The two products take 88% of the
// time, exp 7%, moving rows to and from lanes 3%.
//
// Tried and lost. Plain loops between rows and lanes: the compiler's gathers and scatters took 4%. Key tiles of 32, 128 and 256, the exp loop unrolled by 2 and 4: no
// difference beyond the noise of 1%.
// Not tried: AVX512-BF16 and AMX for half inputs, which could double the products.
#include "kernels/sequence/flash_causal_attn_prefill/cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include <omp.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sequence/flash_causal_attn_prefill/cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"
#include "kernels/sequence/flash_causal_attn_prefill/cpu_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::flash_causal_attn_prefill::cpu {
namespace HWY_NAMESPACE {

// ---- rows in and out ----

HWY_INLINE void to_floats(const float* from, std::int64_t n, float* to) { std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float)); }
template <class T>
HWY_INLINE void to_floats(const T* from, std::int64_t n, float* to) {
  using Half = std::conditional_t<std::is_same_v<T, f16>, hwy::float16_t, hwy::bfloat16_t>;
  const F f;
  const hn::Rebind<Half, F> half;
  std::int64_t i = 0;
  if constexpr (lanes > 1)
    for (; i + lanes <= n; i += lanes) hn::StoreU(hn::PromoteTo(f, hn::LoadU(half, reinterpret_cast<const Half*>(from) + i)), f, to + i);
  for (; i < n; ++i) to[i] = to_float(from[i]);
}

// to[c][r] = from[r][c] for 4 x 4 elements, or 1 x 1 where vectors have no 4 lanes. GCC makes gathers and scatters of plain loops: 4% of the time.
constexpr std::int64_t patch = HWY_TARGET == HWY_SCALAR ? 1 : 4;
HWY_INLINE void transpose_patch(const float* const (&from)[patch], float* const (&to)[patch]) {
#if HWY_TARGET == HWY_SCALAR
  *to[0] = *from[0];
#else
  const hn::CappedTag<float, patch> f;
  const auto a = hn::LoadU(f, from[0]), b = hn::LoadU(f, from[1]), c = hn::LoadU(f, from[2]), d = hn::LoadU(f, from[3]);
  const auto ab = hn::InterleaveLower(f, a, b), cd = hn::InterleaveLower(f, c, d), AB = hn::InterleaveUpper(f, a, b), CD = hn::InterleaveUpper(f, c, d);
  hn::StoreU(hn::ConcatLowerLower(f, cd, ab), f, to[0]);
  hn::StoreU(hn::ConcatUpperUpper(f, cd, ab), f, to[1]);
  hn::StoreU(hn::ConcatLowerLower(f, CD, AB), f, to[2]);
  hn::StoreU(hn::ConcatUpperUpper(f, CD, AB), f, to[3]);
#endif
}

// One element a row: rows[r] + d for r = 0 .. patch-1.
template <class Pointer, std::size_t... R>
HWY_INLINE void rows_to_lanes(std::index_sequence<R...>, const Pointer (&rows)[patch], std::int64_t D, std::int64_t W, float* lanes_of) {
  std::int64_t d = 0;
  for (; d + patch <= D; d += patch) transpose_patch({rows[R] + d...}, {lanes_of + (d + static_cast<std::int64_t>(R)) * W...});
  for (; d < D; ++d) ((lanes_of[d * W + static_cast<std::int64_t>(R)] = rows[R][d]), ...);
}
template <class Pointer, std::size_t... R>
HWY_INLINE void lanes_to_rows(std::index_sequence<R...>, const float* lanes_of, std::int64_t D, std::int64_t W, const Pointer (&rows)[patch]) {
  std::int64_t d = 0;
  for (; d + patch <= D; d += patch) transpose_patch({lanes_of + (d + static_cast<std::int64_t>(R)) * W...}, {rows[R] + d...});
  for (; d < D; ++d) ((rows[R][d] = lanes_of[d * W + static_cast<std::int64_t>(R)]), ...);
}

/// Keys and values of one (batch, key head) as f32 rows.
struct Sequence {
  const float *k, *v;
  std::int64_t stride;
};

/// Query rows of one key head: row r is query r / group of head (key head)*group + r % group.
template <class T>
std::int64_t row_offset(const Problem<T>& p, std::int64_t b, std::int64_t key_head, std::int64_t row) {
  return ((b * p.Lq + row / p.group()) * p.H + key_head * p.group() + row % p.group()) * p.D;
}

// Rows onto the lanes of q [D][W], sign of the scale folded in; lanes without a row are 0.
template <std::int64_t W, class T>
void load_queries(const Problem<T>& p, std::int64_t b, std::int64_t key_head, std::int64_t first_row, std::int64_t rows, float* q) {
  const F f;
  float row[patch][256];
  for (std::int64_t r = 0; r < W; r += patch) {
    const float* from[patch];
    for (std::int64_t i = 0; i < patch; ++i) {
      from[i] = row[i];
      if (r + i < rows) to_floats(p.q + row_offset(p, b, key_head, first_row + r + i), p.D, row[i]);
      else std::memset(row[i], 0, sizeof row[i]);
    }
    rows_to_lanes(std::make_index_sequence<patch>(), from, p.D, W, q + r);
  }
  if (p.scale < 0)
    for (std::int64_t i = 0; i < p.D * W; i += lanes) hn::Store(hn::Neg(hn::Load(f, q + i)), f, q + i);
}

// The lanes of out [D][W] to rows.
template <std::int64_t W, class T>
void store_rows(const Problem<T>& p, std::int64_t b, std::int64_t key_head, std::int64_t first_row, std::int64_t rows, const float* out) {
  float row[patch][256];
  for (std::int64_t r = 0; r < rows; r += patch) {
    float* to[patch];
    for (std::int64_t i = 0; i < patch; ++i) to[i] = row[i];
    lanes_to_rows(std::make_index_sequence<patch>(), out + r, p.D, W, to);
    for (std::int64_t i = 0; i < std::min(patch, rows - r); ++i) {
      T* result = p.out + row_offset(p, b, key_head, first_row + r + i);
      for (std::int64_t d = 0; d < p.D; ++d) result[d] = round_to<T>(row[i][d]);
    }
  }
}

template <int NV, class T>
void attend_tile(const Problem<T>& p, const Sequence& keys, std::int64_t b, std::int64_t key_head, std::int64_t first_row, std::int64_t rows, const Scratch& w) {
  const F f;
  constexpr std::int64_t W = NV * lanes;
  const std::int64_t first_query = first_row / p.group(), last_query = (first_row + rows - 1) / p.group();
  const std::int64_t seen_by_all = p.visible(first_query), seen = p.visible(last_query);

  load_queries<W>(p, b, key_head, first_row, rows, w.q);
  std::memset(w.out, 0, static_cast<std::size_t>(p.D * W) * sizeof(float));
  const V none = hn::Set(f, -std::numeric_limits<float>::infinity());
  for (std::int64_t c = 0; c < W; c += lanes) {
    hn::Store(none, f, w.maximum + c);
    hn::Store(hn::Zero(f), f, w.total + c);
  }

  const float scale = std::abs(p.scale);
  for (std::int64_t j = 0; j < seen; j += tile_keys) {
    const std::int64_t n = std::min(tile_keys, seen - j);
    for (std::int64_t c = 0; c < W; c += lanes) hn::Store(none, f, w.tile_max + c);
    scores<NV>(keys.k + j * keys.stride, keys.stride, w.q, p.D, n, w.s, w.tile_max);
    bool moved;
    if (j + n <= seen_by_all) {
      moved = exponentials<NV, false>(w, n, scale);
    } else {
      for (std::int64_t r = 0; r < W; ++r) {
        const std::int64_t last = p.visible((first_row + std::min(r, rows - 1)) / p.group()) - 1 - j;
        w.last[r] = static_cast<float>(std::clamp<std::int64_t>(last, -1, tile_keys));
      }
      visible_max<NV>(w, n);
      moved = exponentials<NV, true>(w, n, scale);
    }
    add_values<NV>(keys.v + j * keys.stride, keys.stride, w.s, n, p.D, w.out, moved ? w.factor : nullptr);
  }

  // One division a row; + 0 makes a -0 that an underflow left the same 0 whatever the masked values' signs were.
  bool finite = true;
  for (std::int64_t c = 0; c < W; c += lanes) {
    const V total = hn::Load(f, w.total + c), zero = hn::Zero(f);
    const V inverse = hn::IfThenElseZero(hn::Gt(total, zero), hn::Div(hn::Set(f, 1.0f), total));
    V witness = zero;  // becomes NaN with the first infinity or NaN
    for (std::int64_t d = 0; d < p.D; ++d) {
      const V mean = hn::MulAdd(hn::Load(f, w.out + d * W + c), inverse, zero);
      witness = hn::MulAdd(mean, zero, witness);
      hn::Store(mean, f, w.out + d * W + c);
    }
    finite = finite && hn::AllTrue(f, hn::Eq(witness, zero));
  }
  store_rows<W>(p, b, key_head, first_row, rows, w.out);
  if (finite) return;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t d = 0; d < p.D; ++d)
      if (!std::isfinite(w.out[d * W + r])) {
        attend_row_wide(p, b, (first_row + r) / p.group(), key_head * p.group() + (first_row + r) % p.group());
        break;
      }
}

template <class T>
void attend(const Problem<T>& p) {
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t rows = p.Lq * p.group(), groups = p.B * p.Hk, length = p.Lk * p.D;
  if (rows * groups == 0) return;
  // Tiles of equal size: 4 vectors of queries are two tiles of 2, not one of 3 and a slow one of 1.
  const std::int64_t vectors = ceil_div(rows, lanes), size = ceil_div(vectors, ceil_div(vectors, columns)) * lanes, tiles = ceil_div(rows, size);
  const int threads = omp_get_max_threads();
  const std::int64_t scratch_floats = Scratch::floats(p.D);
  // Half keys and values are converted once; f32 ones with several heads are gathered where that is paid back by many query tiles.
  const bool packed = !std::is_same_v<T, float> || (p.Hk > 1 && tiles >= 8);
  const auto scratch = hwy::AllocateAligned<float>(static_cast<std::size_t>(threads * scratch_floats));
  const auto pack = hwy::AllocateAligned<float>(static_cast<std::size_t>(packed ? 2 * groups * length + 1 : 1));
  if (!scratch || !pack) throw std::bad_alloc();

#pragma omp parallel num_threads(threads)
  {
    const Scratch mine(scratch.get() + omp_get_thread_num() * scratch_floats, p.D);
    if (packed) {
#pragma omp for schedule(static)
      for (std::int64_t bj = 0; bj < p.B * p.Lk; ++bj)
        for (std::int64_t h = 0; h < p.Hk; ++h) {
          float* to = pack.get() + ((bj / p.Lk * p.Hk + h) * p.Lk + bj % p.Lk) * p.D;
          to_floats(p.k + (bj * p.Hk + h) * p.D, p.D, to);
          to_floats(p.v + (bj * p.Hk + h) * p.D, p.D, to + groups * length);
        }
    }
    // Tiles of a group from its last, the longest under the mask, to its first.
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t item = 0; item < tiles * groups; ++item) {
      const std::int64_t g = item / tiles, b = g / p.Hk, h = g % p.Hk, first = (tiles - 1 - item % tiles) * size, n = std::min(size, rows - first);
      Sequence keys{pack.get() + g * length, pack.get() + (groups + g) * length, p.D};
      if constexpr (std::is_same_v<T, float>)
        if (!packed) keys = {p.k + (b * p.Lk * p.Hk + h) * p.D, p.v + (b * p.Lk * p.Hk + h) * p.D, p.Hk * p.D};
      if (n > 2 * lanes) attend_tile<3>(p, keys, b, h, first, n, mine);
      else if (n > lanes) attend_tile<2>(p, keys, b, h, first, n, mine);
      else attend_tile<1>(p, keys, b, h, first, n, mine);
    }
  }
}

void attend_f32(const Problem<float>& p) { attend(p); }
void attend_f16(const Problem<f16>& p) { attend(p); }
void attend_bf16(const Problem<bf16>& p) { attend(p); }

}  // namespace HWY_NAMESPACE
}  // namespace faibench::flash_causal_attn_prefill::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::flash_causal_attn_prefill::cpu {

HWY_EXPORT(attend_f32);
HWY_EXPORT(attend_f16);
HWY_EXPORT(attend_bf16);

template <class T>
void causal_attention(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, float scale, bool causal, View<T, 4> out) {
  const Problem<T> problem{q.data(), k.data(), v.data(), out.data(), q.extent(0), q.extent(1), k.extent(1), q.extent(2), k.extent(2), q.extent(3), scale, causal};
  if constexpr (std::is_same_v<T, float>) HWY_DYNAMIC_DISPATCH(attend_f32)(problem);
  if constexpr (std::is_same_v<T, f16>) HWY_DYNAMIC_DISPATCH(attend_f16)(problem);
  if constexpr (std::is_same_v<T, bf16>) HWY_DYNAMIC_DISPATCH(attend_bf16)(problem);
}
template void causal_attention(View<const float, 4>, View<const float, 4>, View<const float, 4>, float, bool, View<float, 4>);
template void causal_attention(View<const f16, 4>, View<const f16, 4>, View<const f16, 4>, float, bool, View<f16, 4>);
template void causal_attention(View<const bf16, 4>, View<const bf16, 4>, View<const bf16, 4>, float, bool, View<bf16, 4>);

}  // namespace faibench::flash_causal_attn_prefill::cpu
#endif  // HWY_ONCE
