// The shared product of packed panels and register tiles (gemm/multiply.cpp says how it works and what to expect), with alpha and beta*C applied as tiles are finished.
#include "gemm/gemm.h"
#include "kernels/linalg/sgemm_register_blocktiling/sgemm_register_blocktiling.h"

namespace faibench::sgemm_register_blocktiling {

void cpu::sgemm(View<const float, 2> A, View<const float, 2> B, View<const float, 2> C, float alpha, float beta, View<float, 2> D) {
  const std::int64_t M = D.extent(0), N = D.extent(1), K = A.extent(1);
  if (alpha == 0 || K == 0) {
#pragma omp parallel for if (M * N > 1 << 16)
    for (std::int64_t i = 0; i < M * N; ++i) D.data()[i] = beta == 0 ? 0 : beta * C.data()[i];
    return;
  }
  static thread_local gemm::Workspace workspace;
  const gemm::Term term{gemm::matrix(A), gemm::matrix(B), K};
  gemm::multiply(M, N, {&term, 1}, gemm::scaled_sum(alpha, beta, C.data(), N, D.data(), N), workspace);
}

}  // namespace faibench::sgemm_register_blocktiling
