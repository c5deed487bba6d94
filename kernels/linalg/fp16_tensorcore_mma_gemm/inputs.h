// Input sets of fp16_tensorcore_mma_gemm and its fixed cases.
#pragma once
#include <vector>

#include "task/task.h"

namespace faibench::fp16_tensorcore_mma_gemm {

struct Sizes {
  std::int64_t M, N, K;
};

/// Both matrices uniform in [-1, 1), rounded to f16.
TensorMap uniform_inputs(Random& random, const Sizes& sizes);
/// A normal(0, 1), B normal(0, 1)/sqrt(K), rounded to f16.
TensorMap normal_inputs(Random& random, const Sizes& sizes);
/// A of integers in [-a, a], a = min(2047, floor(2^22/K)), B of integers in [-1, 1]: every sum is exact in f32, many need more than 11 bits.
TensorMap exact_inputs(Random& random, const Sizes& sizes);
/// Small, valid, of random shape, values of every kind.
TensorMap random_inputs(Random& random);

std::vector<Case> cases();

}  // namespace faibench::fp16_tensorcore_mma_gemm
