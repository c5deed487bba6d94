#include "schedule/traffic.h"

#include <algorithm>
#include <cstdint>
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

/// What two ranks exchange in a round, in order, as one of them sees it.
struct Exchanged {
  int index = 0;
  bool sending = false;
  std::vector<Message> messages;
};

/// Order in which a message between two ranks matches: calls use(message, n), n the messages before it of this round to the same peer.
template <class Use>
void for_matched(const std::vector<Message>& messages, Use use) {
  std::vector<std::pair<int, std::size_t>> order;
  for (std::size_t i = 0; i < messages.size(); ++i) order.emplace_back(messages[i].peer, i);
  std::ranges::sort(order);
  std::uint64_t n = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    n = k > 0 && order[k].first == order[k - 1].first ? n + 1 : 0;
    use(messages[order[k].second], n);
  }
}

/// Sum of a hash of every message as sent, less the sum as received: zero where all match, and otherwise only by a chance of 2^-64. Needs no memory and no other rank's side.
class Fingerprint {
 public:
  void add(int rank, int index, const Round& round) {
    for_matched(round.sends, [&](const Message& m, std::uint64_t n) { sum_ += hash(index, rank, m.peer, n, m.here, m.there); });
    for_matched(round.receives, [&](const Message& m, std::uint64_t n) { sum_ -= hash(index, m.peer, rank, n, m.there, m.here); });
  }
  [[nodiscard]] bool zero() const { return sum_ == 0; }

 private:
  static std::uint64_t hash(int index, int from, int to, std::uint64_t n, const Region& out, const Region& in) {
    std::uint64_t h = 0;
    for (const std::uint64_t word : {static_cast<std::uint64_t>(index), static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to), n, static_cast<std::uint64_t>(out.buffer), static_cast<std::uint64_t>(out.offset),
                                     static_cast<std::uint64_t>(out.count), static_cast<std::uint64_t>(in.buffer), static_cast<std::uint64_t>(in.offset), static_cast<std::uint64_t>(in.count)}) {
      h += word + 0x9e3779b97f4a7c15;  // SplitMix64
      h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
      h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
      h ^= h >> 31;
    }
    return h;
  }
  std::uint64_t sum_ = 0;
};

/// Checks one rank against itself and against those it exchanges messages with.
class Checker {
 public:
  explicit Checker(const Schedule& schedule) : schedule_(schedule) {}

  /// What one rank's part is by itself; `use(index, round)` is shown every round.
  template <class Use>
  std::optional<std::string> own_fault(int rank, Use use) const {
    for (int index = 0; index < schedule_.rounds(); ++index) {
      const Round round = schedule_.round(rank, index);
      const auto at = [&](const std::string& what) { return place(rank, index) + what; };
      for (const bool sending : {true, false})
        if (auto fault = messages_fault(rank, sending ? round.sends : round.receives, sending)) return at(*fault);
      if (auto fault = overlap(round)) return at(*fault);
      for (const Sum& sum : round.sums)
        if (auto fault = sum_fault(rank, sum)) return at(*fault);
      use(index, round);
    }
    return std::nullopt;
  }

  /// One rank by itself, and against `most_partners` of its partners, evenly spaced: a partner at a time, because a schedule may keep what it worked out for a rank.
  std::optional<std::string> fault_at(int rank, std::size_t most_partners) const {
    std::map<int, std::vector<Exchanged>> partners;
    const auto note = [&](int index, const Round& round) {
      for (const bool sending : {true, false}) {
        for (const Message& m : sending ? round.sends : round.receives) {
          auto& with = partners[m.peer];
          if (with.empty() || with.back().index != index || with.back().sending != sending) with.push_back({index, sending, {}});
          with.back().messages.push_back(m);
        }
      }
    };
    if (auto fault = own_fault(rank, note)) return fault;
    const std::size_t every = (partners.size() + most_partners - 1) / std::max<std::size_t>(1, most_partners);
    std::size_t turn = 0;
    for (const auto& [peer, exchanged] : partners) {
      if (turn++ % std::max<std::size_t>(1, every) != 0) continue;
      for (const Exchanged& e : exchanged)
        if (auto fault = other_side_fault(rank, peer, e)) return place(rank, e.index) + *fault;
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

  static std::string place(int rank, int index) { return "rank " + std::to_string(rank) + ", round " + std::to_string(index) + ": "; }

  /// Messages between two ranks match in order: the n-th of this rank to a peer is the n-th that the peer has from it.
  std::optional<std::string> other_side_fault(int rank, int peer, const Exchanged& ours) const {
    const Round there = schedule_.round(peer, ours.index);
    std::vector<Message> theirs;
    for (const Message& m : ours.sending ? there.receives : there.sends)
      if (m.peer == rank) theirs.push_back(m);
    const std::string name = (ours.sending ? "sends to rank " : "receives from rank ") + std::to_string(peer);
    if (theirs.size() != ours.messages.size()) return name + ": " + std::to_string(ours.messages.size()) + " here, " + std::to_string(theirs.size()) + " there";
    for (std::size_t n = 0; n < theirs.size(); ++n) {
      const Message& own = ours.messages[n];
      if (equal(own.here, theirs[n].there) && equal(own.there, theirs[n].here)) continue;
      return name + ", message " + std::to_string(n) + ": " + text(own.here) + " with " + text(own.there) + " here, " + text(theirs[n].there) + " with " + text(theirs[n].here) + " there";
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

std::optional<std::string> fault_in(const Schedule& schedule, std::span<const int> sampled, int most_partners) {
  const Checker checker(schedule);
  if (sampled.empty()) {
    Fingerprint fingerprint;
    for (int rank = 0; rank < schedule.ranks(); ++rank)
      if (auto fault = checker.own_fault(rank, [&](int index, const Round& round) { fingerprint.add(rank, index, round); })) return fault;
    if (fingerprint.zero()) return std::nullopt;
  }
  for (const int rank : ranks_or(sampled, schedule.ranks()))
    if (auto fault = checker.fault_at(rank, static_cast<std::size_t>(most_partners))) return fault;
  return std::nullopt;
}

}  // namespace faibench
