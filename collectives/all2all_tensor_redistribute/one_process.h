// The one-process form, in its parts: contract, cases.
#pragma once
#include <vector>

#include "task/task.h"

namespace faibench::all2all_tensor_redistribute {

Contract one_process_contract();
/// The rules on shape, mesh and axes, which hold of a whole input and of a rank's alike; and the first of them that these inputs break.
void add_layout_rules(Contract& contract);
Rejected check_layout(const TensorRefMap& inputs);

std::vector<Case> cases();
/// A few hundred elements over a few ranks, any shardings, any dtype.
TensorMap random_input(Random& random);

}  // namespace faibench::all2all_tensor_redistribute
