// cuda/cublas.h on the emulator, which has none.
#include "cuda/cublas.h"

#include "tensor/error.h"

namespace faibench::cuda {

bool has_cublas() { return false; }

void cublas_multiply(std::int64_t, std::int64_t, std::int64_t, float, const CublasOperand&, const CublasOperand&, float, float*, std::int64_t) {
  throw Error(Error::Kind::internal, "the emulator has no cuBLAS");
}
void cublas_multiply(View<const f16, 2>, View<const f16, 2>, View<f16, 2>) { throw Error(Error::Kind::internal, "the emulator has no cuBLAS"); }

}  // namespace faibench::cuda
