// The sequence-parallel form of chunked_swiglu_recompute: tokens split over ranks, weights on all of them.
#pragma once
#include "task/task.h"

namespace faibench::chunked_swiglu_recompute {

/// Of a task whose contract, gate and expected answer are filled in.
MultiRank multi_rank(const Task& task);

}  // namespace faibench::chunked_swiglu_recompute
