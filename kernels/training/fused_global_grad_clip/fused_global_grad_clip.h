// Gradient clipping by global norm: the one signature of all variants.
#pragma once
#include "task/task.h"
#include "tensor/view.h"

namespace faibench::fused_global_grad_clip {

/// Scales all gradients by one factor, so that the L2 norm of their concatenation does not exceed a bound. T one of float, bf16.
///   grads [G]         all tensors, one after the other; any values
///   offsets [K+1]     tensor k is grads[offsets[k] .. offsets[k+1]); it may be empty
///   clipped [G]       grads * min(max_norm / (norm + 1e-6), 1), rounded once; a NaN factor stays NaN
///   total_norm []     norm before clipping, rounded to f32
///   tensor_norms [K]  norm of each tensor before clipping, rounded to f32
/// Squares are summed in f64. Checked before the call: max_norm >= 0. The variant itself rejects a norm of Inf or NaN as nonfinite_norm where error_if_nonfinite,
/// before it writes. Moves at least 2G read and G written. Thread-safe; outputs may not alias inputs.
namespace reference {
template <class T>
Rejected clip_gradients(View<const T, 1> grads, View<const std::int64_t, 1> offsets, double max_norm, bool error_if_nonfinite, View<T, 1> clipped, View<float, 0> total_norm, View<float, 1> tensor_norms);
}
namespace baseline {
template <class T>
Rejected clip_gradients(View<const T, 1> grads, View<const std::int64_t, 1> offsets, double max_norm, bool error_if_nonfinite, View<T, 1> clipped, View<float, 0> total_norm, View<float, 1> tensor_norms);
}
namespace cpu {
/// The same bits for any number of threads.
template <class T>
Rejected clip_gradients(View<const T, 1> grads, View<const std::int64_t, 1> offsets, double max_norm, bool error_if_nonfinite, View<T, 1> clipped, View<float, 0> total_norm, View<float, 1> tensor_norms);
}

/// The fixed cases of the gate, and a small valid input of random shape and content.
std::vector<Case> cases();
TensorMap random_input(Random& random);
/// The gate. Reads inputs, outputs and expected of the one-process form.
GateResult check_clip(const GateCall& call);
/// Inputs of one call.
TensorMap clip_input(Tensor grads, std::vector<std::int64_t> offsets, double max_norm, bool error_if_nonfinite);

}  // namespace faibench::fused_global_grad_clip
