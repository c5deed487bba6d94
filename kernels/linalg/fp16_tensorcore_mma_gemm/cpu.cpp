// An f32 product (src/gemm): the operands become f32 while they are packed, the sums f16 once, as a tile is finished. SGEMM's speed at half its memory traffic:
// converting costs one instruction for 16 elements on their way into panels that are read many times.
// Bound: 2*M*N*K operations at the FMA peak; for a few rows, B once at the speed of memory.
#include "gemm/gemm.h"
#include "kernels/linalg/fp16_tensorcore_mma_gemm/fp16_tensorcore_mma_gemm.h"

namespace faibench::fp16_tensorcore_mma_gemm::cpu {

void gemm(View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C) {
  static thread_local faibench::gemm::Workspace workspace;
  const faibench::gemm::Term product{faibench::gemm::matrix(A), faibench::gemm::matrix(B), A.extent(1)};
  faibench::gemm::multiply(C.extent(0), C.extent(1), {&product, 1}, faibench::gemm::store_f16(C.data(), C.extent(1)), workspace);
}

}  // namespace faibench::fp16_tensorcore_mma_gemm::cpu
