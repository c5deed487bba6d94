// Input sets of lora_adapter_apply: the workloads' distributions and the fixed cases.
#pragma once
#include <vector>

#include "task/task.h"

namespace faibench::lora_adapter_apply {

struct Sizes {
  std::int64_t T, I, O, R;
};

/// All tensors uniform in [-1, 1).
TensorMap uniform_inputs(Random& random, const Sizes& sizes, float scale = 2);
/// x normal(0,1), W and A normal/sqrt(I), B normal(0, 0.1), scale 2.
TensorMap layer_inputs(Random& random, const Sizes& sizes);
/// The fill `exact`: integers so small that no f32 form rounds. With R > I several rows of A share a column.
TensorMap exact_inputs(Random& random, const Sizes& sizes);

std::vector<Case> cases();

}  // namespace faibench::lora_adapter_apply
