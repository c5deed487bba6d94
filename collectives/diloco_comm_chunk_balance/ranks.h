// The multi-rank form: every rank plans by itself, then the tensors of one chunk after another are averaged over all ranks.
#pragma once
#include <memory>

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

/// How a chunk of so many elements is summed over these ranks, in ascending rank.
std::shared_ptr<const Schedule> chunk_schedule(std::int64_t elements, const NodeMap& nodes);

/// Everything of the multi-rank form. `rules`: the one-process contract's, whose checks hold here too.
MultiRank multi_rank(const Contract& rules);

}  // namespace faibench::diloco_comm_chunk_balance
