// The gate's inputs: fixed cases from the contract's edge cases and traps, and random ones.
#pragma once
#include <vector>

#include "task/task.h"

namespace faibench::grpo_rloo_advantage {

std::vector<Case> cases();
/// Small valid inputs: both estimators, any grouping, sometimes values that are not finite.
TensorMap random_case(Random& random);

}  // namespace faibench::grpo_rloo_advantage
