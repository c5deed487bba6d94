#include "task/device_variants.h"

#include "kernels/linalg/h2d_prefetch_compute_overlap/h2d_prefetch_compute_overlap.h"

namespace faibench::device {

std::vector<DeviceVariant> h2d_prefetch_compute_overlap() {
  namespace task = faibench::h2d_prefetch_compute_overlap;
  const std::vector<std::string> names = {"data", "offsets", "scale", "gain", "bias", "rounds", "out"};
  return {{"cuda_baseline", Kernel({bind(task::cuda_baseline::streamed_chunk_apply, names)})}, {"cuda", Kernel({bind(task::cuda::streamed_chunk_apply, names)})}};
}

}  // namespace faibench::device
