// The variants peer:openblas, peer:blis, peer:onednn of fp16_tensorcore_mma_gemm.
#pragma once
#include "peers/blas.h"
#include "tensor/half.h"
#include "tensor/view.h"

namespace faibench::fp16_tensorcore_mma_gemm::peer {

/// C = A @ B by the library's sgemm on converted copies.
void gemm(peers::Library library, View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C);

}  // namespace faibench::fp16_tensorcore_mma_gemm::peer
