// The gate's inputs: fixed cases from the contract's edge cases and traps, random ones, and the workloads.
#pragma once
#include <vector>

#include "task/task.h"

namespace faibench::gemm_tile_size_planner {

std::vector<Case> cases();
/// Up to a dozen tasks of small dimensions and short lists.
TensorMap random_case(Random& random);
std::vector<Workload> workloads();

}  // namespace faibench::gemm_tile_size_planner
