// Input sets of sgemm_register_blocktiling: the workloads' distributions, the fixed cases, random ones.
#pragma once
#include <cstdint>
#include <vector>

#include "task/task.h"

namespace faibench::sgemm_register_blocktiling {

struct Sizes {
  std::int64_t M, N, K;
};

/// A, B, C uniform in [-1, 1), alpha 1.25, beta -0.5.
TensorMap uniform_inputs(Random& random, const Sizes& sizes);
/// Integers of which f32 loses nothing in any order: A in [-a, a], B in [-1, 1], C in [-8, 8], alpha 1, beta -2; a the largest with a*K + 16 <= 2^24, at most 4095.
TensorMap exact_inputs(Random& random, const Sizes& sizes);
/// A small valid input.
TensorMap random_inputs(Random& random);
/// The fixed cases: edges, adversarial values, rejections.
std::vector<Case> cases();

}  // namespace faibench::sgemm_register_blocktiling
