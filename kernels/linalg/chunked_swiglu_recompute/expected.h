// The right answer in f64, fast enough to check every timed call: what the gate compares with. Shares no code with `reference`.
#pragma once
#include "task/task.h"

namespace faibench::chunked_swiglu_recompute {

/// y and dx as f64 tensors.
TensorMap expected(const TensorRefMap& inputs);

}  // namespace faibench::chunked_swiglu_recompute
