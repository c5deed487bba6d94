#include "task/device_variants.h"

#include "kernels/linalg/chunked_swiglu_recompute/chunked_swiglu_recompute.h"

namespace faibench::device {

std::vector<DeviceVariant> chunked_swiglu_recompute() {
  namespace task = faibench::chunked_swiglu_recompute;
  const std::vector<std::string> names = {"x", "w_gate", "w_up", "w_down", "dy", "chunk_size", "y", "dx"};
  return {{"cuda_baseline", Kernel({bind(task::cuda_baseline::gated_mlp_fwd_bwd, names)})}, {"cuda", Kernel({bind(task::cuda::gated_mlp_fwd_bwd, names)})}};
}

}  // namespace faibench::device
