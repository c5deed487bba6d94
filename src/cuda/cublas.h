// cuBLAS as a peer of our products: "peer:cublas", shown beside ours, never needed, never scored. Loaded at the first call, on the stream of the call; its handle is kept.
#pragma once
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/view.h"

namespace faibench::cuda {

/// Whether variants of this library of kernels can call it: not on the emulator.
bool has_cublas();

/// A row-major operand in device memory: element (i, j) at data[i*stride + j], or, transposed, at data[j*stride + i].
struct CublasOperand {
  const float* data;
  std::int64_t stride;
  bool transposed = false;
};

/// c[M, N] = alpha * a[M, K] @ b[K, N] + beta * c in f32, TF32 off. c is not read where beta is 0. Throws Error(io) where the machine lacks the library, Error(device) where it fails,
/// Error(bad_input) past its index type.
void cublas_multiply(std::int64_t M, std::int64_t N, std::int64_t K, float alpha, const CublasOperand& a, const CublasOperand& b, float beta, float* c, std::int64_t c_stride);

/// c[M, N] = a[M, K] @ b[K, N] of f16, f32 sums (no reduction in f16), rounded once. All row-major and without gaps. The same errors.
void cublas_multiply(View<const f16, 2> a, View<const f16, 2> b, View<f16, 2> c);

}  // namespace faibench::cuda
