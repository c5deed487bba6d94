// All-reduce on nodes: rank l of a node sums slice l in the node, sums it with rank l of the other nodes (as many rails as a node has ranks, each with its own network link),
// and gives the finished slice to its node. Between nodes travel 2(M-1)/M of a slice a rank, M nodes, where nothing but a rail's own slice passes any link.
//
//   node 0: ranks 0 1   node 1: ranks 2 3   slices AB
//   in the node   1 -> 0: A1, 0 -> 1: B0           3 -> 2: A3, 2 -> 3: B2
//   on the rails  0 and 2: all-reduce of A0+A1 and A2+A3; 1 and 3 of B0+B1 and B2+B3
//   in the node   0 -> 1: A, 1 -> 0: B             2 -> 3: A, 3 -> 2: B
#include "schedule/all_reduce_parts.h"
#include "schedule/pieces.h"

namespace faibench {
namespace {

/// Up to so many nodes the rails exchange directly: 2 rounds of M-1 messages. Above, 2 log2 M rounds of one message; where M is no power of two these move up to half as much again.
constexpr int most_direct_nodes = 16;

std::unique_ptr<Schedule> rail_all_reduce(const Summed& vector, int nodes) {
  return nodes <= most_direct_nodes ? two_shot_all_reduce(vector, nodes) : halving_doubling_all_reduce(vector, nodes);
}

class Hierarchical : public Schedule {
 public:
  Hierarchical(const Summed& vector, const NodeMap& nodes)
      : Schedule(vector.element_bytes()), nodes_(nodes), slices_{vector.count, static_cast<int>(nodes.members(0).size())} {
    // Sums of a node's ranks are the input of the rails, in the wider type.
    for (int slice = 0; slice < slices_.parts; ++slice) {
      rails_.push_back(rail_all_reduce({slices_.length(slice), vector.partial_bytes, vector.partial_bytes}, nodes.nodes()));
    }
  }
  std::string algorithm() const override { return std::string(name_of(AllReduce::hierarchical)); }
  int ranks() const override { return nodes_.ranks(); }
  int rounds() const override { return rails_.front()->rounds() + 2; }

  std::array<std::int64_t, buffer_kinds> room(int rank) const override {
    const int own = nodes_.local_rank(rank);
    const auto rail = rails_[static_cast<std::size_t>(own)]->room(nodes_.node_of(rank));
    const auto of = [&](Buffer buffer) { return rail[static_cast<std::size_t>(buffer)]; };
    return {slices_.count, slices_.count, (slices_.parts - 1) * slices_.length(own), of(Buffer::input) + of(Buffer::partial), of(Buffer::arrived) + of(Buffer::arrived_partial)};
  }

  Round round(int rank, int index) const override {
    if (index == 0) return scatter_in_node(rank);
    if (index == rounds() - 1) return gather_in_node(rank);
    return on_rail(rank, index - 1);
  }

 private:
  Region slice(Buffer buffer, int local) const { return {buffer, slices_.start(local), slices_.length(local)}; }
  Region slot(int at, int from) const { return {Buffer::arrived, (from < at ? from : from - 1) * slices_.length(at), slices_.length(at)}; }

  Round scatter_in_node(int rank) const {
    Round round;
    const int own = nodes_.local_rank(rank);
    const auto members = nodes_.members(nodes_.node_of(rank));
    for (int step = 1; step < slices_.parts; ++step) {
      const int to = wrapped(own + step, slices_.parts), from = wrapped(own - step, slices_.parts);
      if (slices_.length(to) > 0) round.sends.push_back({members[static_cast<std::size_t>(to)], slice(Buffer::input, to), slot(to, own)});
      if (slices_.length(own) > 0) round.receives.push_back({members[static_cast<std::size_t>(from)], slot(own, from), slice(Buffer::input, own)});
    }
    if (slices_.length(own) > 0) {
      Sum sum{{}, {Buffer::partial, 0, slices_.length(own)}};
      for (int l = 0; l < slices_.parts; ++l) sum.terms.push_back(l == own ? slice(Buffer::input, own) : slot(own, l));
      round.sums.push_back(std::move(sum));
    }
    return round;
  }

  Round gather_in_node(int rank) const {
    Round round;
    const int own = nodes_.local_rank(rank);
    const auto members = nodes_.members(nodes_.node_of(rank));
    for (int step = 1; step < slices_.parts; ++step) {
      const int to = wrapped(own + step, slices_.parts), from = wrapped(own - step, slices_.parts);
      const Region mine = slice(Buffer::output, own), theirs = slice(Buffer::output, from);
      if (mine.count > 0) round.sends.push_back({members[static_cast<std::size_t>(to)], mine, mine});
      if (theirs.count > 0) round.receives.push_back({members[static_cast<std::size_t>(from)], theirs, theirs});
    }
    return round;
  }

  /// The rail's round with its ranks (nodes) and buffers named as ours.
  Round on_rail(int rank, int index) const {
    const int own = nodes_.local_rank(rank);
    const Schedule& rail = *rails_[static_cast<std::size_t>(own)];
    Round round = rail.round(nodes_.node_of(rank), index);
    for (auto* messages : {&round.sends, &round.receives}) {
      for (Message& message : *messages) {
        const int node = message.peer;
        message.peer = nodes_.members(node)[static_cast<std::size_t>(own)];
        message.here = ours(message.here, rail, nodes_.node_of(rank), own);
        message.there = ours(message.there, rail, node, own);
      }
    }
    for (Sum& sum : round.sums) {
      for (Region& term : sum.terms) term = ours(term, rail, nodes_.node_of(rank), own);
      sum.into = ours(sum.into, rail, nodes_.node_of(rank), own);
    }
    return round;
  }

  Region ours(const Region& region, const Schedule& rail, int node, int own) const {
    switch (region.buffer) {
      case Buffer::input: return {Buffer::partial, region.offset, region.count};
      case Buffer::output: return {Buffer::output, slices_.start(own) + region.offset, region.count};
      case Buffer::arrived: return {Buffer::arrived_partial, region.offset, region.count};
      case Buffer::partial: return {Buffer::partial, slices_.length(own) + region.offset, region.count};
      case Buffer::arrived_partial: break;
    }
    return {Buffer::arrived_partial, rail.room(node)[static_cast<std::size_t>(Buffer::arrived)] + region.offset, region.count};
  }

  NodeMap nodes_;
  Pieces slices_;
  std::vector<std::unique_ptr<Schedule>> rails_;  // by slice; rank m of a rail is the rank on node m
};

}  // namespace

std::unique_ptr<Schedule> hierarchical_all_reduce(const Summed& vector, const NodeMap& nodes) {
  if (nodes.members(0).size() == 1) return rail_all_reduce(vector, nodes.ranks());  // nothing to do in the nodes
  return std::make_unique<Hierarchical>(vector, nodes);
}

}  // namespace faibench
