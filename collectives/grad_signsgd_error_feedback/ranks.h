// The multi-rank form: every rank compresses its own gradient, all payloads travel to all ranks, and every rank averages them alike.
#pragma once
#include <span>

#include "collectives/grad_signsgd_error_feedback/grad_signsgd_error_feedback.h"
#include "schedule/schedule.h"
#include "task/task.h"

namespace faibench::grad_signsgd_error_feedback {

/// Inputs of a rank: grad, error f32 [n], step i64, layout i64 [L,2]; outputs format i32, payload u8 [B], update, average, new_error f32 [n]; average is equal in every bit on all ranks.
/// All ranks report the code of the lowest rank that has one (bad_layout, bad_step, nonfinite_grad, nonfinite_error, error_overflow), else rank_mismatch where n, step, layout or format differ;
/// no output is written then. Pass after pass over the whole bucket, one blocking all-gather.
Rejected run_mpi_baseline(MultiRank::Call& call);
/// Format 1; segments of whole blocks are applied while others travel.
Rejected run_mpi(MultiRank::Call& call);
/// The same with segments of so many blocks.
Rejected run_in_segments(MultiRank::Call& call, std::int64_t blocks);

/// Format 128: lengths, then payloads of about 1/960 of the bucket. Fewer bytes and more work than run_mpi: for slow wires.
Rejected run_mpi_sparse(MultiRank::Call& call);
/// What run_mpi and run_mpi_sparse do before anything is written. `finite`: whether all of this rank's grad + error is.
Rejected agree(Communicator& communicator, const TensorRefMap& inputs, std::int32_t format, bool finite);

/// How payloads of `bytes` bytes a rank are gathered.
AllGather gather_algorithm(std::int64_t bytes, int ranks);

/// Everything of the multi-rank form.
MultiRank multi_rank();
/// Its fixed cases.
std::vector<MultiRank::RankCase> rank_cases();
/// The whole input: grad, error [ranks, n], normally distributed.
TensorMap whole_input(Random& random, std::int64_t n, int ranks, float error_scale = 1);

/// The contract's rules on layout and step.
Rejected check_layout(const TensorRefMap& inputs);
Rejected check_step(const TensorRefMap& inputs);

}  // namespace faibench::grad_signsgd_error_feedback
