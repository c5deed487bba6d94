// The fixed and random inputs of safetensors_shard_route's gate.
#pragma once
#include <string>
#include <vector>

#include "task/task.h"

namespace faibench::safetensors_shard_route {

/// The five tensors of an input.
TensorMap route_input(const std::vector<std::string>& names, std::vector<std::int64_t> file_offsets, const std::vector<std::string>& queries);
std::vector<Case> cases();
/// A few dozen to a few thousand names over few letters, so that equal ones, prefixes and near misses abound.
TensorMap random_input(Random& random);

}  // namespace faibench::safetensors_shard_route
