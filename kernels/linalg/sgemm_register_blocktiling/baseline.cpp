#include "kernels/linalg/sgemm_register_blocktiling/sgemm_register_blocktiling.h"

namespace faibench::sgemm_register_blocktiling {

void baseline::sgemm(View<const float, 2> A, View<const float, 2> B, View<const float, 2> C, float alpha, float beta, View<float, 2> D) {
  const std::int64_t M = D.extent(0), N = D.extent(1), K = A.extent(1);
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t j = 0; j < N; ++j) {
      float result = 0;
      if (alpha != 0 && K > 0) {
        float sum = 0;
        for (std::int64_t k = 0; k < K; ++k) sum += A(i, k) * B(k, j);
        result = alpha * sum;
      }
      if (beta != 0) result += beta * C(i, j);
      D(i, j) = result;
    }
}

}  // namespace faibench::sgemm_register_blocktiling
