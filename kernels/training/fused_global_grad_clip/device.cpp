#include "kernels/training/fused_global_grad_clip/device.h"

#include <string>

#include "task/contract.h"
#include "task/device_variants.h"

namespace faibench::device {
namespace {

using faibench::fused_global_grad_clip::NotFinite;

Rejected rejected(const std::optional<NotFinite>& found) {
  if (!found) return std::nullopt;
  return reject("nonfinite_norm", "grads", found->first_element, std::to_string(found->norm), "norm of tensor " + std::to_string(found->tensor) + ", which starts here");
}

template <class T>
Rejected eager(View<const T, 1> grads, View<const std::int64_t, 1> offsets, double max_norm, bool error_if_nonfinite, View<T, 1> clipped,
               View<float, 0> total_norm, View<float, 1> tensor_norms) {
  return rejected(faibench::fused_global_grad_clip::cuda_baseline::clip_gradients<T>(grads, offsets, max_norm, error_if_nonfinite, clipped, total_norm, tensor_norms));
}
template <class T>
Rejected fused(View<const T, 1> grads, View<const std::int64_t, 1> offsets, double max_norm, bool error_if_nonfinite, View<T, 1> clipped,
               View<float, 0> total_norm, View<float, 1> tensor_norms) {
  return rejected(faibench::fused_global_grad_clip::cuda::clip_gradients<T>(grads, offsets, max_norm, error_if_nonfinite, clipped, total_norm, tensor_norms));
}

}  // namespace

std::vector<DeviceVariant> fused_global_grad_clip() {
  const std::vector<std::string> names = {"grads", "offsets", "max_norm", "error_if_nonfinite", "clipped", "total_norm", "tensor_norms"};
  return {{"cuda_baseline", Kernel({bind(eager<float>, names), bind(eager<bf16>, names)})}, {"cuda", Kernel({bind(fused<float>, names), bind(fused<bf16>, names)})}};
}

}  // namespace faibench::device
