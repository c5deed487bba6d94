// Queries of a head group on the vector lanes, keys and values broadcast, online softmax; tiles past the diagonal skipped, longest rows first over threads.
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
#include "hwy/highway.h"
#include "hwy/aligned_allocator.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::flash_causal_attn_prefill::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using V = hn::Vec<F>;
constexpr std::int64_t lanes = hn::MaxLanes(F());
// A micro-kernel holds `block` x `columns` accumulators: 24 of 32 registers with AVX-512, 12 of 16 without, which leaves room for a row of lanes and a broadcast.
constexpr std::int64_t columns = 3;
constexpr std::int64_t block = HWY_TARGET == HWY_AVX3 ? 8 : 4;
constexpr std::int64_t tile_rows = columns * lanes;  // queries of a tile
constexpr std::int64_t tile_keys = 64;               // 12 KiB of scores with AVX-512

/// Working memory of a thread. W = (vectors of the tile) * lanes.
struct Scratch {
  float* q;          // [D][W]          queries, one a lane, sign of the scale folded in
  float* out;        // [D][W]          running sum of p*v
  float* s;          // [tile_keys][W]  scores, then their exponentials
  float* maximum;    // [W]             largest raw score so far, -inf: no key seen
  float* total;      // [W]             running sum of p
  float* tile_max;   // [W]             largest raw score of this key tile
  float* factor;     // [W]             what the running sums are to be multiplied with
  float* last;       // [W]             last visible key of the lane, counted from the tile's first key
  static std::int64_t floats(std::int64_t D) { return (2 * D + tile_keys + 5) * tile_rows; }
  Scratch(float* memory, std::int64_t D)
      : q(memory), out(q + D * tile_rows), s(out + D * tile_rows), maximum(s + tile_keys * tile_rows), total(maximum + tile_rows), tile_max(total + tile_rows),
        factor(tile_max + tile_rows), last(factor + tile_rows) {}
};

// exp(x) for x <= 0 (or a rounding error above), 1 at 0, relative error 2e-7, exact 0 below every subnormal.
// 2^t with t = n + f, |f| <= 1/2, and a minimax polynomial with constant term 1 for 2^f.
HWY_INLINE V exp_of(V x) {
  const F f;
  const V magic = hn::Set(f, 0x1.8p23f), log2e = hn::Set(f, 1.44269504f);
  x = hn::Max(x, hn::Set(f, -105.0f));
  const V shifted = hn::MulAdd(x, log2e, magic);
  const V n = hn::Sub(shifted, magic);
  const V t = hn::MulSub(x, log2e, n);
  V p = hn::MulAdd(hn::Set(f, 0.0013264733f), t, hn::Set(f, 0.009671515f));
  p = hn::MulAdd(p, t, hn::Set(f, 0.055507336f));
  p = hn::MulAdd(p, t, hn::Set(f, 0.24022242f));
  p = hn::MulAdd(p, t, hn::Set(f, 0.693147f));
  p = hn::MulAdd(p, t, hn::Set(f, 1.0f));
#if HWY_TARGET == HWY_AVX3
  return V{_mm512_scalef_ps(p.raw, n.raw)};
#else
  // Two powers of two, so that results below 2^-126 round to subnormals and to 0.
  const hn::RebindToSigned<F> i;
  const auto e = hn::Sub(hn::BitCast(i, shifted), hn::BitCast(i, magic)), half = hn::ShiftRight<1>(e), bias = hn::Set(i, 127);
  const V first = hn::BitCast(f, hn::ShiftLeft<23>(hn::Add(half, bias))), second = hn::BitCast(f, hn::ShiftLeft<23>(hn::Add(hn::Sub(e, half), bias)));
  return hn::Mul(hn::Mul(p, first), second);
#endif
}

// ---- the two products, register-blocked; R... counts the rows of a block, one accumulator row each ----

