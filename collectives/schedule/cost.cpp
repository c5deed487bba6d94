#include "schedule/cost.h"

#include <algorithm>
#include <numeric>

namespace faibench {
namespace {

/// Bytes of one rank in one round, by level, and its messages.
struct Load {
  double out[2] = {0, 0}, in[2] = {0, 0}, longest[2] = {0, 0}, added = 0;
  int sent[2] = {0, 0}, received[2] = {0, 0};
  [[nodiscard]] bool idle() const { return sent[0] + sent[1] + received[0] + received[1] == 0; }
};

Load load_of(const Schedule& schedule, const NodeMap& nodes, int rank, const Round& round) {
  Load load;
  const auto count = [&](const Message& m, double (&bytes)[2], int (&messages)[2]) {
    const int level = nodes.same_node(rank, m.peer) ? 0 : 1;
    const auto own = static_cast<double>(schedule.bytes_of(m.here));
    bytes[level] += own;
    load.longest[level] = std::max(load.longest[level], own);
    ++messages[level];
  };
  for (const Message& m : round.sends) count(m, load.out, load.sent);
  for (const Message& m : round.receives) count(m, load.in, load.received);
  for (const Sum& sum : round.sums)
    for (std::size_t t = 1; t < sum.terms.size(); ++t) load.added += static_cast<double>(schedule.bytes_of(sum.terms[t]));
  return load;
}

/// What a rank pays in a round beside the wait for its peers: `between` are the bytes that pass its share of the links to the network.
void pay(const Load& load, const CostModel& model, double between, CostTerms& terms) {
  terms.times[2] += model.parallel_in_node ? load.longest[0] : std::max(load.out[0], load.in[0]);
  terms.times[3] += between;
  terms.times[4] += load.added;
  // One message is paid by its latency; the further ones are handled one after another, the dearer level counts.
  const int level = load.sent[1] + load.received[1] > 0 ? 1 : 0;
  const int further = std::max(load.sent[0] + load.sent[1], load.received[0] + load.received[1]) - 1;
  if (further > 0) terms.times[5 + static_cast<std::size_t>(level)] += further;
}

double seconds_of(const CostTerms& terms, const std::array<double, CostTerms::count>& prices) { return std::inner_product(prices.begin(), prices.end(), terms.times.begin(), 0.0); }

/// A rank's clock: the path that made it so late, and its seconds.
struct Clock {
  CostTerms terms;
  double seconds = 0;
};

class Walk {
 public:
  Walk(const Schedule& schedule, const NodeMap& nodes, const CostModel& model)
      : schedule_(schedule), nodes_(nodes), model_(model), prices_(CostTerms::prices(model)), clocks_(static_cast<std::size_t>(schedule.ranks())), next_(clocks_) {}

  CostTerms run() {
    for (int index = 0; index < schedule_.rounds(); ++index) {
      if (shares_rails()) count_nodes(index);
      for (int rank = 0; rank < schedule_.ranks(); ++rank) next_[static_cast<std::size_t>(rank)] = after(rank, schedule_.round(rank, index));
      clocks_.swap(next_);
    }
    return std::ranges::max_element(clocks_, {}, &Clock::seconds)->terms;
  }

 private:
  [[nodiscard]] bool shares_rails() const { return model_.rails > 0 && nodes_.nodes() > 1; }

  /// Bytes that leave and enter each node in the round, all at once.
  void count_nodes(int index) {
    out_.assign(static_cast<std::size_t>(nodes_.nodes()), 0);
    in_ = out_;
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      const Load load = load_of(schedule_, nodes_, rank, schedule_.round(rank, index));
      out_[node_of(rank)] += load.out[1];
      in_[node_of(rank)] += load.in[1];
    }
  }

  Clock after(int rank, const Round& round) {
    const Clock& own = clocks_[static_cast<std::size_t>(rank)];
    const Clock* latest = &own;
    int level = -1;  // of the message that came last; none: nothing to wait for
    double there = own.seconds;
    const auto wait_for = [&](const Message& m) {
      const Clock& peer = clocks_[static_cast<std::size_t>(m.peer)];
      const Clock& later = peer.seconds > own.seconds ? peer : own;
      const int l = nodes_.same_node(rank, m.peer) ? 0 : 1;
      if (level >= 0 && later.seconds + model_.alpha[l] <= there) return;
      latest = &later;
      level = l;
      there = later.seconds + model_.alpha[l];
    };
    for (const Message& m : round.receives) wait_for(m);
    for (const Message& m : round.sends)
      if (schedule_.bytes_of(m.here) > model_.eager) wait_for(m);
    Clock clock{latest->terms, 0};
    if (level >= 0) ++clock.terms.times[static_cast<std::size_t>(level)];
    const Load load = load_of(schedule_, nodes_, rank, round);
    double between = std::max(load.out[1], load.in[1]);
    if (shares_rails() && between > 0) between = std::max(shared(round.sends, load.out[1], out_, in_, rank), shared(round.receives, load.in[1], in_, out_, rank));
    pay(load, model_, between, clock.terms);
    clock.seconds = seconds_of(clock.terms, prices_);
    return clock;
  }

  /// Bytes of the own node, or of the busiest node at the other side, over its rails: messages that share a link end together.
  double shared(const std::vector<Message>& messages, double own, const std::vector<double>& here, const std::vector<double>& there, int rank) const {
    if (own == 0) return 0;
    double most = here[node_of(rank)];
    for (const Message& m : messages)
      if (!nodes_.same_node(rank, m.peer)) most = std::max(most, there[node_of(m.peer)]);
    const auto members = static_cast<double>(nodes_.members(nodes_.node_of(rank)).size());
    return std::max(own, most / std::min<double>(model_.rails, members));
  }

