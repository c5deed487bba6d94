// The multi-rank form: gradients lie in shards, the squared norms of all tensors are summed over ranks.
#pragma once
#include <algorithm>
#include <cstdint>

#include "schedule/schedule.h"
#include "task/task.h"

namespace faibench::fused_global_grad_clip {

/// Tensors of fewer elements are whole on every rank, and counted once: by rank 0.
inline constexpr std::int64_t sharded_from = 1024;
/// Sizes above it are no sizes of tensors.
inline constexpr std::int64_t largest_size = std::int64_t{1} << 48;
/// The elements of a tensor of n that a rank holds: all of a small one, else its chunk of ceil(n / ranks); the last chunks are short or empty.
struct Share {
  std::int64_t first, count;
};
inline Share share_of(std::int64_t n, int rank, int ranks) {
  if (n < sharded_from) return {0, n};
  const std::int64_t chunk = (n + ranks - 1) / ranks, first = std::min(n, chunk * rank);
  return {first, std::min(chunk, n - first)};
}

/// Inputs of a rank: grads [L] (its shares, tensor after tensor), sizes i64 [K] (elements of each whole tensor), max_norm, error_if_nonfinite.
/// Outputs: clipped [L] (its shares), total_norm [] and tensor_norms [K] of the whole, equal in every bit on all ranks.
/// All ranks report the same code: what one of them finds (bad_max_norm, bad_size), rank_mismatch, or nonfinite_norm, which is decided from the reduced sums.
/// Straightforward: an all-reduce of one number a tensor.
Rejected run_mpi_baseline(MultiRank::Call& call);
/// One all-reduce of the K squared norms along norms_schedule().
Rejected run_mpi(MultiRank::Call& call);

/// How run_mpi sums `tensors` f64 over ranks: by an algorithm that leaves equal bits on all ranks, chosen by size.
std::unique_ptr<Schedule> norms_schedule(std::int64_t tensors, const NodeMap& nodes);

/// Everything of the multi-rank form; its cases are in rank_cases.cpp.
MultiRank multi_rank();
std::vector<MultiRank::RankCase> rank_cases();

}  // namespace faibench::fused_global_grad_clip
