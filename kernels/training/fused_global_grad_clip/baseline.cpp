// Tensor by tensor: one running sum of squares, then a second loop that scales, also by 1.
#include <cmath>
#include <vector>

#include "kernels/training/fused_global_grad_clip/fused_global_grad_clip.h"

namespace faibench::fused_global_grad_clip::baseline {

template <class T>
Rejected clip_gradients(View<const T, 1> grads, View<const std::int64_t, 1> offsets, double max_norm, bool error_if_nonfinite, View<T, 1> clipped, View<float, 0> total_norm, View<float, 1> tensor_norms) {
  const std::int64_t K = offsets.extent(0) - 1;
  std::vector<double> norms(static_cast<std::size_t>(K));
  for (std::int64_t k = 0; k < K; ++k) {
    double sum = 0;
    for (std::int64_t i = offsets[k]; i < offsets[k + 1]; ++i) {
      const double g = to_float(grads[i]);
      sum += g * g;
    }
    norms[static_cast<std::size_t>(k)] = std::sqrt(sum);
  }
  double sum = 0;
  for (double norm : norms) sum += norm * norm;
  const double total = std::sqrt(sum);
  if (error_if_nonfinite && !std::isfinite(total)) {
    std::int64_t k = 0;
    while (std::isfinite(norms[static_cast<std::size_t>(k)])) ++k;
    return reject("nonfinite_norm", "grads", offsets[k], std::to_string(norms[static_cast<std::size_t>(k)]), "norm of tensor " + std::to_string(k) + ", which starts here");
  }
  double factor = max_norm / (total + 1e-6);
  if (factor > 1) factor = 1;
  for (std::int64_t k = 0; k < K; ++k)
    for (std::int64_t i = offsets[k]; i < offsets[k + 1]; ++i) clipped[i] = round_to<T>(static_cast<double>(to_float(grads[i])) * factor);
  for (std::int64_t k = 0; k < K; ++k) tensor_norms[k] = static_cast<float>(norms[static_cast<std::size_t>(k)]);
  total_norm() = static_cast<float>(total);
  return std::nullopt;
}

template Rejected clip_gradients<float>(View<const float, 1>, View<const std::int64_t, 1>, double, bool, View<float, 1>, View<float, 0>, View<float, 1>);
template Rejected clip_gradients<bf16>(View<const bf16, 1>, View<const std::int64_t, 1>, double, bool, View<bf16, 1>, View<float, 0>, View<float, 1>);

}  // namespace faibench::fused_global_grad_clip::baseline
