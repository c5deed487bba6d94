// The row that f32 sums cannot hold: p*v is summed before the division by sum(p), so v above 3.4e38 / (number of keys) may overflow. f64 has the room.
#include <cmath>
#include <vector>

#include "kernels/sequence/flash_causal_attn_prefill/cpu.h"

namespace faibench::flash_causal_attn_prefill::cpu {

template <class T>
void attend_row_wide(const Problem<T>& p, std::int64_t b, std::int64_t i, std::int64_t h) {
  const std::int64_t visible = p.visible(i), step = p.Hk * p.D, start = (b * p.Lk * p.Hk + h / p.group()) * p.D;
  const T* query = p.q + ((b * p.Lq + i) * p.H + h) * p.D;
  double sum[256] = {}, total = 0, maximum = -HUGE_VAL;
  std::vector<double> scores(static_cast<std::size_t>(visible));
  for (std::int64_t j = 0; j < visible; ++j) {
    const T* key = p.k + start + j * step;
    double dot = 0;
    for (std::int64_t d = 0; d < p.D; ++d) dot += static_cast<double>(to_float(query[d])) * static_cast<double>(to_float(key[d]));
    scores[static_cast<std::size_t>(j)] = dot * static_cast<double>(p.scale);
    maximum = std::fmax(maximum, scores[static_cast<std::size_t>(j)]);
  }
  for (std::int64_t j = 0; j < visible; ++j) {
    const T* value = p.v + start + j * step;
    const double weight = std::exp(scores[static_cast<std::size_t>(j)] - maximum);
    total += weight;
    for (std::int64_t d = 0; d < p.D; ++d) sum[d] += weight * static_cast<double>(to_float(value[d]));
  }
  T* out = p.out + ((b * p.Lq + i) * p.H + h) * p.D;
  for (std::int64_t d = 0; d < p.D; ++d) out[d] = round_to<T>(sum[d] / total);
}
template void attend_row_wide(const Problem<float>&, std::int64_t, std::int64_t, std::int64_t);
template void attend_row_wide(const Problem<f16>&, std::int64_t, std::int64_t, std::int64_t);
template void attend_row_wide(const Problem<bf16>&, std::int64_t, std::int64_t, std::int64_t);

}  // namespace faibench::flash_causal_attn_prefill::cpu
