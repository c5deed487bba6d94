// What ranks must have in common before they move anything.
#pragma once
#include "task/task.h"

namespace faibench::tp_allreduce_bias_fuse {

/// One small reduction over all ranks, after which all have entered the call: rank_mismatch on every rank where M, N, dtype or the bytes of bias differ between any two.
/// `everywhere` stays true only where all ranks came with true.
Rejected compare_ranks(Communicator& communicator, const TensorRef& partial, const TensorRef& bias, bool& everywhere);

}  // namespace faibench::tp_allreduce_bias_fuse
