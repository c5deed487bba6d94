// The gate of fp16_tensorcore_mma_gemm. Private to the task.
#pragma once
#include "task/gate.h"

namespace faibench::fp16_tensorcore_mma_gemm {

/// As the contract words it: a tolerance that grows with the sum of magnitudes, and the correctly rounded value where f32 sums are exact.
/// Computes A @ B in f64 itself (256 x 1024 x 1024: some 50 ms on two cores).
Gate gate();

}  // namespace faibench::fp16_tensorcore_mma_gemm
