// The naive algorithm as the contract words it: one f64 accumulator an element over k ascending, rounded once.
#include "kernels/linalg/splitk_tall_skinny_gemm/splitk_tall_skinny_gemm.h"

namespace faibench::splitk_tall_skinny_gemm::baseline {

void multiply(View<const float, 2> A, View<const float, 2> B, View<float, 2> C) {
  const std::int64_t M = C.extent(0), N = C.extent(1), K = A.extent(1);
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t j = 0; j < N; ++j) {
      double acc = 0;
      for (std::int64_t k = 0; k < K; ++k) acc += static_cast<double>(A.data()[i * K + k]) * static_cast<double>(B.data()[k * N + j]);
      C.data()[i * N + j] = static_cast<float>(acc);
    }
}

}  // namespace faibench::splitk_tall_skinny_gemm::baseline
