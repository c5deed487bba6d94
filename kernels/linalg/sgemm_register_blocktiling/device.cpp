#include "cuda/cublas.h"
#include "cuda/runtime.h"
#include "kernels/linalg/sgemm_register_blocktiling/sgemm_register_blocktiling.h"
#include "task/device_variants.h"

namespace faibench::device {
namespace {

void sgemm_of_cublas(View<const float, 2> A, View<const float, 2> B, View<const float, 2> C, float alpha, float beta, View<float, 2> D) {
  if (beta != 0) cuda::copy(D.data(), C.data(), sizeof(float) * static_cast<std::size_t>(C.extent(0) * C.extent(1)), cuda::current_stream());
  cuda::cublas_multiply(D.extent(0), D.extent(1), A.extent(1), alpha, {A.data(), A.extent(1)}, {B.data(), B.extent(1)}, beta, D.data(), D.extent(1));
}

}  // namespace

std::vector<DeviceVariant> sgemm_register_blocktiling() {
  namespace task = faibench::sgemm_register_blocktiling;
  const std::vector<std::string> names = {"A", "B", "C", "alpha", "beta", "D"};
  std::vector<DeviceVariant> variants = {{"cuda_baseline", Kernel({bind(task::cuda_baseline::sgemm, names)})}, {"cuda", Kernel({bind(task::cuda::sgemm, names)})}};
  if (cuda::has_cublas()) variants.push_back({"peer:cublas", Kernel({bind(sgemm_of_cublas, names)})});
  return variants;
}

}  // namespace faibench::device
