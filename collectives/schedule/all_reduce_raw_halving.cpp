// The two-shot all-reduce for many ranks and short vectors: raw elements reach the rank that adds them by recursive halving, sums come back by recursive doubling. 2 log2 P rounds of one message, not two
// of P-1, for log2 P / 2 times the vector more into every rank. Each element is still added once, in ascending rank.
#include "schedule/all_reduce_parts.h"
#include "schedule/pieces.h"

namespace faibench {
namespace {

/// At distance 2^(k-1), ..., 2, 1 a role gives away the half of everything it holds that its partner's side finishes. After j of the k exchanges it holds, of 2^j roles (twice as many ranks where
/// folded), what belongs to 2^(k-j) pieces; in the end all ranks' own piece, which it adds.
///
/// `arrived`: the folded rank's vector; then what each exchange brought, rank after rank; at last room to pack what the next one takes away.
class RawHalving : public Schedule {
 public:
  RawHalving(const Summed& vector, int ranks) : Schedule(vector.element_bytes()), folding_(ranks), ranks_(ranks), pieces_{vector.count, folding_.roles} {}
  std::string algorithm() const override { return std::string(name_of(AllReduce::raw_halving)); }
  int ranks() const override { return ranks_; }
  int rounds() const override { return 2 * steps() + 2 * fold(); }

  std::array<std::int64_t, buffer_kinds> room(int rank) const override {
    if (folding_.sits_out(rank)) return {pieces_.count, pieces_.count, 0, 0, 0};
    const int role = folding_.role_of(rank);
    std::int64_t packed = 0;
    for (int step = 0; step < steps(); ++step)
      if (!sends_input(role, step)) packed = std::max(packed, ranks_of(role, 0, 1 << step) * length(away(role, step)));
    return {pieces_.count, pieces_.count, arrival(role, steps()) + packed, 0, 0};
  }

  Round round(int rank, int index) const override {
    Round round;
    if (pieces_.count == 0) return round;
    const Region all_in{Buffer::input, 0, pieces_.count}, all_out{Buffer::output, 0, pieces_.count}, folded{Buffer::arrived, 0, pieces_.count};
    const bool first = index < fold(), last = fold() > 0 && index == rounds() - 1;
    if (first || last) {
      if (folding_.sits_out(rank)) {
        if (first) round.sends.push_back({rank - 1, all_in, folded});
        else round.receives.push_back({rank - 1, all_out, all_out});
      } else if (folding_.stands_for_two(rank)) {
        if (first) round.receives.push_back({rank + 1, folded, all_in});
        else round.sends.push_back({rank + 1, all_out, all_out});
      }
    }
    if (folding_.sits_out(rank)) return round;
    const int role = folding_.role_of(rank);
    if (first) {
      pack(role, 0, round);
    } else if (const int step = index - fold(); step < steps()) {
      halve(role, step, round);
      if (step + 1 < steps()) pack(role, step + 1, round);
      else add(role, round);
    } else if (!last) {
      bring_back(role, 2 * steps() - 1 - step, round);
    }
    return round;
  }

 private:
  struct Run { int first, past; };  // pieces
  int steps() const { return folding_.steps(); }
  int fold() const { return folding_.folds() ? 1 : 0; }
  bool two(int role) const { return folding_.stands_for_two(folding_.rank_of(role)); }
  std::int64_t start(const Run& run) const { return pieces_.start(run.first); }
  std::int64_t length(const Run& run) const { return pieces_.start(run.past) - pieces_.start(run.first); }

  int partner(int role, int step) const { return role ^ (folding_.roles >> (step + 1)); }
  /// The pieces of which a role holds something before a step (steps(): in the end), and those that it gives away there.
  Run held(int role, int step) const {
    const int width = folding_.roles >> step, first = role & ~(width - 1);
    return {first, first + width};
  }
  Run away(int role, int step) const { return held(partner(role, step), step + 1); }

