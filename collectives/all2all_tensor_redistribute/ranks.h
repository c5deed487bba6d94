// The multi-rank form, in its parts: whole inputs, cases, what a study sweeps.
#pragma once
#include <span>
#include <vector>

#include "task/task.h"

namespace faibench::all2all_tensor_redistribute {

/// `mpi` where shards lie in memory that ranks of a node share: a receiver pulls from the owner's shard, one copy; other nodes by messages.
Rejected run_mpi_registered(MultiRank::Call& call);

/// What a whole input is made of. Axes: a list a dim, major first.
struct Layout {
  std::vector<std::int64_t> shape, mesh;
  std::vector<std::vector<std::int64_t>> source, target;
  Dtype dtype = Dtype::f32;
};
/// The one-process form's input. Every element's bytes tell its place in the global tensor, and differ from call to call. Mesh product: the ranks.
TensorMap whole_input(Random& random, const Layout& layout);

/// Target shards by rank against the whole input, byte for byte.
GateResult check_all_ranks(const TensorRefMap& whole, const std::vector<TensorMap>& outputs);
/// Bytes that cross to the rank that must receive the most.
Floor wire_floor(const TensorMap& whole, int ranks);

std::vector<MultiRank::RankCase> rank_cases();
/// Row shards to column shards of a matrix over a mesh of one axis: everybody has something for everybody.
MultiRank::Scaling rank_scaling();

}  // namespace faibench::all2all_tensor_redistribute
