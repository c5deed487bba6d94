// The fixed and random inputs of device_mesh_group_planner's gate, and what the workloads are made of.
#pragma once
#include <vector>

#include "task/task.h"

namespace faibench::device_mesh_group_planner {

using Numbers = std::vector<std::int64_t>;

/// 0 .. n-1.
Numbers first_ids(std::int64_t n);
TensorMap mesh_input(const Numbers& shape, const Numbers& ids, const Numbers& devices);
/// Distinct random ids below 2^62 and `queries` of them at random, with repeats.
TensorMap sparse_input(Random& random, const Numbers& shape, std::int64_t queries);
std::vector<Case> cases();
/// Up to four axes of up to six, dense, shifted or sparse ids, up to 40 queries.
TensorMap random_input(Random& random);

}  // namespace faibench::device_mesh_group_planner
