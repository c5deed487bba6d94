// The order of the additions fixes the bits, so lanes never mix: a step takes one vector of every stream, adds them in f32 registers and writes one result.
// 16-bit bfloat lanes are taken apart by shift and mask into even and odd ones, and put together in the same way: no shuffles.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/tp_allreduce_bias_fuse/ordered_sum.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "collectives/tp_allreduce_bias_fuse/ordered_sum.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::tp_allreduce_bias_fuse::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // plain x86-64: the compiler's own code

struct Pair { float a, b; };

template <class T> struct Lanes {
  static constexpr std::int64_t count() { return 2; }
  static Pair load(const T* p) { return {to_float(p[0]), to_float(p[1])}; }
  template <bool streamed>
  static void store(Pair v, T* p) {
    p[0] = narrowed(v.a);
    p[1] = narrowed(v.b);
  }
  static T narrowed(float v) { return round_to<T>(v != v ? std::bit_cast<float>(0x7fc00000u) : v); }
};

inline void add(Pair& sum, Pair x) {
  sum.a += x.a;
  sum.b += x.b;
}

#else  // AVX2 with F16C, AVX-512

constexpr hn::ScalableTag<float> d32;
constexpr hn::ScalableTag<std::uint32_t> du32;
constexpr hn::ScalableTag<std::uint16_t> du16;
using F = hn::Vec<decltype(d32)>;
using U32 = hn::Vec<decltype(du32)>;
using U16 = hn::Vec<decltype(du16)>;

/// Two f32 vectors: what one step of the innermost loop holds of a stream. Which element lies in which lane is the dtype's own business.
struct Pair { F a, b; };

HWY_INLINE F without_payload(F v) { return hn::IfThenElse(hn::IsNaN(v), hn::BitCast(d32, hn::Set(du32, 0x7fc00000u)), v); }

template <class T> struct Lanes;

template <> struct Lanes<float> {
  static constexpr std::int64_t count() { return static_cast<std::int64_t>(2 * hn::MaxLanes(d32)); }
  static HWY_INLINE Pair load(const float* p) { return {hn::LoadU(d32, p), hn::LoadU(d32, p + hn::MaxLanes(d32))}; }
  template <bool streamed>
  static HWY_INLINE void store(Pair v, float* p) {
    const F a = without_payload(v.a), b = without_payload(v.b);
    if constexpr (streamed) {
      hn::Stream(a, d32, p);
      hn::Stream(b, d32, p + hn::MaxLanes(d32));
    } else {
      hn::StoreU(a, d32, p);
      hn::StoreU(b, d32, p + hn::MaxLanes(d32));
    }
  }
};

template <bool streamed>
HWY_INLINE void store_u16(U16 v, void* p) {
  if constexpr (streamed) {
    hn::Stream(v, du16, static_cast<std::uint16_t*>(p));
  } else {
    hn::StoreU(v, du16, static_cast<std::uint16_t*>(p));
  }
}

template <> struct Lanes<bf16> {
  static constexpr std::int64_t count() { return static_cast<std::int64_t>(hn::MaxLanes(du16)); }
  static HWY_INLINE Pair load(const bf16* p) {  // a: even elements, b: odd ones
    const U32 both = hn::BitCast(du32, hn::LoadU(du16, reinterpret_cast<const std::uint16_t*>(p)));
    return {hn::BitCast(d32, hn::ShiftLeft<16>(both)), hn::BitCast(d32, hn::And(both, hn::Set(du32, 0xffff0000u)))};
  }
  /// The rounded value in the upper half of each lane, rubbish below.
  static HWY_INLINE U32 rounded(F v) {
    const U32 bits = hn::BitCast(du32, without_payload(v));
    const U32 up = hn::Add(hn::Set(du32, 0x7fffu), hn::And(hn::ShiftRight<16>(bits), hn::Set(du32, 1u)));
    return hn::Add(bits, up);  // 0x7fc00000 stays what it is in the upper half
  }
  template <bool streamed>
  static HWY_INLINE void store(Pair v, bf16* p) {
    const U32 both = hn::Or(hn::ShiftRight<16>(rounded(v.a)), hn::And(rounded(v.b), hn::Set(du32, 0xffff0000u)));
    store_u16<streamed>(hn::BitCast(du16, both), p);
  }
};

// F16C: conversions in hardware, subnormals included, rounding to nearest even.
template <> struct Lanes<f16> {
  static constexpr hn::Rebind<hwy::float16_t, decltype(d32)> d16{};
  static constexpr std::int64_t count() { return static_cast<std::int64_t>(hn::MaxLanes(du16)); }
  static HWY_INLINE Pair load(const f16* p) {  // a: the first half, b: the second
    const auto* q = reinterpret_cast<const hwy::float16_t*>(p);
    return {hn::PromoteTo(d32, hn::LoadU(d16, q)), hn::PromoteTo(d32, hn::LoadU(d16, q + hn::MaxLanes(d32)))};
  }
  template <bool streamed>
  static HWY_INLINE void store(Pair v, f16* p) {
    const hn::Half<decltype(du16)> half;
    const auto a = hn::BitCast(half, hn::DemoteTo(d16, without_payload(v.a))), b = hn::BitCast(half, hn::DemoteTo(d16, without_payload(v.b)));
    store_u16<streamed>(hn::Combine(du16, b, a), p);
  }
};

HWY_INLINE void add(Pair& sum, Pair x) {
  sum.a = hn::Add(sum.a, x.a);
  sum.b = hn::Add(sum.b, x.b);
}

#endif

