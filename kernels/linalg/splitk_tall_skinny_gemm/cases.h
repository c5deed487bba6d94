// The fixed cases of splitk_tall_skinny_gemm.
#pragma once
#include <vector>

#include "task/task.h"

namespace faibench::splitk_tall_skinny_gemm {

std::vector<Case> cases();

}  // namespace faibench::splitk_tall_skinny_gemm
