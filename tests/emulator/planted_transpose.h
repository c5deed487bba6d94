// Kernels for the task coalesced_matrix_transpose with a bug each, as a variant for GPUs has them.
#pragma once
#include "tensor/view.h"

namespace faibench::planted {

/// Leaves the last column of x out where N is odd.
void transpose_without_the_tail(View<const float, 2> x, View<float, 2> y);
/// Reads the tile before all of it is written.
void transpose_without_the_barrier(View<const float, 2> x, View<float, 2> y);

}  // namespace faibench::planted