template <int NV>
HWY_INLINE void add_product(V (&sum)[NV], V factor, const V (&x)[NV]) {
  sum[0] = hn::MulAdd(factor, x[0], sum[0]);
  if constexpr (NV > 1) sum[1] = hn::MulAdd(factor, x[1], sum[1]);
  if constexpr (NV > 2) sum[2] = hn::MulAdd(factor, x[2], sum[2]);
}
template <int NV>
HWY_INLINE void load(V (&x)[NV], const float* from) {
  const F f;
  x[0] = hn::Load(f, from);
  if constexpr (NV > 1) x[1] = hn::Load(f, from + lanes);
  if constexpr (NV > 2) x[2] = hn::Load(f, from + 2 * lanes);
}
template <int NV>
HWY_INLINE void store(const V (&x)[NV], float* to) {
  const F f;
  hn::Store(x[0], f, to);
  if constexpr (NV > 1) hn::Store(x[1], f, to + lanes);
  if constexpr (NV > 2) hn::Store(x[2], f, to + 2 * lanes);
}
template <int NV>
HWY_INLINE void multiply(V (&x)[NV], const V (&y)[NV]) {
  x[0] = hn::Mul(x[0], y[0]);
  if constexpr (NV > 1) x[1] = hn::Mul(x[1], y[1]);
  if constexpr (NV > 2) x[2] = hn::Mul(x[2], y[2]);
}
template <int NV>
HWY_INLINE void raise(V (&x)[NV], const V (&y)[NV]) {
  x[0] = hn::Max(x[0], y[0]);
  if constexpr (NV > 1) x[1] = hn::Max(x[1], y[1]);
  if constexpr (NV > 2) x[2] = hn::Max(x[2], y[2]);
}
template <int NV>
HWY_INLINE void clear(V (&x)[NV]) {
  const F f;
  x[0] = hn::Zero(f);
  if constexpr (NV > 1) x[1] = hn::Zero(f);
  if constexpr (NV > 2) x[2] = hn::Zero(f);
}

// s[r][lane] = sum_d k[r][d] * q[d][lane]; tile_max is raised to the scores.
template <int NV, std::size_t... R>
HWY_INLINE void score_rows(std::index_sequence<R...>, const float* HWY_RESTRICT k, std::int64_t stride, const float* HWY_RESTRICT q, std::int64_t D, float* HWY_RESTRICT s,
                           float* HWY_RESTRICT tile_max) {
  const F f;
  constexpr std::int64_t W = NV * lanes;
  V sum[sizeof...(R)][NV];  // (block keys, W queries)
  (clear<NV>(sum[R]), ...);
  const float* const keys[] = {k + static_cast<std::int64_t>(R) * stride...};
  for (std::int64_t d = 0; d < D; ++d) {
    V x[NV];
    load<NV>(x, q + d * W);
    (add_product<NV>(sum[R], hn::Set(f, keys[R][d]), x), ...);
  }
  V highest[NV];
  load<NV>(highest, tile_max);
  (raise<NV>(highest, sum[R]), ...);
  store<NV>(highest, tile_max);
  (store<NV>(sum[R], s + static_cast<std::int64_t>(R) * W), ...);
}

// out[r][lane] = out[r][lane] * factor[lane] + sum_j v[j][r] * p[j][lane]; factor may be null.
template <int NV, std::size_t... R>
HWY_INLINE void value_rows(std::index_sequence<R...>, const float* HWY_RESTRICT v, std::int64_t stride, const float* HWY_RESTRICT p, std::int64_t keys, float* HWY_RESTRICT out,
                           const float* HWY_RESTRICT factor) {
  const F f;
  constexpr std::int64_t W = NV * lanes;
  V sum[sizeof...(R)][NV];  // (block dimensions, W queries)
  (load<NV>(sum[R], out + static_cast<std::int64_t>(R) * W), ...);
  if (factor) {
    V x[NV];
    load<NV>(x, factor);
    (multiply<NV>(sum[R], x), ...);
  }
  for (std::int64_t j = 0; j < keys; ++j, v += stride) {
    V x[NV];
    load<NV>(x, p + j * W);
    (add_product<NV>(sum[R], hn::Set(f, v[R]), x), ...);
  }
  (store<NV>(sum[R], out + static_cast<std::int64_t>(R) * W), ...);
}

template <int NV>
void scores(const float* k, std::int64_t stride, const float* q, std::int64_t D, std::int64_t keys, float* s, float* tile_max) {
  constexpr std::int64_t W = NV * lanes;
  std::int64_t j = 0;
  for (; j + block <= keys; j += block) score_rows<NV>(std::make_index_sequence<block>(), k + j * stride, stride, q, D, s + j * W, tile_max);
  if constexpr (block > 4)
    for (; j + 4 <= keys; j += 4) score_rows<NV>(std::make_index_sequence<4>(), k + j * stride, stride, q, D, s + j * W, tile_max);
  for (; j < keys; ++j) score_rows<NV>(std::make_index_sequence<1>(), k + j * stride, stride, q, D, s + j * W, tile_max);
}

template <int NV>
void add_values(const float* v, std::int64_t stride, const float* p, std::int64_t keys, std::int64_t D, float* out, const float* factor) {
  constexpr std::int64_t W = NV * lanes;
  std::int64_t d = 0;
  for (; d + block <= D; d += block) value_rows<NV>(std::make_index_sequence<block>(), v + d, stride, p, keys, out + d * W, factor);
  if constexpr (block > 4)
    for (; d + 4 <= D; d += 4) value_rows<NV>(std::make_index_sequence<4>(), v + d, stride, p, keys, out + d * W, factor);
  for (; d < D; ++d) value_rows<NV>(std::make_index_sequence<1>(), v + d, stride, p, keys, out + d * W, factor);
}

