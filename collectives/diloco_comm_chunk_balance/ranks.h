// The multi-rank form: every rank plans by itself, then the tensors of one chunk after another are averaged over all ranks.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "task/task.h"

namespace faibench::diloco_comm_chunk_balance {

/// Inputs of a rank: sizes [n] (bytes, multiples of 4), chunks, deltas f32 [T], all tensors end to end; output averaged f32 [T].
/// Every element is the sum over ranks times 1/R. All ranks return rank_mismatch if their plans or sizes differ.
/// Chunk by chunk: pack, blocking all-reduce, unpack.
Rejected run_mpi_baseline(MultiRank::Call& call);
/// Sums in ascending rank, f32, so that bits are equal on all ranks; a chunk is packed while those before it are under way.
Rejected run_mpi(MultiRank::Call& call);
inline constexpr std::int64_t longest_segment = std::int64_t{1} << 28;  ///< elements of a stage: 1 GiB
/// The same with at most `segment` elements at a time.
Rejected run_in_segments(MultiRank::Call& call, std::int64_t segment);

/// Of one synchronisation; seconds are those of the slowest rank, the best of a few repeats.
struct StepTimes {
  std::vector<double> chunk_seconds;  ///< each chunk by itself: packed, summed over ranks, applied; 0 for an empty one
  std::vector<std::int64_t> chunk_bytes;
  std::int64_t slowest = 0;           ///< chunk
  double compute_seconds = 0;         ///< packing, adding and applying of all chunks
  double communication_seconds = 0;   ///< the messages of all chunks, one after another, by themselves
  double wall_seconds = 0;            ///< of all chunks as run_mpi() goes about it
  double overlap = 0;                 ///< 1 - (wall - compute) / communication: 1 where messages take no time of their own, 0 where nothing hides them
};
/// Collective, for two ranks or more; the same on all of them. The call's output is the average, as after run_mpi(). Throws Error(internal) where the ranks' plans differ.
StepTimes measure_step(MultiRank::Call& call);
/// In one line.
std::string report_step(MultiRank::Call& call);

/// How a chunk of so many elements is summed over these ranks, in ascending rank.
std::shared_ptr<const Schedule> chunk_schedule(std::int64_t elements, const NodeMap& nodes);

/// Everything of the multi-rank form. `rules`: the one-process contract's, whose checks hold here too.
MultiRank multi_rank(const Contract& rules);

}  // namespace faibench::diloco_comm_chunk_balance
