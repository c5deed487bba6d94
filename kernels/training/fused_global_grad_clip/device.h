// Gradient clipping on a GPU.
#pragma once
#include <cstdint>
#include <optional>

#include "tensor/dtype.h"
#include "tensor/view.h"

namespace faibench::fused_global_grad_clip {

/// The first tensor whose norm is Inf or NaN.
struct NotFinite {
  std::int64_t tensor, first_element;
  double norm;
};

/// clip_gradients as in fused_global_grad_clip.h. Where `error_if_nonfinite`, waits for the norm and, if it is not finite, says so and writes nothing; else only
/// launches, on cuda::current_stream(). The views point into device memory; `offsets` of the eager form lies in page-locked host memory. Throws Error(device).
namespace cuda_baseline {
template <class T>
std::optional<NotFinite> clip_gradients(View<const T, 1> grads, View<const std::int64_t, 1> offsets, double max_norm, bool error_if_nonfinite,
                                        View<T, 1> clipped, View<float, 0> total_norm, View<float, 1> tensor_norms);
}
namespace cuda {
template <class T>
std::optional<NotFinite> clip_gradients(View<const T, 1> grads, View<const std::int64_t, 1> offsets, double max_norm, bool error_if_nonfinite,
                                        View<T, 1> clipped, View<float, 0> total_norm, View<float, 1> tensor_norms);
}

}  // namespace faibench::fused_global_grad_clip
