#include "schedule/traffic.h"

#include <algorithm>
#include <map>
#include <numeric>


namespace faibench {
namespace {

std::vector<int> ranks_or(std::span<const int> sampled, int ranks) {
  if (!sampled.empty()) return {sampled.begin(), sampled.end()};
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool equal(const Region& a, const Region& b) { return a.buffer == b.buffer && a.offset == b.offset && a.count == b.count; }

std::string text(const Region& region) {
  const char* const names[buffer_kinds] = {"input", "output", "arrived", "partial", "arrived_partial"};
  return std::string(names[static_cast<std::size_t>(region.buffer)]) + "[" + std::to_string(region.offset) + ", +" + std::to_string(region.count) + ")";
}

/// Checks one rank against itself and against those it exchanges messages with.
class Checker {
 public:
  explicit Checker(const Schedule& schedule) : schedule_(schedule) {}

  std::optional<std::string> fault_at(int rank) const {
    for (int index = 0; index < schedule_.rounds(); ++index) {
      const Round round = schedule_.round(rank, index);
      const auto at = [&](const std::string& what) { return "rank " + std::to_string(rank) + ", round " + std::to_string(index) + ": " + what; };
      for (const bool sending : {true, false}) {
        const std::vector<Message>& messages = sending ? round.sends : round.receives;
        if (auto fault = messages_fault(rank, messages, sending)) return at(*fault);
        if (auto fault = other_side_fault(rank, index, messages, sending)) return at(*fault);
      }
      if (auto fault = overlap(round)) return at(*fault);
      for (const Sum& sum : round.sums)
        if (auto fault = sum_fault(rank, sum)) return at(*fault);
    }
    return std::nullopt;
  }

 private:
  bool fits(int rank, const Region& region) const {
    return region.count > 0 && region.offset >= 0 && region.offset + region.count <= schedule_.room(rank)[static_cast<std::size_t>(region.buffer)];
  }

  std::optional<std::string> messages_fault(int rank, const std::vector<Message>& messages, bool sending) const {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Message& m = messages[i];
      const std::string name = std::string(sending ? "send " : "receive ") + std::to_string(i);
      if (m.peer < 0 || m.peer >= schedule_.ranks() || m.peer == rank) return name + " names rank " + std::to_string(m.peer);
      if (!fits(rank, m.here)) return name + ": " + text(m.here) + " is empty or not inside the room here";
      if (m.here.count != m.there.count || schedule_.bytes_of(m.here) != schedule_.bytes_of(m.there)) return name + ": " + text(m.here) + " here, " + text(m.there) + " there";
      if (!sending && m.here.buffer == Buffer::input) return name + " writes the input";
    }
    return std::nullopt;
  }

  /// Messages between two ranks match in order: the n-th of this rank to a peer is the n-th that the peer has from it.
  std::optional<std::string> other_side_fault(int rank, int index, const std::vector<Message>& messages, bool sending) const {
    std::map<int, std::vector<const Message*>> of_peer;
    for (const Message& m : messages) of_peer[m.peer].push_back(&m);
    for (const auto& [peer, ours] : of_peer) {
      const Round there = schedule_.round(peer, index);
      std::vector<const Message*> theirs;
      for (const Message& m : sending ? there.receives : there.sends)
        if (m.peer == rank) theirs.push_back(&m);
      const std::string name = (sending ? "sends to rank " : "receives from rank ") + std::to_string(peer);
      if (theirs.size() != ours.size()) return name + ": " + std::to_string(ours.size()) + " here, " + std::to_string(theirs.size()) + " there";
      for (std::size_t n = 0; n < ours.size(); ++n) {
        if (equal(ours[n]->here, theirs[n]->there) && equal(ours[n]->there, theirs[n]->here)) continue;
        return name + ", message " + std::to_string(n) + ": " + text(ours[n]->here) + " with " + text(ours[n]->there) + " here, " + text(theirs[n]->there) + " with " + text(theirs[n]->here) + " there";
      }
    }
    return std::nullopt;
  }

  /// What arrives may neither meet what else arrives nor what leaves in the same round.
  static std::optional<std::string> overlap(const Round& round) {
    struct Use { Region region; bool written; };
    std::vector<Use> uses;
    for (const Message& m : round.receives) uses.push_back({m.here, true});
    for (const Message& m : round.sends) uses.push_back({m.here, false});
    std::ranges::sort(uses, [](const Use& a, const Use& b) { return std::pair(a.region.buffer, a.region.offset) < std::pair(b.region.buffer, b.region.offset); });
    const Use* farthest[2] = {nullptr, nullptr};  // of the reads and writes so far in this buffer
    const auto end = [](const Use* use) { return use->region.offset + use->region.count; };
    for (const Use& use : uses) {
      for (const bool written : {false, true}) {
        const Use*& far = farthest[written];
        if (far && far->region.buffer != use.region.buffer) far = nullptr;
        if (far && (written || use.written) && end(far) > use.region.offset) return text(use.region) + " and " + text(far->region) + " overlap in one round";
      }
      const Use*& far = farthest[use.written];
      if (!far || end(&use) > end(far)) far = &use;
    }
    return std::nullopt;
  }

  std::optional<std::string> sum_fault(int rank, const Sum& sum) const {
    if (!fits(rank, sum.into) || sum.into.buffer == Buffer::input) return "a sum into " + text(sum.into);
    if (sum.terms.empty()) return "a sum of nothing into " + text(sum.into);
    for (const Region& term : sum.terms) {
      if (!fits(rank, term) || term.count != sum.into.count) return "a sum into " + text(sum.into) + " with the term " + text(term);
      const bool apart = term.buffer != sum.into.buffer || term.offset + term.count <= sum.into.offset || sum.into.offset + sum.into.count <= term.offset;
      if (!apart && !equal(term, sum.into)) return "a sum into " + text(sum.into) + " overlaps its term " + text(term);
    }
    return std::nullopt;
  }

  const Schedule& schedule_;
};

/// Bytes over each level's link and messages in one direction; the larger direction counts.
double round_seconds(const Schedule& schedule, const NodeMap& nodes, const CostModel& model, int rank, const Round& round) {
  double out[2] = {0, 0}, in[2] = {0, 0}, latency = 0;
  int sent = 0, received = 0;
  double overhead = 0;
  const auto count = [&](const Message& m, double (&bytes)[2], int& messages) {
    const int level = nodes.same_node(rank, m.peer) ? 0 : 1;
    bytes[level] += static_cast<double>(schedule.bytes_of(m.here));
    latency = std::max(latency, model.alpha[level]);
    overhead = std::max(overhead, model.alpha[level] * message_overhead_share);
    ++messages;
  };
  for (const Message& m : round.sends) count(m, out, sent);
  for (const Message& m : round.receives) count(m, in, received);
  double added = 0;
  for (const Sum& sum : round.sums)
    for (std::size_t t = 1; t < sum.terms.size(); ++t) added += static_cast<double>(schedule.bytes_of(sum.terms[t]));
  return latency + std::max(0, std::max(sent, received) - 1) * overhead + std::max(out[0], in[0]) * model.beta[0] + std::max(out[1], in[1]) * model.beta[1] + added * model.gamma;
}

/// Ranks whose rounds stand for all: the first, one that folding leaves out, middle ones, the last. Schedules are the same for most ranks but for the fold and the last node.
std::vector<int> few_of(int ranks) {
  std::vector<int> few = {0, 1, ranks / 2, ranks - 1};
  std::erase_if(few, [&](int rank) { return rank < 0 || rank >= ranks; });
  std::ranges::sort(few);
  few.erase(std::unique(few.begin(), few.end()), few.end());
  return few;
}

}  // namespace

Traffic traffic_of(const Schedule& schedule, const NodeMap& nodes, int rank) {
  Traffic traffic;
  std::vector<int> partners;
  for (int index = 0; index < schedule.rounds(); ++index) {
    const Round round = schedule.round(rank, index);
    for (const Message& m : round.sends) {
      const int level = nodes.same_node(rank, m.peer) ? 0 : 1;
      traffic.bytes_sent[level] += schedule.bytes_of(m.here);
      ++traffic.messages_sent[level];
      partners.push_back(m.peer);
    }
    for (const Message& m : round.receives) {
      const int level = nodes.same_node(rank, m.peer) ? 0 : 1;
      traffic.bytes_received[level] += schedule.bytes_of(m.here);
      ++traffic.messages_received[level];
      partners.push_back(m.peer);
    }
    traffic.most_incoming = std::max(traffic.most_incoming, static_cast<int>(round.receives.size()));
  }
  std::ranges::sort(partners);
  traffic.partners = static_cast<int>(std::ranges::unique(partners).begin() - partners.begin());
  return traffic;
}

std::optional<std::string> fault_in(const Schedule& schedule, std::span<const int> sampled) {
  const Checker checker(schedule);
  for (const int rank : ranks_or(sampled, schedule.ranks()))
    if (auto fault = checker.fault_at(rank)) return fault;
  return std::nullopt;
}

double predicted_seconds(const Schedule& schedule, const NodeMap& nodes, const CostModel& model, std::span<const int> sampled) {
  const std::vector<int> ranks = ranks_or(sampled, schedule.ranks());
  double seconds = 0;
  for (int index = 0; index < schedule.rounds(); ++index) {
    double slowest = 0;
    bool idle = true;
    for (const int rank : ranks) {
      const Round round = schedule.round(rank, index);
      idle = idle && round.sends.empty() && round.receives.empty();
      slowest = std::max(slowest, round_seconds(schedule, nodes, model, rank, round));
    }
    if (idle && !sampled.empty()) slowest += model.alpha[nodes.nodes() > 1 ? 1 : 0];  // others are at work: a ring of fewer pieces than ranks
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
  return bound.rounds * model.alpha[nodes.nodes() > 1 ? 1 : 0] + bound.bytes * (network * model.beta[1] + (1 - network) * cheaper);
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
