// The naive algorithm as the contract words it: for i, for j, an f32 sum over k ascending, each element converted in the loop.
#include "kernels/linalg/fp16_tensorcore_mma_gemm/fp16_tensorcore_mma_gemm.h"

namespace faibench::fp16_tensorcore_mma_gemm::baseline {

void gemm(View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C) {
  const std::int64_t M = C.extent(0), N = C.extent(1), K = A.extent(1);
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t j = 0; j < N; ++j) {
      float sum = 0;
      for (std::int64_t k = 0; k < K; ++k) sum += to_float(A(i, k)) * to_float(B(k, j));
      C(i, j) = to_f16(sum);
    }
}

}  // namespace faibench::fp16_tensorcore_mma_gemm::baseline
