// Forward and backward of a SwiGLU feed-forward block, chunk by chunk: the one signature of all variants.
#pragma once
#include "tensor/view.h"

namespace faibench::chunked_swiglu_recompute {

/// y = (silu(x@w_gate^T) * (x@w_up^T)) @ w_down^T, and the gradient of sum(dy*y) with respect to x.
///   x, dy [T, D]           activations and upstream gradient, one row a token; NaN and Inf stay in their row (those of dy in dx)
///   w_gate, w_up [F, D]    projections up
///   w_down [D, F]          projection down
///   chunk_size             tokens a chunk, >= 1 (checked before the call); may exceed T
///   y, dx [T, D]           results; zero where F is 0
/// Holds, beyond inputs and outputs and at one time, at most 4*c*(6*F + 4*D) bytes and 16 MiB (64 MiB on a device), c = min(chunk_size, T); `reference` and `baseline` are exempt.
/// The result does not depend on chunk_size but for rounding. 12*T*D*F operations. y and dx may not alias the inputs.
using Matrix = View<const float, 2>;
using Result = View<float, 2>;
namespace reference { void gated_mlp_fwd_bwd(Matrix x, Matrix w_gate, Matrix w_up, Matrix w_down, Matrix dy, std::int64_t chunk_size, Result y, Result dx); }
namespace baseline { void gated_mlp_fwd_bwd(Matrix x, Matrix w_gate, Matrix w_up, Matrix w_down, Matrix dy, std::int64_t chunk_size, Result y, Result dx); }
namespace cpu { void gated_mlp_fwd_bwd(Matrix x, Matrix w_gate, Matrix w_up, Matrix w_down, Matrix dy, std::int64_t chunk_size, Result y, Result dx); }

/// The same on a GPU: the views point into device memory, the kernels run on cuda::current_stream(). Throws Error(device).
namespace cuda_baseline { void gated_mlp_fwd_bwd(Matrix x, Matrix w_gate, Matrix w_up, Matrix w_down, Matrix dy, std::int64_t chunk_size, Result y, Result dx); }
namespace cuda { void gated_mlp_fwd_bwd(Matrix x, Matrix w_gate, Matrix w_up, Matrix w_down, Matrix dy, std::int64_t chunk_size, Result y, Result dx); }

}  // namespace faibench::chunked_swiglu_recompute
