// Is a task's gate worth anything? Trivial answers must fail it.
#pragma once
#include <string>
#include <vector>

#include "task/task.h"

namespace faibench {

/// Tries, on the inputs of `workload` (its first part, and every other fill): all zeros, a constant, a copy of the input's bytes, the right answer to the previous inputs, the right
/// answer with its rows permuted. Returns one line for each that the gate let pass (and one if it does not pass the right answer).
std::vector<std::string> lint_gate(const Task& task, const Workload& workload, std::uint64_t seed);

}  // namespace faibench
