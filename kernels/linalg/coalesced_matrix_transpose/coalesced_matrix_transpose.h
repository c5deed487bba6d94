// y[j, i] = x[i, j]: the one signature of all variants.
#pragma once
#include "tensor/view.h"

namespace faibench::coalesced_matrix_transpose {

/// Writes the transpose of x, bit for bit.
///   x [M, N]  source, any bit pattern
///   y [N, M]  destination, separate memory
/// M or N may be 0. Moves 8*M*N bytes. Thread-safe.
namespace reference { void transpose(View<const float, 2> x, View<float, 2> y); }
namespace baseline { void transpose(View<const float, 2> x, View<float, 2> y); }
namespace cpu { void transpose(View<const float, 2> x, View<float, 2> y); }

/// The same on a GPU: the views point into device memory, the kernel runs on cuda::current_stream(). Throws Error(device).
namespace cuda_baseline { void transpose(View<const float, 2> x, View<float, 2> y); }
namespace cuda { void transpose(View<const float, 2> x, View<float, 2> y); }

}  // namespace faibench::coalesced_matrix_transpose
