// The multi-rank form: every rank holds its own records, and ends with the merged names and sizes of all.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "task/task.h"

namespace faibench {
class Communicator;
}

namespace faibench::dcp_shard_meta_merge {

/// Inputs of a rank: names [B], name_offsets [N+1], offset [N], length [N] of its own records, and the room of its outputs, the same on all ranks: bytes_room, records_room.
/// Outputs: those of the one-process form on the concatenation in rank order, on every rank. Rejections are what the concatenation would report, then rank_mismatch.
/// Serialised records of all ranks by an all-gather, then every rank merges all with lists.
Rejected run_mpi_baseline(MultiRank::Call& call);
/// Merges its own first. Equal lists of names: one all-reduce of sizes. Else hashes are sharded, and each name travels once, from its first holder.
Rejected run_mpi(MultiRank::Call& call);
/// The same; unlike lists are sent whole to all where they take at most `small` bytes together, and up to `few` ranks send hashes to each other directly.
Rejected run_mpi_above(MultiRank::Call& call, std::int64_t small, int few);

/// Bytes of a rank's block where lists are sent whole, when no rank has more names or bytes of them; and how many of all ranks together run_mpi() calls small.
std::int64_t block_bytes(std::int64_t count, std::int64_t bytes);
std::int64_t small_bytes(int ranks);

/// What is wrong with this rank's own records, if anything: the first row of the table that is broken, and there the first record.
Rejected first_fault(const TensorRefMap& shard);
/// One all-reduce (min) decides for all ranks: the rejection that the concatenation in rank order would get, given each rank's own; else rank_mismatch where rooms differ.
/// `extra` is reduced along (min), any values.
Rejected agree(Communicator& communicator, const TensorRefMap& shard, const Rejected& own, std::span<std::int64_t> extra = {});
/// rank_mismatch if a result of so many bytes and names has no room; the same answer on all ranks that agreed.
Rejected check_room(const TensorRefMap& shard, std::int64_t bytes, std::int64_t names);

/// Workloads, cases, gate and scaling. `rules`: the one-process contract's.
MultiRank multi_rank(const Contract& rules);
std::vector<MultiRank::RankCase> rank_cases();
/// The n-th name of an expert's projections and their optimizer state.
std::string expert_name(std::int64_t n);
/// `dense` names sharded over all ranks by ceil chunks, some with fewer rows than ranks; `experts` names, each whole on one rank.
TensorMap checkpoint(Random& random, std::int64_t ranks, std::int64_t dense, std::int64_t experts);

}  // namespace faibench::dcp_shard_meta_merge
