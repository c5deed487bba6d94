// The one-process form, in its parts: contract, whole inputs, cases.
#pragma once
#include <vector>

#include "task/task.h"

namespace faibench::all2all_tensor_redistribute {

Contract one_process_contract();
/// The rules on shape, mesh and axes, which hold of a whole input and of a rank's alike; and the first of them that these inputs break.
void add_layout_rules(Contract& contract);
Rejected check_layout(const TensorRefMap& inputs);

/// What an input is made of. Axes: a list a dim, major first.
struct Example {
  std::vector<std::int64_t> shape, mesh;
  std::vector<std::vector<std::int64_t>> source, target;
  Dtype dtype = Dtype::f32;
};
/// Every element's bytes are a mixed counter of its place in the global tensor, from another start each call: a misplaced or an old element shows. NaN payloads occur. Valid examples only.
TensorMap redistribute_input(Random& random, const Example& example);

std::vector<Case> cases();
/// A few hundred elements over a few ranks, any shardings, any dtype.
TensorMap random_input(Random& random);

}  // namespace faibench::all2all_tensor_redistribute
