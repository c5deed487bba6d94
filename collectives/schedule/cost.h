// How long a schedule takes by a latency-bandwidth model, and the least that any algorithm takes.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "schedule/schedule.h"

namespace faibench {

/// Seconds of a message and of a byte at each level ([0] in a node, [1] between nodes), of adding a byte, and of handling one more message. LogGP's L, G and g (Alexandrov, Ionescu, Schauser and
/// Scheiman 1995), with a node's links shared by its ranks.
struct CostModel {
  double alpha[2] = {0, 0}, beta[2] = {0, 0}, gamma = 0;
  double overhead[2] = {0, 0};    ///< of every further message of a rank and round: latencies overlap, handling does not
  bool parallel_in_node = false;  ///< messages in a node do not slow one another, as where every pair has a link of its own; else a rank copies one after the other
  int rails = 0;                  ///< links between a node and the network, shared by its ranks; 0: one a rank
  std::int64_t eager = 64 << 10;  ///< bytes up to which a sender does not wait until its receiver is ready
};

/// What the seconds of a path through a schedule are made of: how often each price of a CostModel is paid.
struct CostTerms {
  static constexpr std::size_t count = 7;
  std::array<double, count> times{};  ///< alpha[0], alpha[1], beta[0], beta[1], gamma, overhead[0], overhead[1]
  static std::array<double, count> prices(const CostModel& model) { return {model.alpha[0], model.alpha[1], model.beta[0], model.beta[1], model.gamma, model.overhead[0], model.overhead[1]}; }
};

/// The longest path through a schedule, every rank with a clock of its own: it ends a round when the last message is there (its sender has come to the round by then; of a long one sent, its receiver), all
/// bytes have passed its link, and its sums are made; ranks wait for no others. O(messages), the schedule is asked twice for each round of each rank where ranks share rails.
CostTerms predicted_terms(const Schedule& schedule, const NodeMap& nodes, const CostModel& model);

/// Seconds of predicted_terms(); or, given `sampled` ranks, what these alone tell: rounds one after another, each as long as the slowest of them. A round in which none of them has a message is then
/// charged one latency. For schedules of too many messages to walk them all.
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
