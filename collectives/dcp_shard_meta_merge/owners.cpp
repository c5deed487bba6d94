#include "collectives/dcp_shard_meta_merge/owners.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <unordered_map>

#include "schedule/executor.h"
#include "schedule/pieces.h"

namespace faibench::dcp_shard_meta_merge {
namespace {

/// One step of an entry's way, as one rank sees it: whom it sends to, and whom it hears from, itself among them; ascending. With itself alone it waits.
struct Hop { std::vector<int> to, from; };

/// The way of all entries. Where ranks halve: folded ranks give theirs to the one before; then in step b partners differ in bit b of their roles, and keep the entries whose owner has their own bit there.
/// After b steps a role has entries of 2^b roles, consecutive ones, so that what comes from a lower rank comes first.
class Way {
 public:
  Way(int ranks, int few) : ranks_(ranks), direct_(ranks <= few), folding_(ranks) {}
  [[nodiscard]] int owners() const { return direct_ ? ranks_ : folding_.roles; }
  [[nodiscard]] int hops() const { return direct_ ? 1 : fold() + folding_.steps(); }

  [[nodiscard]] Hop hop(int rank, int index) const {
    if (direct_) {
      std::vector<int> all(static_cast<std::size_t>(ranks_));
      std::iota(all.begin(), all.end(), 0);
      return {all, all};
    }
    const bool out = folding_.sits_out(rank);
    if (index < fold()) {
      if (out) return {{rank - 1}, {}};
      return {{rank}, folding_.stands_for_two(rank) ? std::vector<int>{rank, rank + 1} : std::vector<int>{rank}};
    }
    if (out) return {{rank}, {rank}};
    const int peer = partner(rank, index);
    const std::vector<int> both = {std::min(rank, peer), std::max(rank, peer)};
    return {both, both};
  }
  /// Where `rank` sends an entry of that owner.
  [[nodiscard]] int towards(int rank, int index, int owner) const {
    if (direct_) return owner;
    if (folding_.sits_out(rank)) return index < fold() ? rank - 1 : rank;
    return index >= fold() && ((owner ^ folding_.role_of(rank)) >> (index - fold()) & 1) ? partner(rank, index) : rank;
  }

 private:
  int fold() const { return folding_.folds() ? 1 : 0; }
  int partner(int rank, int index) const { return folding_.rank_of(folding_.role_of(rank) ^ 1 << (index - fold())); }
  int ranks_;
  bool direct_;
  Folding folding_;
};

std::unique_ptr<Schedule> all_at_once(int ranks, PairsOf pairs, std::span<const std::array<std::int64_t, 2>> room, std::int64_t element_bytes) {
  return all_to_all_schedule(ranks, std::move(pairs), room, std::max(1, ranks - 1), element_bytes);
}

std::vector<std::int64_t> starts_of(const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), std::int64_t{0});
  return starts;
}

