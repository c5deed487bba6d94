// A library's sgemm on f32 copies of A and B, its product rounded to f16: what a program does that has no f16 product. The conversions are part of the time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linalg/fp16_tensorcore_mma_gemm/peer.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/linalg/fp16_tensorcore_mma_gemm/peer.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::fp16_tensorcore_mma_gemm::peer {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<float> d;
constexpr hn::Rebind<hwy::float16_t, decltype(d)> half;

void to_floats(const f16* from, std::int64_t n, float* to) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from) + i)), d, to + i);
#endif
  for (; i < n; ++i) to[i] = to_float(from[i]);
}

void to_halves(const float* from, std::int64_t n, f16* to) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, from + i)), half, reinterpret_cast<hwy::float16_t*>(to) + i);
#endif
  for (; i < n; ++i) to[i] = to_f16(from[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace faibench::fp16_tensorcore_mma_gemm::peer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <vector>

namespace faibench::fp16_tensorcore_mma_gemm::peer {
namespace {

HWY_EXPORT(to_floats);
HWY_EXPORT(to_halves);

/// `convert(from + i, n, to + i)` for pieces of `size` elements, on all threads.
template <class From, class To>
void in_pieces(void (*convert)(const From*, std::int64_t, To*), const From* from, std::int64_t size, To* to) {
  constexpr std::int64_t piece = 1 << 14;
#pragma omp parallel for schedule(static) if (size > 4 * piece)
  for (std::int64_t i = 0; i < size; i += piece) convert(from + i, std::min(piece, size - i), to + i);
}

}  // namespace

void gemm(peers::Library library, View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C) {
  static thread_local std::vector<float> room;  // kept: its pages are touched once
  room.resize(std::max(room.size(), static_cast<std::size_t>(A.size() + B.size() + C.size())));
  float *const a = room.data(), *const b = a + A.size(), *const c = b + B.size();
  in_pieces(HWY_DYNAMIC_DISPATCH(to_floats), A.data(), A.size(), a);
  in_pieces(HWY_DYNAMIC_DISPATCH(to_floats), B.data(), B.size(), b);
  peers::multiply(library, C.extent(0), C.extent(1), A.extent(1), 1, {a, A.extent(1)}, {b, B.extent(1)}, 0, c, C.extent(1));
  in_pieces(HWY_DYNAMIC_DISPATCH(to_halves), c, C.size(), C.data());
}

}  // namespace faibench::fp16_tensorcore_mma_gemm::peer
#endif  // HWY_ONCE
