// C = A B in half precision with f32 sums: the one signature of all variants.
#pragma once
#include "tensor/half.h"
#include "tensor/view.h"

namespace faibench::fp16_tensorcore_mma_gemm {

/// Matrix product of half-precision matrices, summed in f32, each element rounded to f16 once, after the whole sum.
///   A [M, K]  activations, any f16: subnormals count with their value, NaN and Inf reach their own row of C alone
///   B [K, N]  weights, any f16, likewise for its columns
///   C [M, N]  the product; from 65520 on infinity, not saturated; zeros where K is 0
/// Products of two f16 are exact in f32; any order and split of the sum over k, but never partial sums in 16 bits. M, N and K may be 0; K <= 2^20.
/// 2*M*N*K operations, 2*(M*K + K*N + M*N) bytes. Thread-safe; C may not alias an input.
namespace reference { void gemm(View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C); }
namespace baseline { void gemm(View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C); }
namespace cpu { void gemm(View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C); }

/// The same on a GPU: the views point into device memory, the kernels run on cuda::current_stream(). Throws Error(device).
namespace cuda_baseline { void gemm(View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C); }
namespace cuda { void gemm(View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C); }

}  // namespace faibench::fp16_tensorcore_mma_gemm
