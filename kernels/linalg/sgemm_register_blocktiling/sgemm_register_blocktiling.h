// D = alpha*A*B + beta*C in f32: the one signature of all variants.
#pragma once
#include "tensor/view.h"

namespace faibench::sgemm_register_blocktiling {

/// D[i, j] = alpha * sum_k A[i, k]*B[k, j] + beta*C[i, j].
///   A [M, K], B [K, N]  any f32; not read where alpha is 0 (of either sign) or K is 0, and then D = beta*C
///   C [M, N]            any f32; not read where beta is 0 (of either sign)
///   D [M, N]            separate memory
/// f32 accumulators in any order, fused or not. M, N, K may be 0. 2*M*N*K operations, 4*(M*K + K*N + 2*M*N) bytes. BLAS sgemm, row-major, no transposes. Thread-safe.
namespace reference { void sgemm(View<const float, 2> A, View<const float, 2> B, View<const float, 2> C, float alpha, float beta, View<float, 2> D); }
namespace baseline { void sgemm(View<const float, 2> A, View<const float, 2> B, View<const float, 2> C, float alpha, float beta, View<float, 2> D); }
namespace cpu { void sgemm(View<const float, 2> A, View<const float, 2> B, View<const float, 2> C, float alpha, float beta, View<float, 2> D); }

/// The same on a GPU: the views point into device memory, the kernels run on cuda::current_stream(). Throws Error(device).
namespace cuda_baseline { void sgemm(View<const float, 2> A, View<const float, 2> B, View<const float, 2> C, float alpha, float beta, View<float, 2> D); }
namespace cuda { void sgemm(View<const float, 2> A, View<const float, 2> B, View<const float, 2> C, float alpha, float beta, View<float, 2> D); }

}  // namespace faibench::sgemm_register_blocktiling
