// Lengths and values of the workloads.
#include "kernels/training/fused_global_grad_clip/workloads.h"

#include "kernels/training/fused_global_grad_clip/fused_global_grad_clip.h"

namespace faibench::fused_global_grad_clip {

TensorMap normal_gradients(Random& random, const std::vector<std::int64_t>& lengths, Dtype dtype, double low, double high, double max_norm) {
  std::vector<std::int64_t> offsets = {0};
  for (std::int64_t length : lengths) offsets.push_back(offsets.back() + length);
  Tensor grads(dtype, {offsets.back()});
  std::vector<float> staging;
  for (std::size_t k = 0; k < lengths.size(); ++k) {
    const auto sigma = static_cast<float>(low * stable_exp(random.uniform() * stable_log(high / low)));
    const auto first = static_cast<std::size_t>(offsets[k]), n = static_cast<std::size_t>(lengths[k]);
    if (dtype == Dtype::f32) {
      random.fill_normal(grads.flat<float>().subspan(first, n), 0, sigma);
      continue;
    }
    staging.resize(n);
    random.fill_normal(staging, 0, sigma);
    const auto out = grads.flat<bf16>().subspan(first, n);
    for (std::size_t i = 0; i < n; ++i) out[i] = to_bf16(staging[i]);
  }
  return clip_input(std::move(grads), std::move(offsets), max_norm, false);
}

std::vector<std::int64_t> transformer_lengths(std::int64_t divisor) {
  constexpr std::int64_t hidden = 1024;
  const auto matrix = [divisor](std::int64_t rows, std::int64_t columns) { return rows * columns * 2 / divisor; };
  std::vector<std::int64_t> lengths = {matrix(50257, hidden)};
  for (int layer = 0; layer < 24; ++layer)
    for (std::int64_t length : {hidden, matrix(3 * hidden, hidden), matrix(hidden, hidden), hidden, matrix(4 * hidden, hidden), matrix(hidden, 4 * hidden)}) lengths.push_back(length);
  return lengths;
}

std::vector<std::int64_t> small_lengths(Random& random) {
  std::vector<std::int64_t> lengths;
  for (int k = 0; k < 40; ++k) lengths.push_back(random.between(1, 5000));
  return lengths;
}

std::vector<std::int64_t> gpu_lengths(Random& random) {
  std::vector<std::int64_t> lengths;
  for (int k = 0; k < 6000; ++k) lengths.push_back(random.between(256, 4096));
  for (int k = 6000; k < 8192; ++k) {
    const double u = random.uniform();
    lengths.push_back(static_cast<std::int64_t>(16384 * stable_exp(u * (0.42 + 0.58 * u) * stable_log(61.0))));
  }
  random.shuffle(lengths);
  return lengths;
}

}  // namespace faibench::fused_global_grad_clip