// ---- online softmax ----

// The largest score of each lane among the keys it sees.
template <int NV>
void visible_max(const Scratch& w, std::int64_t keys) {
  const F f;
  for (std::int64_t c = 0; c < NV * lanes; c += lanes) {
    const V last = hn::Load(f, w.last + c), none = hn::Set(f, -std::numeric_limits<float>::infinity());
    V highest = none;
    for (std::int64_t j = 0; j < keys; ++j) {
      const auto visible = hn::Le(hn::Set(f, static_cast<float>(j)), last);
      highest = hn::Max(highest, hn::IfThenElse(visible, hn::Load(f, w.s + j * NV * lanes + c), none));
    }
    hn::Store(highest, f, w.tile_max + c);
  }
}

// The scaled maximum, 0 while no key was seen (so that nothing becomes inf - inf).
HWY_INLINE V scaled(V maximum, V scale) {
  const F f;
  return hn::IfThenElseZero(hn::Gt(maximum, hn::Set(f, -std::numeric_limits<float>::infinity())), hn::Mul(maximum, scale));
}

// Scores become exp(scale*s - new maximum), 0 where masked; maximum and total move on. False if every factor is 1.
template <int NV, bool masked>
bool exponentials(const Scratch& w, std::int64_t keys, float scale_value) {
  const F f;
  const V scale = hn::Set(f, scale_value);
  bool moved = false;
  for (std::int64_t c = 0; c < NV * lanes; c += lanes) {
    const V before = hn::Load(f, w.maximum + c), after = hn::Max(before, hn::Load(f, w.tile_max + c)), m = scaled(after, scale);
    const V factor = exp_of(hn::Min(hn::Sub(scaled(before, scale), m), hn::Zero(f)));
    hn::Store(after, f, w.maximum + c);
    hn::Store(factor, f, w.factor + c);
    moved = moved || !hn::AllTrue(f, hn::Eq(factor, hn::Set(f, 1.0f)));
    V sum = hn::Zero(f);
    float* s = w.s + c;
    const V last = masked ? hn::Load(f, w.last + c) : hn::Zero(f);
    for (std::int64_t j = 0; j < keys; ++j, s += NV * lanes) {
      // One rounding for scale*s - m: the difference is taken before any change of base.
      V p = exp_of(hn::MulSub(hn::Load(f, s), scale, m));
      if constexpr (masked) p = hn::IfThenElseZero(hn::Le(hn::Set(f, static_cast<float>(j)), last), p);
      sum = hn::Add(sum, p);
      hn::Store(p, f, s);
    }
    hn::Store(hn::MulAdd(hn::Load(f, w.total + c), factor, sum), f, w.total + c);
  }
  return moved;
}

// ---- rows in and out ----

HWY_INLINE void to_floats(const float* from, std::int64_t n, float* to) { std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float)); }
template <class T>
HWY_INLINE void to_floats(const T* from, std::int64_t n, float* to) {
  using Half = std::conditional_t<std::is_same_v<T, f16>, hwy::float16_t, hwy::bfloat16_t>;
  const F f;
  const hn::Rebind<Half, F> half;
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::PromoteTo(f, hn::LoadU(half, reinterpret_cast<const Half*>(from) + i)), f, to + i);
  for (; i < n; ++i) to[i] = to_float(from[i]);
}

// to[c][r] = from[r][c] for 4 x 4 elements, or 1 x 1 where vectors have no 4 lanes. GCC makes scatters of the plain loops, which took 2.6% of the time.
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
  for (std::int64_t c = 0; c < W; c += lanes) {
    const V total = hn::Load(f, w.total + c);
    const V inverse = hn::IfThenElseZero(hn::Gt(total, hn::Zero(f)), hn::Div(hn::Set(f, 1.0f), total));
    for (std::int64_t d = 0; d < p.D; ++d) hn::Store(hn::MulAdd(hn::Load(f, w.out + d * W + c), inverse, hn::Zero(f)), f, w.out + d * W + c);
  }
  store_rows<W>(p, b, key_head, first_row, rows, w.out);
}

template <class T>
void attend(const Problem<T>& p) {
  const std::int64_t rows = p.Lq * p.group(), tiles = (rows + tile_rows - 1) / tile_rows, groups = p.B * p.Hk, length = p.Lk * p.D;
  if (tiles * groups == 0) return;
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
      const std::int64_t g = item / tiles, b = g / p.Hk, h = g % p.Hk, first = (tiles - 1 - item % tiles) * tile_rows, n = std::min(tile_rows, rows - first);
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
