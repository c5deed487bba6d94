// C = A * B for few rows and columns and very many terms: the one signature of all variants.
#pragma once
#include "tensor/view.h"

namespace faibench::splitk_tall_skinny_gemm {

/// C[i, j] = sum over k of A[i, k] * B[k, j], in any order, partial sums in f32 or better, rounded to f32.
///   A [M, K], B [K, N]  any f32, NaN and infinities too
///   C [M, N]            written whole, never read; separate memory
/// Any extent may be 0; meant for M, N <= 64 and K >= 2^14, right for all. |error| <= 2^-24 * (64 + 2*sqrt(K)) * (|A|*|B|)[i, j] + 2^-126, and none where integers leave no rounding.
/// Reads 4*K*(M+N) bytes. Thread-safe.
namespace reference { void multiply(View<const float, 2> A, View<const float, 2> B, View<float, 2> C); }
namespace baseline { void multiply(View<const float, 2> A, View<const float, 2> B, View<float, 2> C); }
namespace cpu { void multiply(View<const float, 2> A, View<const float, 2> B, View<float, 2> C); }

/// The same on a GPU: the views point into device memory, the kernels run on cuda::current_stream(). Throws Error(device).
namespace cuda_baseline { void multiply(View<const float, 2> A, View<const float, 2> B, View<float, 2> C); }
namespace cuda { void multiply(View<const float, 2> A, View<const float, 2> B, View<float, 2> C); }

}  // namespace faibench::splitk_tall_skinny_gemm
