// Names of the all-reduce algorithms and the choice by name.
#include "schedule/all_reduce_parts.h"
#include "tensor/error.h"

namespace faibench {

std::string_view name_of(AllReduce algorithm) {
  switch (algorithm) {
    case AllReduce::one_shot: return "one-shot";
    case AllReduce::two_shot: return "two-shot direct";
    case AllReduce::raw_halving: return "raw halving and doubling";
    case AllReduce::recursive_doubling: return "recursive doubling";
    case AllReduce::halving_doubling: return "recursive halving and doubling";
    case AllReduce::ring: return "ring";
    case AllReduce::hierarchical: return "hierarchical";
  }
  return "?";
}

std::unique_ptr<Schedule> all_reduce_schedule(AllReduce algorithm, std::int64_t count, const NodeMap& nodes, std::int64_t wire_bytes, std::int64_t partial_bytes) {
  if (count < 0 || wire_bytes < 1 || partial_bytes < 1) {
    throw Error(Error::Kind::internal, "all_reduce_schedule: " + std::to_string(count) + " elements of " + std::to_string(wire_bytes) + " and " + std::to_string(partial_bytes) + " bytes");
  }
  const Summed vector{count, wire_bytes, partial_bytes};
  const int ranks = nodes.ranks();
  if (algorithm == AllReduce::hierarchical && !nodes.uniform()) throw Error(Error::Kind::internal, "all_reduce_schedule: hierarchical needs equally many ranks on every node");
  if (ranks == 1) return one_shot_all_reduce(vector, ranks);
  switch (algorithm) {
    case AllReduce::one_shot: return one_shot_all_reduce(vector, ranks);
    case AllReduce::two_shot: return two_shot_all_reduce(vector, ranks);
    case AllReduce::raw_halving: return raw_halving_all_reduce(vector, ranks);
    case AllReduce::recursive_doubling: return recursive_doubling_all_reduce(vector, ranks);
    case AllReduce::halving_doubling: return halving_doubling_all_reduce(vector, ranks);
    case AllReduce::ring: return ring_all_reduce(vector, ranks);
    case AllReduce::hierarchical: return nodes.nodes() == 1 ? two_shot_all_reduce(vector, ranks) : hierarchical_all_reduce(vector, nodes);
  }
  throw Error(Error::Kind::internal, "all_reduce_schedule: no such algorithm");
}

}  // namespace faibench
