// y = x@W^T + scale*((x@A^T)@B^T): the one signature of all variants.
#pragma once
#include "task/contract.h"
#include "tensor/view.h"

namespace faibench::lora_adapter_apply {

/// A frozen linear layer with its low-rank correction.
///   x [T, I]   activations, one row a token; NaN and Inf stay in their row of y
///   W [O, I]   frozen weight; NaN and Inf of row o stay in column o of y
///   A [R, I]   down projection, finite
///   B [O, R]   up projection, finite
///   scale      factor of the correction, finite (checked before the call); with 0, as with R = 0, y = x@W^T
///   y [T, O]   the result; zero where I is 0
/// Rejects with `bad_adapter` the first element of A, then of B, in row-major order that is NaN or Inf, before y is written. Any algebraically equal form in f32 is within the gate.
/// 2*T*O*I + 2*T*R*(I+O) operations. Keeps nothing from call to call. Source: Hu et al., "LoRA", equation 3. y may not alias the inputs.
using Matrix = View<const float, 2>;
namespace reference { Rejected apply(Matrix x, Matrix W, Matrix A, Matrix B, float scale, View<float, 2> y); }
namespace baseline { Rejected apply(Matrix x, Matrix W, Matrix A, Matrix B, float scale, View<float, 2> y); }
namespace cpu { Rejected apply(Matrix x, Matrix W, Matrix A, Matrix B, float scale, View<float, 2> y); }
/// The baseline's five passes with the product kernel of `cpu`: what is left of the speedup is the fusion.
namespace five_pass { Rejected apply(Matrix x, Matrix W, Matrix A, Matrix B, float scale, View<float, 2> y); }

/// The same on a GPU: the views point into device memory, the kernels run on cuda::current_stream(), which is waited for. Throws Error(device).
namespace cuda_baseline { Rejected apply(Matrix x, Matrix W, Matrix A, Matrix B, float scale, View<float, 2> y); }
namespace cuda { Rejected apply(Matrix x, Matrix W, Matrix A, Matrix B, float scale, View<float, 2> y); }
namespace cuda_five_pass { Rejected apply(Matrix x, Matrix W, Matrix A, Matrix B, float scale, View<float, 2> y); }

}  // namespace faibench::lora_adapter_apply
