// A submission's shared library as a Kernel.
#pragma once
#include <string>

#include "task/kernel.h"

namespace faibench {

/// Loads `path` for the rest of this process's life. Throws Error(bad_input) when it cannot be loaded or lacks faibench_run.
Kernel load_submission(const std::string& path, const char* symbol = "faibench_run");

}  // namespace faibench
