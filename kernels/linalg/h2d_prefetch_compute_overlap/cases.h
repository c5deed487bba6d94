// The gate's inputs: fixed cases from the contract's edge cases and traps, random ones, and the workloads.
#pragma once
#include <vector>

#include "task/task.h"

namespace faibench::h2d_prefetch_compute_overlap {

std::vector<Case> cases();
/// Small chunks of random sizes, some empty; any number of columns.
TensorMap random_case(Random& random);
std::vector<Workload> workloads();

}  // namespace faibench::h2d_prefetch_compute_overlap
