// The register tile: rows x (1 or 2 vectors) of sums stay in registers while k runs. Included by multiply.cpp and f64.cpp once for each instruction set.
#if defined(FAIBENCH_GEMM_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)  // Highway's guard: once a target
#ifdef FAIBENCH_GEMM_TILE_INL_H
#undef FAIBENCH_GEMM_TILE_INL_H
#else
#define FAIBENCH_GEMM_TILE_INL_H
#endif

#include <cstdint>
#include <utility>

#include "gemm/ahead.h"
#include "gemm/problem.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

// Plain x86-64: the compiler's vectors of 4, since Highway has only single lanes here.
typedef float V __attribute__((vector_size(16)));
constexpr std::int64_t lanes = 4;
HWY_INLINE V load(const float* from) { return *reinterpret_cast<const V*>(from); }
HWY_INLINE V load_unaligned(const float* from) { V v; __builtin_memcpy(&v, from, 16); return v; }
HWY_INLINE void store(V v, float* to) { *reinterpret_cast<V*>(to) = v; }
HWY_INLINE void store_unaligned(V v, float* to) { __builtin_memcpy(to, &v, 16); }
HWY_INLINE V broadcast(float x) { return V{x, x, x, x}; }
HWY_INLINE V multiply_add(V a, V b, V sum) { return a * b + sum; }
HWY_INLINE V zero() { return V{}; }

#else

using F = hn::ScalableTag<float>;
using V = hn::Vec<F>;
constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(F()));
HWY_INLINE V load(const float* from) { return hn::Load(F(), from); }
HWY_INLINE V load_unaligned(const float* from) { return hn::LoadU(F(), from); }
HWY_INLINE void store(V v, float* to) { hn::Store(v, F(), to); }
HWY_INLINE void store_unaligned(V v, float* to) { hn::StoreU(v, F(), to); }
HWY_INLINE V broadcast(float x) { return hn::Set(F(), x); }
HWY_INLINE V multiply_add(V a, V b, V sum) { return hn::MulAdd(a, b, sum); }
HWY_INLINE V zero() { return hn::Zero(F()); }

#endif

/// A vector of an operand as floats, from any address.
HWY_INLINE V load_floats(const float* from) { return load_unaligned(from); }
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE V load_floats(const f16* from) { return V{to_float(from[0]), to_float(from[1]), to_float(from[2]), to_float(from[3])}; }
#else
HWY_INLINE V load_floats(const f16* from) { return hn::PromoteTo(F(), hn::LoadU(hn::Rebind<hwy::float16_t, F>(), reinterpret_cast<const hwy::float16_t*>(from))); }
#endif

// AVX-512: 28 of 32 registers hold sums, 2 a row of b, 1 an element of a: 28 fused multiply-adds for 16 loads. AVX2 and SSE2: 12 of 16.
constexpr TileShape tile_shape{HWY_TARGET == HWY_AVX3 ? 14 : 6, 2 * lanes};

template <int NV>
HWY_INLINE void add_products(V (&sum)[NV], V factor, const V (&b)[NV]) {
  sum[0] = multiply_add(factor, b[0], sum[0]);
  if constexpr (NV > 1) sum[1] = multiply_add(factor, b[1], sum[1]);
}

template <int NV, std::size_t... R>
HWY_INLINE void step(std::index_sequence<R...>, V (&sum)[sizeof...(R)][NV], const float* HWY_RESTRICT a, const float* HWY_RESTRICT b) {
  V row[NV];
  row[0] = load(b);
  if constexpr (NV > 1) row[1] = load(b + lanes);
  (add_products<NV>(sum[R], broadcast(a[static_cast<std::int64_t>(R) * a_pitch]), row), ...);
}

template <int NV>
HWY_INLINE void begin(V (&sum)[NV], const float* sums, bool first) {
  sum[0] = first ? zero() : load(sums);
  if constexpr (NV > 1) sum[1] = first ? zero() : load(sums + lanes);
}
template <int NV>
HWY_INLINE void end(const V (&sum)[NV], float* sums) {
  store(sum[0], sums);
  if constexpr (NV > 1) store(sum[1], sums + lanes);
}

/// sums[R, NV*lanes] (+)= a[R, k] @ b[k, NV*lanes]: a in rows of a_pitch, b and sums packed.
template <int NV, std::size_t... R>
HWY_INLINE void tile_rows(std::index_sequence<R...> rows, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::int64_t k, float* HWY_RESTRICT sums, bool first,
                          const Fetch& fetch) {
  constexpr std::int64_t width = NV * lanes;
  V sum[sizeof...(R)][NV];
  (begin<NV>(sum[R], sums + static_cast<std::int64_t>(R) * width, first), ...);
  const char *line = fetch.at, *other = fetch.other;
  for (; k >= Fetch::steps; k -= Fetch::steps) {
    for (int n = 0; n < Fetch::steps; n += 4, a += 4, b += 4 * width) {
      __builtin_prefetch(line + 32 * n, 0, 2);
      __builtin_prefetch(line + 32 * n + 64, 0, 2);
      step<NV>(rows, sum, a, b);
      step<NV>(rows, sum, a + 1, b + width);
      __builtin_prefetch(other + 32 * n, 0, 2);
      __builtin_prefetch(other + 32 * n + 64, 0, 2);
      step<NV>(rows, sum, a + 2, b + 2 * width);
      step<NV>(rows, sum, a + 3, b + 3 * width);
    }
    line += fetch.stride;
    other += fetch.other_stride;
  }
  for (; k > 0; --k, ++a, b += width) step<NV>(rows, sum, a, b);
  (end<NV>(sum[R], sums + static_cast<std::int64_t>(R) * width), ...);
}

using TileFunction = void (*)(const float* a, const float* b, std::int64_t k, float* sums, bool first, const Fetch& fetch);

template <std::size_t rows, int NV>
void tile(const float* a, const float* b, std::int64_t k, float* sums, bool first, const Fetch& fetch) {
  tile_rows<NV>(std::make_index_sequence<rows>(), a, b, k, sums, first, fetch);
}

/// The tile of so many rows and vectors.
template <int NV, std::size_t... R>
TileFunction pick(std::index_sequence<R...>, std::int64_t rows) {
  constexpr TileFunction functions[] = {tile<R + 1, NV>...};
  return functions[rows - 1];
}
inline TileFunction tile_function(std::int64_t rows, std::int64_t vectors) {
  constexpr auto all = std::make_index_sequence<static_cast<std::size_t>(tile_shape.rows)>();
  return vectors == 1 ? pick<1>(all, rows) : pick<2>(all, rows);
}

}  // namespace faibench::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
