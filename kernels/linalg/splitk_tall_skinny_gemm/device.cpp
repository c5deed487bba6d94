#include "cuda/cublas.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/splitk_tall_skinny_gemm.h"
#include "task/device_variants.h"

namespace faibench::device {
namespace {

void multiply_of_cublas(View<const float, 2> A, View<const float, 2> B, View<float, 2> C) {
  cuda::cublas_multiply(C.extent(0), C.extent(1), A.extent(1), 1, {A.data(), A.extent(1)}, {B.data(), B.extent(1)}, 0, C.data(), C.extent(1));
}

}  // namespace

std::vector<DeviceVariant> splitk_tall_skinny_gemm() {
  namespace task = faibench::splitk_tall_skinny_gemm;
  const std::vector<std::string> names = {"A", "B", "C"};
  std::vector<DeviceVariant> variants = {{"cuda_baseline", Kernel({bind(task::cuda_baseline::multiply, names)})}, {"cuda", Kernel({bind(task::cuda::multiply, names)})}};
  if (cuda::has_cublas()) variants.push_back({"peer:cublas", Kernel({bind(multiply_of_cublas, names)})});
  return variants;
}

}  // namespace faibench::device
