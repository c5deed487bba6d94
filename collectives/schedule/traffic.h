// What a schedule costs, counted from its messages alone: bytes per level, rounds, partners; the lower bound; a forecast by a latency-bandwidth model.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "schedule/schedule.h"

namespace faibench {

/// Sums over a rank's messages, by level: [0] between ranks of a node, [1] between nodes.
struct Traffic {
  std::int64_t bytes_sent[2] = {0, 0}, bytes_received[2] = {0, 0};
  std::int64_t messages_sent[2] = {0, 0}, messages_received[2] = {0, 0};
  int partners = 0;      ///< distinct ranks sent to or received from
  int most_incoming = 0; ///< messages received in the busiest round
};
Traffic traffic_of(const Schedule& schedule, const NodeMap& nodes, int rank);

/// Follows every message of `sampled` ranks (all ranks when empty) to its other side: equal counts and regions there, in the same round and order, no message to oneself, none empty,
/// regions inside the rooms, receives of a round disjoint. Empty: sound; else one line that names rank, round, message.
std::optional<std::string> fault_in(const Schedule& schedule, std::span<const int> sampled = {});

/// Seconds of a message and of a byte at each level ([0] in a node, [1] between nodes), and of adding a byte.
struct CostModel {
  double alpha[2] = {0, 0}, beta[2] = {0, 0}, gamma = 0;
};
/// What every further message of a rank and round costs beside its bytes, as a share of alpha: latencies overlap, handling does not.
inline constexpr double message_overhead_share = 0.1;
/// Rounds one after another, each as long as its slowest rank: messages of one rank share its link, latencies of one round overlap but for a per-message overhead.
/// O(messages); for very large P give `sampled` ranks. A round in which none of them has a message is then charged one latency.
double predicted_seconds(const Schedule& schedule, const NodeMap& nodes, const CostModel& model, std::span<const int> sampled = {});

/// The least any algorithm needs: rounds (latency; any number of messages at once) and bytes through the busiest rank's link, one direction.
struct LowerBound {
  int rounds = 0;
  double bytes = 0;
  std::string formula;
};
LowerBound all_reduce_bound(std::int64_t bytes, int ranks);
LowerBound all_gather_bound(std::span<const std::int64_t> bytes_of_rank);
/// seconds = rounds*alpha + bytes*beta: alpha of the slowest level that the ranks span, beta of the network for the share that must pass it on M nodes, (M-1)/(P-1), else of the node.
double bound_seconds(const LowerBound& bound, const NodeMap& nodes, const CostModel& model);

/// The algorithm of least predicted time among those that serve `nodes`; `ordered` admits only those that add in ascending rank. The same on every rank. Predicted from a few
/// ranks, O(P) all the same: keep the answer where calls are short.
AllReduce best_all_reduce(std::int64_t count, const NodeMap& nodes, std::int64_t wire_bytes, std::int64_t partial_bytes, const CostModel& model, bool ordered);
AllGather best_all_gather(std::span<const std::int64_t> counts, const NodeMap& nodes, std::int64_t element_bytes, const CostModel& model);

}  // namespace faibench