  [[nodiscard]] std::size_t node_of(int rank) const { return static_cast<std::size_t>(nodes_.node_of(rank)); }

  const Schedule& schedule_;
  const NodeMap& nodes_;
  const CostModel& model_;
  std::array<double, CostTerms::count> prices_;
  std::vector<Clock> clocks_, next_;
  std::vector<double> out_, in_;
};

/// Ranks whose rounds stand for all: the first, one that folding leaves out, middle ones, the last. Schedules are the same for most ranks but for the fold and the last node.
std::vector<int> few_of(int ranks) {
  std::vector<int> few = {0, 1, ranks / 2, ranks - 1};
  std::erase_if(few, [&](int rank) { return rank < 0 || rank >= ranks; });
  std::ranges::sort(few);
  few.erase(std::unique(few.begin(), few.end()), few.end());
  return few;
}

}  // namespace

CostTerms predicted_terms(const Schedule& schedule, const NodeMap& nodes, const CostModel& model) { return Walk(schedule, nodes, model).run(); }

double predicted_seconds(const Schedule& schedule, const NodeMap& nodes, const CostModel& model, std::span<const int> sampled) {
  const auto prices = CostTerms::prices(model);
  if (sampled.empty()) return seconds_of(predicted_terms(schedule, nodes, model), prices);
  double seconds = 0;
  for (int index = 0; index < schedule.rounds(); ++index) {
    double slowest = 0;
    bool idle = true;
    for (const int rank : sampled) {
      const Load load = load_of(schedule, nodes, rank, schedule.round(rank, index));
      idle = idle && load.idle();
      CostTerms terms;
      if (!load.idle()) terms.times[load.sent[1] + load.received[1] > 0 ? 1 : 0] = 1;
      // Its neighbours are taken to send and receive as much.
      const auto members = static_cast<double>(nodes.members(nodes.node_of(rank)).size());
      const double sharing = model.rails > 0 ? std::max(1.0, members / model.rails) : 1;
      pay(load, model, sharing * std::max(load.out[1], load.in[1]), terms);
      slowest = std::max(slowest, seconds_of(terms, prices));
    }
    if (idle) slowest += model.alpha[nodes.nodes() > 1 ? 1 : 0];  // others are at work: a ring of fewer pieces than ranks
    seconds += slowest;
  }
  return seconds;
}

LowerBound all_reduce_bound(std::int64_t bytes, int ranks) {
  if (ranks <= 1 || bytes == 0) return {0, 0, "nothing to send"};
  return {1, 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes), "1 round, 2(P-1)/P n bytes"};
}

LowerBound all_gather_bound(std::span<const std::int64_t> bytes_of_rank) {
  const std::int64_t all = std::accumulate(bytes_of_rank.begin(), bytes_of_rank.end(), std::int64_t{0});
  if (bytes_of_rank.size() <= 1 || all == 0) return {0, 0, "nothing to send"};
  // The rank that brings least receives most.
  return {1, static_cast<double>(all - *std::ranges::min_element(bytes_of_rank)), "1 round, n - smallest block bytes"};
}

double bound_seconds(const LowerBound& bound, const NodeMap& nodes, const CostModel& model) {
  if (nodes.ranks() <= 1) return 0;
  // P ranks on M nodes: where all ranks together receive (P-1) blocks, the nodes together receive (M-1) from other nodes. The busiest rank has no less than the mean.
  const double network = static_cast<double>(nodes.nodes() - 1) / (nodes.ranks() - 1);
  const double cheaper = nodes.nodes() > 1 ? std::min(model.beta[0], model.beta[1]) : model.beta[0];
  // Where messages in a node do not slow one another, their bytes are no bound.
  const double in_node = model.parallel_in_node ? 0 : cheaper;
  return bound.rounds * model.alpha[nodes.nodes() > 1 ? 1 : 0] + bound.bytes * (network * model.beta[1] + (1 - network) * in_node);
}

AllReduce best_all_reduce(std::int64_t count, const NodeMap& nodes, std::int64_t wire_bytes, std::int64_t partial_bytes, const CostModel& model, bool ordered) {
  AllReduce best = AllReduce::two_shot;
  double least = 0;
  const std::vector<int> few = few_of(nodes.ranks());
  for (const AllReduce algorithm : {AllReduce::two_shot, AllReduce::one_shot, AllReduce::recursive_doubling, AllReduce::halving_doubling, AllReduce::hierarchical, AllReduce::ring}) {
    const bool adds_in_order = algorithm == AllReduce::two_shot || algorithm == AllReduce::one_shot;
    if ((ordered && !adds_in_order) || (algorithm == AllReduce::hierarchical && !nodes.uniform())) continue;
    const double seconds = predicted_seconds(*all_reduce_schedule(algorithm, count, nodes, wire_bytes, partial_bytes), nodes, model, few);
    if (algorithm == AllReduce::two_shot || seconds < least) {
      best = algorithm;
      least = seconds;
    }
  }
  return best;
}

AllGather best_all_gather(std::span<const std::int64_t> counts, const NodeMap& nodes, std::int64_t element_bytes, const CostModel& model) {
  AllGather best = AllGather::log_step;
  double least = 0;
  const std::vector<int> few = few_of(nodes.ranks());
  for (const AllGather algorithm : {AllGather::log_step, AllGather::direct, AllGather::ring}) {
    const double seconds = predicted_seconds(*all_gather_schedule(algorithm, counts, nodes, element_bytes), nodes, model, few);
    if (algorithm == AllGather::log_step || seconds < least) {
      best = algorithm;
      least = seconds;
    }
  }
  return best;
}

}  // namespace faibench
