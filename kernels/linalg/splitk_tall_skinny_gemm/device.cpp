#include "task/device_variants.h"

#include "kernels/linalg/splitk_tall_skinny_gemm/splitk_tall_skinny_gemm.h"

namespace faibench::device {

std::vector<DeviceVariant> splitk_tall_skinny_gemm() {
  namespace task = faibench::splitk_tall_skinny_gemm;
  return {{"cuda_baseline", Kernel({bind(task::cuda_baseline::multiply, {"A", "B", "C"})})}, {"cuda", Kernel({bind(task::cuda::multiply, {"A", "B", "C"})})}};
}

}  // namespace faibench::device
