#include "task/device_variants.h"

#include "kernels/linalg/sgemm_register_blocktiling/sgemm_register_blocktiling.h"

namespace faibench::device {

std::vector<DeviceVariant> sgemm_register_blocktiling() {
  namespace task = faibench::sgemm_register_blocktiling;
  const std::vector<std::string> names = {"A", "B", "C", "alpha", "beta", "D"};
  return {{"cuda_baseline", Kernel({bind(task::cuda_baseline::sgemm, names)})}, {"cuda", Kernel({bind(task::cuda::sgemm, names)})}};
}

}  // namespace faibench::device