/// sent[k] elements, one after another in `out`, to rank to[k]; received[k] from from[k], one after another in `in`.
void ship(Communicator& communicator, const std::vector<int>& to, const std::vector<std::int64_t>& sent, const void* out, const std::vector<int>& from, const std::vector<std::int64_t>& received, void* in,
          std::int64_t element_bytes) {
  const int self = communicator.rank();
  const std::vector<std::int64_t> out_at = starts_of(sent), in_at = starts_of(received);
  std::vector<PairTraffic> pairs;
  std::int64_t kept_from = 0, kept_to = 0, kept = 0;
  for (std::size_t k = 0; k < to.size(); ++k) {
    if (to[k] != self) pairs.push_back({self, to[k], out_at[k], 0, sent[k]});
    else kept_from = out_at[k], kept = sent[k];
  }
  for (std::size_t k = 0; k < from.size(); ++k) {
    if (from[k] != self) pairs.push_back({from[k], self, 0, in_at[k], received[k]});
    else kept_to = in_at[k];
  }
  std::ranges::sort(pairs, [](const PairTraffic& a, const PairTraffic& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
  std::vector<std::array<std::int64_t, 2>> room(static_cast<std::size_t>(communicator.size()), {0, 0});
  room[static_cast<std::size_t>(self)] = {std::reduce(sent.begin(), sent.end()), std::reduce(received.begin(), received.end())};
  const auto schedule = all_at_once(communicator.size(), [&](int) { return pairs; }, room, element_bytes);
  BufferBases bases{};
  bases[static_cast<std::size_t>(Buffer::input)] = const_cast<void*>(out);
  bases[static_cast<std::size_t>(Buffer::output)] = in;
  if (kept > 0) std::memcpy(static_cast<std::byte*>(in) + kept_to * element_bytes, static_cast<const std::byte*>(out) + kept_from * element_bytes, static_cast<std::size_t>(kept * element_bytes));
  execute(*schedule, communicator, bases, {});
}

/// Entries on one hop, sorted by where they go; what came in; and the way back for what is said about it.
class Leg {
 public:
  /// towards(entry): the rank of hop.to that it goes to.
  template <class Towards>
  Leg(Communicator& communicator, Hop hop, const std::vector<Entry>& entries, Towards towards) : communicator_(communicator), hop_(std::move(hop)), sent_(hop_.to.size(), 0), received_(hop_.from.size(), 0), place_(entries.size()) {
    std::vector<std::uint32_t> bucket(entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      bucket[i] = static_cast<std::uint32_t>(std::ranges::lower_bound(hop_.to, towards(entries[i])) - hop_.to.begin());
      ++sent_[bucket[i]];
    }
    // Stable, so that a rank's entries stay in its order.
    std::vector<std::int64_t> next = starts_of(sent_);
    std::vector<Entry> sorted(entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      place_[i] = next[bucket[i]]++;
      sorted[static_cast<std::size_t>(place_[i])] = entries[i];
    }
    const std::vector<std::int64_t> one_to(hop_.to.size(), 1), one_from(hop_.from.size(), 1);
    ship(communicator_, hop_.to, one_to, sent_.data(), hop_.from, one_from, received_.data(), sizeof(std::int64_t));
    arrived_.resize(static_cast<std::size_t>(std::reduce(received_.begin(), received_.end())));
    ship(communicator_, hop_.to, sent_, sorted.data(), hop_.from, received_, arrived_.data(), sizeof(Entry));
  }
  /// Of all ranks in order, each rank's in its own.
  [[nodiscard]] const std::vector<Entry>& arrived() const { return arrived_; }
  /// One answer for each that arrived; gives those to this rank's entries, in their order.
  [[nodiscard]] std::vector<std::int64_t> answer(const std::vector<std::int64_t>& answers) const {
    std::vector<std::int64_t> returned(place_.size()), own(place_.size());
    ship(communicator_, hop_.from, received_, answers.data(), hop_.to, sent_, returned.data(), sizeof(std::int64_t));
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = returned[static_cast<std::size_t>(place_[i])];
    return own;
  }

 private:
  Communicator& communicator_;
  Hop hop_;
  std::vector<std::int64_t> sent_, received_, place_;
  std::vector<Entry> arrived_;
};

/// One entry a name, in order of first appearance, with the largest total; and where each appeared first.
struct Merged {
  std::vector<Entry> names;
  std::vector<std::uint32_t> first;
};
Merged merge(const std::vector<Entry>& entries) {
  Merged merged;
  const std::size_t slots = std::bit_ceil(2 * entries.size() + 1), mask = slots - 1;
  std::vector<std::uint32_t> table(slots);  // number + 1 of a name
  for (std::size_t i = 0; i < entries.size(); ++i)
    for (std::size_t at = entries[i].hash[1] & mask;; at = (at + 1) & mask) {  // hash[0] chose the owner
      if (table[at] == 0) {
        merged.names.push_back(entries[i]);
        merged.first.push_back(static_cast<std::uint32_t>(i));
        table[at] = static_cast<std::uint32_t>(merged.names.size());
        break;
      }
      Entry& known = merged.names[table[at] - 1];
      if (!known.same_name(entries[i])) continue;
      known.total = std::max(known.total, entries[i].total);
      break;
    }
  return merged;
}
/// answers[n] for the first entry of name n, -1 for the others of `entries`.
std::vector<std::int64_t> to_first(const Merged& merged, const std::vector<std::int64_t>& answers, std::size_t entries) {
  std::vector<std::int64_t> all(entries, -1);
  for (std::size_t n = 0; n < answers.size(); ++n) all[merged.first[n]] = answers[n];
  return all;
}
std::vector<std::int64_t> totals(const Merged& merged) {
  std::vector<std::int64_t> all;
  for (const Entry& entry : merged.names) all.push_back(entry.total);
  return all;
}

}  // namespace

Entry entry_of(const std::uint8_t* name, std::size_t size, std::int64_t total) {
  const XXH128_hash_t hash = XXH3_128bits(name, size);
  return {{hash.high64, hash.low64}, XXH64(name, size, 0) << 32 | static_cast<std::uint32_t>(size), total};
}

int owners_among(int ranks, int few) { return Way(ranks, few).owners(); }

namespace {

std::vector<std::int64_t> ask(Communicator& communicator, const Way& way, int hop, const std::vector<Entry>& entries) {
  const int rank = communicator.rank();
  const Leg leg(communicator, way.hop(rank, hop), entries, [&](const Entry& entry) { return way.towards(rank, hop, owner_of(entry, way.owners())); });
  const Merged merged = merge(leg.arrived());
  return leg.answer(to_first(merged, hop + 1 < way.hops() ? ask(communicator, way, hop + 1, merged.names) : totals(merged), leg.arrived().size()));
}

}  // namespace

std::vector<std::int64_t> ask_owners(Communicator& communicator, const std::vector<Entry>& entries, int few) { return ask(communicator, Way(communicator.size(), few), 0, entries); }

namespace {

/// How many names go from rank to rank on each hop: all names are distinct, so nothing is merged.
class Spread {
 public:
  Spread(std::span<const std::int64_t> first_name, std::span<const std::int32_t> owner)
      : way_(static_cast<int>(first_name.size()) - 1, few_ranks), sent_(static_cast<std::size_t>(way_.hops())), names_(static_cast<std::int64_t>(owner.size())) {
    const int ranks = static_cast<int>(first_name.size()) - 1;
    std::vector<int> at(owner.size());
    for (int rank = 0; rank < ranks; ++rank)
      for (std::int64_t n = first_name[static_cast<std::size_t>(rank)]; n < first_name[static_cast<std::size_t>(rank) + 1]; ++n) at[static_cast<std::size_t>(n)] = rank;
    for (int hop = 0; hop < way_.hops(); ++hop)
      for (std::size_t n = 0; n < at.size(); ++n) {
        const int to = way_.towards(at[n], hop, owner[n]);
        if (to != at[n]) ++sent_[static_cast<std::size_t>(hop)][key(at[n], to)];
        at[n] = to;
      }
  }
  [[nodiscard]] const Way& way() const { return way_; }
  [[nodiscard]] std::int64_t names() const { return names_; }
  [[nodiscard]] std::int64_t sent(int hop, int from, int to) const {
    const auto found = sent_[static_cast<std::size_t>(hop)].find(key(from, to));
    return found == sent_[static_cast<std::size_t>(hop)].end() ? 0 : found->second;
  }

 private:
  static std::uint64_t key(int from, int to) { return std::uint64_t{static_cast<std::uint32_t>(from)} << 32 | static_cast<std::uint32_t>(to); }
  Way way_;
  std::vector<std::unordered_map<std::uint64_t, std::int64_t>> sent_;
  std::int64_t names_;
};

enum class Load : std::uint8_t { counts, entries, answers };

/// A hop's messages of one kind. Every pair has a place of its own, as if it could carry all names: the places of both sides then follow from their ranks.
std::shared_ptr<const Schedule> hop_schedule(const std::shared_ptr<const Spread>& spread, int ranks, int hop, Load load) {
  const std::int64_t place = std::max<std::int64_t>(1, spread->names());
  const std::vector<std::array<std::int64_t, 2>> room(static_cast<std::size_t>(ranks), {ranks * place, ranks * place});
  const PairsOf pairs = [=](int rank) {
    std::vector<PairTraffic> all;
    const auto add = [&](int from, int to) {
      if (from == to) return;
      const std::int64_t count = load == Load::counts ? 1 : spread->sent(hop, from, to);
      if (load == Load::answers) std::swap(from, to);
      all.push_back({from, to, to * place, from * place, count});
    };
    const Hop own = spread->way().hop(rank, hop);
    for (const int to : own.to) add(rank, to);
    for (const int from : own.from) add(from, rank);
    std::ranges::sort(all, [](const PairTraffic& a, const PairTraffic& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
    return all;
  };
  return all_at_once(ranks, pairs, room, load == Load::entries ? sizeof(Entry) : sizeof(std::int64_t));
}

}  // namespace

std::vector<std::shared_ptr<const Schedule>> owner_schedules(std::span<const std::int64_t> first_name, std::span<const std::int32_t> owner) {
  const auto spread = std::make_shared<const Spread>(first_name, owner);
  const int ranks = static_cast<int>(first_name.size()) - 1, hops = spread->way().hops();
  std::vector<std::shared_ptr<const Schedule>> all;
  for (int hop = 0; hop < hops; ++hop)
    for (const Load load : {Load::counts, Load::entries}) all.push_back(hop_schedule(spread, ranks, hop, load));
  for (int hop = hops; hop-- > 0;) all.push_back(hop_schedule(spread, ranks, hop, Load::answers));
  return all;
}

std::shared_ptr<const Schedule> gather_schedule(std::span<const std::int64_t> counts, const NodeMap& nodes, std::int64_t element_bytes) {
  // Both bring every byte to every rank once. In ceil(log2 P) rounds most of it comes from other nodes, to each of a node's ranks by itself; around a ring it comes to each node once, in P-1 rounds.
  constexpr std::int64_t round = 64 << 10;  // bytes that pass between nodes while a round is waited for
  const std::int64_t bytes = std::reduce(counts.begin(), counts.end()) * element_bytes, a_node = nodes.ranks() / nodes.nodes();
  const bool ring = nodes.nodes() > 1 && nodes.contiguous() && (a_node - 1) * bytes > (nodes.ranks() - 1) * round;
  return all_gather_schedule(ring ? AllGather::ring : AllGather::log_step, counts, nodes, element_bytes);
}

void gather(Communicator& communicator, const void* own, void* all, std::span<const std::int64_t> counts, std::int64_t element_bytes) {
  BufferBases bases{};
  bases[static_cast<std::size_t>(Buffer::input)] = const_cast<void*>(own);
  bases[static_cast<std::size_t>(Buffer::output)] = all;
  execute(*gather_schedule(counts, communicator.nodes(), element_bytes), communicator, bases, [&](const SumCall& copy) {
    if (copy.into != copy.terms[0].data) std::memcpy(copy.into, copy.terms[0].data, static_cast<std::size_t>(copy.count * element_bytes));
  });
}

}  // namespace faibench::dcp_shard_meta_merge
