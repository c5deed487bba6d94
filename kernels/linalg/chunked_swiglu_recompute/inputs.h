// Input sets of chunked_swiglu_recompute: the workloads' distribution and the fixed cases.
#pragma once
#include <vector>

#include "task/task.h"

namespace faibench::chunked_swiglu_recompute {

struct Sizes {
  std::int64_t T, D, F, chunk_size;
};

/// x, dy normal(0,1); weights normal/sqrt(fan-in).
TensorMap layer_inputs(Random& random, const Sizes& sizes);

std::vector<Case> cases();

}  // namespace faibench::chunked_swiglu_recompute
