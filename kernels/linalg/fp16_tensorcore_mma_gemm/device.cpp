#include "task/device_variants.h"

#include "kernels/linalg/fp16_tensorcore_mma_gemm/fp16_tensorcore_mma_gemm.h"

namespace faibench::device {

std::vector<DeviceVariant> fp16_tensorcore_mma_gemm() {
  namespace task = faibench::fp16_tensorcore_mma_gemm;
  return {{"cuda_baseline", Kernel({bind(task::cuda_baseline::gemm, {"A", "B", "C"})})}, {"cuda", Kernel({bind(task::cuda::gemm, {"A", "B", "C"})})}};
}

}  // namespace faibench::device
