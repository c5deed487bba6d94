// The fixed cases of the gate.
#pragma once
#include <vector>

#include "task/task.h"

namespace faibench::compile_cache_key_canon {

std::vector<Case> fixed_cases();

}  // namespace faibench::compile_cache_key_canon
