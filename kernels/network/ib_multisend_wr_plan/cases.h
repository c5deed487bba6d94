// Inputs of ib_multisend_wr_plan: fixed cases, random ones, and the workloads' generator.
#pragma once
#include "task/task.h"

namespace faibench::ib_multisend_wr_plan {

std::vector<Case> cases();
TensorMap random_input(Random& random);
/// Every slot of a FIFO of `F` written from id `head` on, `Q` queue pairs over 2 local and 2 remote devices; sends of all groups, in order of group, plus 2 % without an entry.
TensorMap long_batch(Random& random, std::int64_t F, std::int64_t Q, std::uint64_t head);
/// 6 sends of one 1-entry, one 2-entry and one 3-entry group, Q = 4, F = 8.
TensorMap small_batch(Random& random);

}  // namespace faibench::ib_multisend_wr_plan
