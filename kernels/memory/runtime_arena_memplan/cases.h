// The gate's inputs: fixed cases from the contract's edge cases and traps, and random ones.
#pragma once
#include <vector>

#include "task/task.h"

namespace faibench::runtime_arena_memplan {

std::vector<Case> cases();
/// Small valid inputs: few or many alive, dense or sparse times, equal or spread sizes, any alignment.
TensorMap random_case(Random& random);

}  // namespace faibench::runtime_arena_memplan