/// One step on `n` elements from `i`, fewer than a whole one: through copies, so that the same instructions make the bits and nothing outside is touched.
template <class T>
void partial_step(std::span<const T* const> x, std::int64_t i, std::int64_t n, const T* bias, std::span<T* const> outs) {
  alignas(64) T lanes[longest_step] = {};
  for (std::int64_t done = 0; done < n; done += Lanes<T>::count()) {
    const std::int64_t now = std::min<std::int64_t>(n - done, Lanes<T>::count());
    const auto load = [&](const T* from) {
      std::memcpy(lanes, from + done, static_cast<std::size_t>(now) * sizeof(T));
      return Lanes<T>::load(lanes);
    };
    Pair sum = load(x[0] + i);
    for (const T* stream : x.subspan(1)) add(sum, load(stream + i));
    add(sum, load(bias));
    Lanes<T>::template store<false>(sum, lanes);
    for (T* out : outs) std::memcpy(out + i + done, lanes, static_cast<std::size_t>(now) * sizeof(T));
  }
}

/// Elements [i, end) of the whole, on one thread. Two pairs a step: a cache line or two of each stream before the next one's.
template <class T, bool streamed>
void sum_range(std::span<const T* const> x, const WrappedBias<T>& bias, std::int64_t column, std::int64_t i, std::int64_t end, std::span<T* const> outs) {
  constexpr std::int64_t half = Lanes<T>::count(), step = 2 * half;
  static_assert(step <= longest_step);
  const std::int64_t N = bias.N();
  const auto advance = [&](std::int64_t n) {
    i += n;
    column += n;
    if (column >= N) column %= N;
  };
  if (streamed) {
    const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(outs[0] + i) % 64 / sizeof(T));
    if (past != 0) {
      const std::int64_t n = std::min<std::int64_t>(static_cast<std::int64_t>(64 / sizeof(T)) - past, end - i);
      partial_step(x, i, n, bias.at(column), outs);
      advance(n);
    }
  }
  const std::size_t P = x.size();
  while (end - i >= step) {
    Pair s0 = Lanes<T>::load(x[0] + i), s1 = Lanes<T>::load(x[0] + i + half);
    for (std::size_t p = 1; p < P; ++p) {
      add(s0, Lanes<T>::load(x[p] + i));
      add(s1, Lanes<T>::load(x[p] + i + half));
    }
    const T* const b = bias.at(column);
    add(s0, Lanes<T>::load(b));
    add(s1, Lanes<T>::load(b + half));
    for (T* out : outs) {
      Lanes<T>::template store<streamed>(s0, out + i);
      Lanes<T>::template store<streamed>(s1, out + i + half);
    }
    advance(step);
  }
  if (i < end) partial_step(x, i, end - i, bias.at(column), outs);
  if (streamed) hwy::FlushStream();
}

template <class T>
void sum_threaded(std::span<const T* const> x, const WrappedBias<T>& bias, std::int64_t first, std::int64_t count, std::span<T* const> outs, Store store) {
  // Whole lines go past the caches: to one place, or to several that begin alike.
  for (T* out : outs)
    if ((reinterpret_cast<std::uintptr_t>(out) - reinterpret_cast<std::uintptr_t>(outs[0])) % 64 != 0) store = Store::cached;
  const auto sum = [&](std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    if (store == Store::streamed) sum_range<T, true>(x, bias, (first + begin) % bias.N(), begin, end, outs);
    else sum_range<T, false>(x, bias, (first + begin) % bias.N(), begin, end, outs);
  };
  // Below a quarter of a MiB a thread team costs more than it saves.
  if (static_cast<std::int64_t>(x.size() + 1) * count * static_cast<std::int64_t>(sizeof(T)) < 1 << 18) {
    sum(0, count);
    return;
  }
#pragma omp parallel
  {
    const std::int64_t threads = omp_get_num_threads(), t = omp_get_thread_num();
    sum(count * t / threads / longest_step * longest_step, t + 1 == threads ? count : count * (t + 1) / threads / longest_step * longest_step);
  }
}

void sum_f32(std::span<const float* const> x, const WrappedBias<float>& bias, std::int64_t first, std::int64_t count, std::span<float* const> outs, Store store) {
  sum_threaded(x, bias, first, count, outs, store);
}
void sum_f16(std::span<const f16* const> x, const WrappedBias<f16>& bias, std::int64_t first, std::int64_t count, std::span<f16* const> outs, Store store) {
  sum_threaded(x, bias, first, count, outs, store);
}
void sum_bf16(std::span<const bf16* const> x, const WrappedBias<bf16>& bias, std::int64_t first, std::int64_t count, std::span<bf16* const> outs, Store store) {
  sum_threaded(x, bias, first, count, outs, store);
}

}  // namespace faibench::tp_allreduce_bias_fuse::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::tp_allreduce_bias_fuse {

HWY_EXPORT(sum_f32);
HWY_EXPORT(sum_f16);
HWY_EXPORT(sum_bf16);

template <>
void ordered_sum<float>(std::span<const float* const> x, const WrappedBias<float>& bias, std::int64_t first, std::int64_t count, std::span<float* const> outs, Store store) {
  HWY_DYNAMIC_DISPATCH(sum_f32)(x, bias, first, count, outs, store);
}
template <>
void ordered_sum<f16>(std::span<const f16* const> x, const WrappedBias<f16>& bias, std::int64_t first, std::int64_t count, std::span<f16* const> outs, Store store) {
  HWY_DYNAMIC_DISPATCH(sum_f16)(x, bias, first, count, outs, store);
}
template <>
void ordered_sum<bf16>(std::span<const bf16* const> x, const WrappedBias<bf16>& bias, std::int64_t first, std::int64_t count, std::span<bf16* const> outs, Store store) {
  HWY_DYNAMIC_DISPATCH(sum_bf16)(x, bias, first, count, outs, store);
}

}  // namespace faibench::tp_allreduce_bias_fuse
#endif
