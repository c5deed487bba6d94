#include "cuda/cublas.h"
#include "kernels/linalg/fp16_tensorcore_mma_gemm/fp16_tensorcore_mma_gemm.h"
#include "task/device_variants.h"

namespace faibench::device {
namespace {

void gemm_of_cublas(View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C) { cuda::cublas_multiply(A, B, C); }

}  // namespace

std::vector<DeviceVariant> fp16_tensorcore_mma_gemm() {
  namespace task = faibench::fp16_tensorcore_mma_gemm;
  const std::vector<std::string> names = {"A", "B", "C"};
  std::vector<DeviceVariant> variants = {{"cuda_baseline", Kernel({bind(task::cuda_baseline::gemm, names)})}, {"cuda", Kernel({bind(task::cuda::gemm, names)})}};
  if (cuda::has_cublas()) variants.push_back({"peer:cublas", Kernel({bind(gemm_of_cublas, names)})});
  return variants;
}

}  // namespace faibench::device