  /// The i-th role of which `role` holds something: it came with exchange t where 2^t <= i < 2^(t+1).
  int holder(int role, int i) const {
    for (int step = 0; step < steps(); ++step)
      if (i >> step & 1) role = partner(role, step);
    return role;
  }
  /// Ranks for which holders first .. past-1 stand.
  std::int64_t ranks_of(int role, int first, int past) const {
    std::int64_t count = past - first;
    if (fold() > 0)
      for (int i = first; i < past; ++i) count += two(holder(role, i)) ? 1 : 0;
    return count;
  }
  /// Where what exchange `step` brings begins.
  std::int64_t arrival(int role, int step) const {
    std::int64_t at = two(role) ? pieces_.count : 0;
    for (int t = 0; t < step; ++t) at += ranks_of(role, 1 << t, 2 << t) * length(held(role, t + 1));
    return at;
  }
  /// Calls use(rank, place, run): of which ranks, in the order of arrival, a role holds something before a step, where, and of which pieces it is.
  template <class Use>
  void for_held(int role, int step, Use use) const {
    const Run all{0, folding_.roles};
    const int own = folding_.rank_of(role);
    use(own, Region{Buffer::input, 0, pieces_.count}, all);
    if (two(role)) use(own + 1, Region{Buffer::arrived, 0, pieces_.count}, all);
    for (int t = 0; t < step; ++t) {
      const Run run = held(role, t + 1);
      Region place{Buffer::arrived, arrival(role, t), length(run)};
      for (int i = 1 << t; i < 2 << t; ++i) {
        const int theirs = holder(role, i), rank = folding_.rank_of(theirs);
        for (int k = 0; k < (two(theirs) ? 2 : 1); ++k, place.offset += place.count) use(rank + k, place, run);
      }
    }
  }
  /// One rank's vector goes as it is.
  bool sends_input(int role, int step) const { return step == 0 && !two(role); }
  Region outgoing(int role, int step) const {
    const Run run = away(role, step);
    if (sends_input(role, step)) return {Buffer::input, start(run), length(run)};
    return {Buffer::arrived, arrival(role, steps()), ranks_of(role, 0, 1 << step) * length(run)};
  }
  Region incoming(int role, int step) const { return {Buffer::arrived, arrival(role, step), ranks_of(role, 1 << step, 2 << step) * length(held(role, step + 1))}; }

  void pack(int role, int step, Round& round) const {
    const Run run = away(role, step);
    if (sends_input(role, step) || length(run) == 0) return;
    std::int64_t at = outgoing(role, step).offset;
    for_held(role, step, [&](int, const Region& place, const Run& of) {
      round.sums.push_back({{{place.buffer, place.offset + start(run) - start(of), length(run)}}, {Buffer::arrived, at, length(run)}});
      at += length(run);
    });
  }
  void halve(int role, int step, Round& round) const {
    const int other = partner(role, step), peer = folding_.rank_of(other);
    if (length(away(role, step)) > 0) round.sends.push_back({peer, outgoing(role, step), incoming(other, step)});
    if (length(held(role, step + 1)) > 0) round.receives.push_back({peer, incoming(role, step), outgoing(other, step)});
  }
  void add(int role, Round& round) const {
    const Run own{role, role + 1};
    if (length(own) == 0) return;
    Sum sum{std::vector<Region>(static_cast<std::size_t>(ranks_)), {Buffer::output, start(own), length(own)}};
    for_held(role, steps(), [&](int rank, const Region& place, const Run& of) { sum.terms[static_cast<std::size_t>(rank)] = {place.buffer, place.offset + start(own) - start(of), length(own)}; });
    round.sums.push_back(std::move(sum));
  }
  void bring_back(int role, int step, Round& round) const {
    const int peer = folding_.rank_of(partner(role, step));
    const auto finished = [&](const Run& run) { return Region{Buffer::output, start(run), length(run)}; };
    const Region own = finished(held(role, step + 1)), theirs = finished(away(role, step));
    if (own.count > 0) round.sends.push_back({peer, own, own});
    if (theirs.count > 0) round.receives.push_back({peer, theirs, theirs});
  }

  Folding folding_;
  int ranks_;
  Pieces pieces_;
};

}  // namespace

std::unique_ptr<Schedule> raw_halving_all_reduce(const Summed& vector, int ranks) { return std::make_unique<RawHalving>(vector, ranks); }

}  // namespace faibench
