// The multi-rank form, in its parts: inputs, cases, what a study sweeps.
#pragma once
#include <vector>

#include "collectives/all2all_tensor_redistribute/layout.h"
#include "task/task.h"

namespace faibench::all2all_tensor_redistribute {

/// `mpi` where shards lie in memory that ranks of a node share: a receiver pulls from the owner's shard, one copy; other nodes by messages.
Rejected run_mpi_registered(MultiRank::Call& call);

/// Partners, each way, whose messages `mpi` has under way at once.
inline constexpr int most_under_way = 8;

/// What a call on all ranks is about, without the data: shape, mesh, axes, an empty src_data that tells the type, and `start`, from which every element follows (counters.h). The number of
/// ranks is the mesh's product.
TensorMap described_input(Random& random, const Layout& layout);
/// A rank's own tensors, made from the description alone.
TensorMap shard_of(const TensorMap& described, int rank, int ranks);
/// Target shards by rank, each against what follows from the description for it, byte for byte.
GateResult check_all_ranks(const TensorRefMap& described, const std::vector<TensorMap>& outputs);
/// Bytes that cross to the rank that must receive the most.
Floor wire_floor(const TensorMap& described, int ranks);

std::vector<MultiRank::RankCase> rank_cases();
/// Row shards to column shards of a matrix within groups of about the square root of the ranks.
MultiRank::Scaling rank_scaling();

}  // namespace faibench::all2all_tensor_redistribute
