// The arithmetic of one tile for one instruction set: both products and the online softmax between them. Included by cpu.cpp once for each target.
#if defined(FAIBENCH_FLASH_CAUSAL_ATTN_PREFILL_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)  // Highway's guard: once a target
#ifdef FAIBENCH_FLASH_CAUSAL_ATTN_PREFILL_TILE_INL_H
#undef FAIBENCH_FLASH_CAUSAL_ATTN_PREFILL_TILE_INL_H
#else
#define FAIBENCH_FLASH_CAUSAL_ATTN_PREFILL_TILE_INL_H
#endif

#include <cstdint>
#include <limits>
#include <utility>

#include "hwy/highway.h"

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
constexpr std::int64_t tile_rows = columns * lanes;  // most queries of a tile
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

}  // namespace HWY_NAMESPACE
}  // namespace faibench::flash_causal_attn_prefill::cpu
HWY_AFTER_NAMESPACE();

#endif  // once a target
