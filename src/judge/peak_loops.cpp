// The vector loops behind the measured peaks: independent chains of multiply-adds, enough of them to hide their latency, and a copy by streaming stores.
#include <chrono>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "judge/peak_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace faibench {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Operations done; `sink` keeps the compiler from dropping them. 12 chains: 4 cycles of latency x 2 units, and some to spare.
double chains(std::int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, 0.999f), b = hn::Set(d, 1e-3f);
  auto c0 = hn::Set(d, 1.0f), c1 = hn::Set(d, 1.1f), c2 = hn::Set(d, 1.2f), c3 = hn::Set(d, 1.3f), c4 = hn::Set(d, 1.4f), c5 = hn::Set(d, 1.5f);
  auto c6 = hn::Set(d, 1.6f), c7 = hn::Set(d, 1.7f), c8 = hn::Set(d, 1.8f), c9 = hn::Set(d, 1.9f), c10 = hn::Set(d, 2.0f), c11 = hn::Set(d, 2.1f);
  for (std::int64_t i = 0; i < rounds; ++i) {
    c0 = hn::MulAdd(c0, a, b);
    c1 = hn::MulAdd(c1, a, b);
    c2 = hn::MulAdd(c2, a, b);
    c3 = hn::MulAdd(c3, a, b);
    c4 = hn::MulAdd(c4, a, b);
    c5 = hn::MulAdd(c5, a, b);
    c6 = hn::MulAdd(c6, a, b);
    c7 = hn::MulAdd(c7, a, b);
    c8 = hn::MulAdd(c8, a, b);
    c9 = hn::MulAdd(c9, a, b);
    c10 = hn::MulAdd(c10, a, b);
    c11 = hn::MulAdd(c11, a, b);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)), hn::Add(hn::Add(hn::Add(c4, c5), hn::Add(c6, c7)), hn::Add(hn::Add(c8, c9), hn::Add(c10, c11))));
  *sink = hn::GetLane(hn::SumOfLanes(d, sum));
  return 12.0 * 2.0 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

// Copies n floats (a multiple of 64 bytes, both ends 64-byte aligned) past the caches.
void stream(const float* from, float* to, std::int64_t n) {
  const hn::ScalableTag<float> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < n; i += lanes) hn::Stream(hn::Load(d, from + i), d, to + i);
  hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace faibench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "judge/peaks.h"

namespace faibench {
HWY_EXPORT(chains);
HWY_EXPORT(stream);

void stream_copy(const float* from, float* to, std::int64_t n) { HWY_DYNAMIC_DISPATCH(stream)(from, to, n); }

double measure_operations(int threads) {
  double best = 0;
  for (int trial = 0; trial < 6; ++trial) {
    double operations = 0;
    const auto start = std::chrono::steady_clock::now();
#pragma omp parallel num_threads(threads) reduction(+ : operations)
    {
      float sink = 0;
      operations += HWY_DYNAMIC_DISPATCH(chains)(1'000'000, &sink);
      volatile float keep = sink;
      (void)keep;
    }
    best = std::max(best, operations / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace faibench
#endif
