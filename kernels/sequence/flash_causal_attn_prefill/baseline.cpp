// The naive algorithm as the contract words it: all scores of one head in memory, one pass after another over them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/sequence/flash_causal_attn_prefill/flash_causal_attn_prefill.h"

namespace faibench::flash_causal_attn_prefill::baseline {
namespace {

void attend(View<const float, 4> q, View<const float, 4> k, View<const float, 4> v, float scale, bool causal, View<float, 4> out) {
  const std::int64_t B = q.extent(0), Lq = q.extent(1), H = q.extent(2), D = q.extent(3), Lk = k.extent(1), Hk = k.extent(2);
  constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
  std::vector<float> S(static_cast<std::size_t>(Lq * Lk));
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t h = 0; h < H; ++h) {
      const std::int64_t kh = h / (H / Hk);
      for (std::int64_t i = 0; i < Lq; ++i)
        for (std::int64_t j = 0; j < Lk; ++j) {
          const float* query = &q(b, i, h, 0);
          const float* key = &k(b, j, kh, 0);
          float sum = 0;
          for (std::int64_t d = 0; d < D; ++d) sum += query[d] * key[d];
          S[static_cast<std::size_t>(i * Lk + j)] = scale * sum;
        }
      for (std::int64_t i = 0; i < Lq; ++i)
        for (std::int64_t j = 0; j < Lk; ++j)
          if (causal && j > i + (Lk - Lq)) S[static_cast<std::size_t>(i * Lk + j)] = minus_infinity;
      std::vector<float> maximum(static_cast<std::size_t>(Lq), minus_infinity), total(static_cast<std::size_t>(Lq));
      for (std::int64_t i = 0; i < Lq; ++i)
        for (std::int64_t j = 0; j < Lk; ++j) maximum[static_cast<std::size_t>(i)] = std::max(maximum[static_cast<std::size_t>(i)], S[static_cast<std::size_t>(i * Lk + j)]);
      for (std::int64_t i = 0; i < Lq; ++i) {
        float sum = 0;
        for (std::int64_t j = 0; j < Lk; ++j) {
          float& s = S[static_cast<std::size_t>(i * Lk + j)];
          s = std::exp(s - maximum[static_cast<std::size_t>(i)]);
          sum += s;
        }
        total[static_cast<std::size_t>(i)] = sum;
      }
      for (std::int64_t i = 0; i < Lq; ++i)
        for (std::int64_t j = 0; j < Lk; ++j) S[static_cast<std::size_t>(i * Lk + j)] /= total[static_cast<std::size_t>(i)];
      for (std::int64_t i = 0; i < Lq; ++i) {
        float* row = &out(b, i, h, 0);
        for (std::int64_t d = 0; d < D; ++d) row[d] = 0;
        if (maximum[static_cast<std::size_t>(i)] == minus_infinity) continue;  // no visible key: S holds NaN here
        for (std::int64_t j = 0; j < Lk; ++j) {
          const float p = S[static_cast<std::size_t>(i * Lk + j)];
          const float* value = &v(b, j, kh, 0);
          for (std::int64_t d = 0; d < D; ++d) row[d] += p * value[d];
        }
      }
    }
}

template <class T>
std::vector<float> converted(View<const T, 4> x) {
  std::vector<float> values(static_cast<std::size_t>(x.size()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_float(x.data()[i]);
  return values;
}

}  // namespace

template <class T>
void causal_attention(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, float scale, bool causal, View<T, 4> out) {
  if constexpr (std::is_same_v<T, float>) {
    attend(q, k, v, scale, causal, out);
  } else {
    const std::vector<float> q32 = converted(q), k32 = converted(k), v32 = converted(v);
    std::vector<float> out32(static_cast<std::size_t>(out.size()));
    attend({q32.data(), q.extents()}, {k32.data(), k.extents()}, {v32.data(), v.extents()}, scale, causal, {out32.data(), out.extents()});
    for (std::size_t i = 0; i < out32.size(); ++i) out.data()[i] = round_to<T>(out32[i]);
  }
}
template void causal_attention(View<const float, 4>, View<const float, 4>, View<const float, 4>, float, bool, View<float, 4>);
template void causal_attention(View<const f16, 4>, View<const f16, 4>, View<const f16, 4>, float, bool, View<f16, 4>);
template void causal_attention(View<const bf16, 4>, View<const bf16, 4>, View<const bf16, 4>, float, bool, View<bf16, 4>);

}  // namespace faibench::flash_causal_attn_prefill::baseline
