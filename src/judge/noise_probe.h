// A built-in task of the judge's own: constant work with no data to speak of. Measures the noise floor and the hand-shake; not in the catalog.
#pragma once
#include <string_view>

#include "task/task.h"

namespace faibench {

inline constexpr std::string_view noise_probe_name = "faibench_noise_probe";

/// Workload "smoke": about half a millisecond of arithmetic. Variants "reference" and "baseline" are the same function.
const Task& noise_probe();

/// find_task(), and the judge's own.
const Task* find_judged_task(std::string_view name);

}  // namespace faibench
