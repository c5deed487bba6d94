// All-reduce in log2 P exchanges with partners at doubling or halving distance. P is folded to a power of two: see Folding.
#include "schedule/all_reduce_parts.h"
#include "schedule/pieces.h"

namespace faibench {
namespace {

/// What both trees do before and after: rank 2i+1 gives its vector to 2i and gets the result in the end.
class Tree : public Schedule {
 public:
  Tree(const Summed& vector, int ranks) : Schedule(vector.element_bytes()), count_(vector.count), ranks_(ranks), folding_(ranks) {}
  int ranks() const final { return ranks_; }
  int rounds() const final { return steps() + (folding_.folds() ? 2 : 0); }

  Round round(int rank, int index) const final {
    Round round;
    if (count_ == 0) return round;
    const int step = folding_.folds() ? index - 1 : index;
    const Region input{Buffer::input, 0, count_}, arrived{Buffer::arrived, 0, count_}, output{Buffer::output, 0, count_};
    if (step < 0) {
      if (folding_.sits_out(rank)) round.sends.push_back({rank - 1, input, arrived});
      if (folding_.stands_for_two(rank)) {
        round.receives.push_back({rank + 1, arrived, input});
        round.sums.push_back({{input, arrived}, {Buffer::partial, 0, count_}});
      }
    } else if (step == steps()) {
      if (folding_.stands_for_two(rank)) round.sends.push_back({rank + 1, output, output});
      if (folding_.sits_out(rank)) round.receives.push_back({rank - 1, output, output});
    } else if (!folding_.sits_out(rank)) {
      add_step(round, folding_.role_of(rank), step);
    }
    return round;
  }

 protected:
  /// Exchanges between the roles.
  virtual int steps() const = 0;
  virtual void add_step(Round& round, int role, int step) const = 0;
  bool stands_for_two(int role) const { return role < folding_.extra; }

  std::int64_t count_;
  int ranks_;
  Folding folding_;
};

/// Whole sums, distance 1, 2, 4, ...: both of a pair add the lower role's sum first, so all ranks end with the same bits.
///
///   round 0   0-1   2-3   4-5   6-7
///   round 1   0-2   1-3   4-6   5-7
///   round 2   0-4   1-5   2-6   3-7
class RecursiveDoubling : public Tree {
 public:
  using Tree::Tree;
  std::string algorithm() const override { return std::string(name_of(AllReduce::recursive_doubling)); }

  std::array<std::int64_t, buffer_kinds> room(int rank) const override {
    if (folding_.sits_out(rank)) return {count_, count_, 0, 0, 0};
    const int role = folding_.role_of(rank);
    const bool partial = stands_for_two(role) || steps() > 1;
    const bool arrived = stands_for_two(role) || !stands_for_two(role ^ 1), arrived_partial = stands_for_two(role ^ 1) || steps() > 1;
    return {count_, count_, arrived ? count_ : 0, partial ? count_ : 0, arrived_partial ? count_ : 0};
  }

 private:
  int steps() const override { return folding_.steps(); }

  void add_step(Round& round, int role, int step) const override {
    const int peer_role = role ^ (1 << step), peer = folding_.rank_of(peer_role);
    const Region own = held(role, step), theirs = held(peer_role, step);
    const Region here = landing(theirs), there = landing(own);
    round.sends.push_back({peer, own, there});
    round.receives.push_back({peer, here, theirs});
    const Region into{step + 1 == steps() ? Buffer::output : Buffer::partial, 0, count_};
    if (role < peer_role) round.sums.push_back({{own, here}, into});
    else round.sums.push_back({{here, own}, into});
  }

  /// What a role has at the beginning of a step.
  Region held(int role, int step) const { return {step == 0 && !stands_for_two(role) ? Buffer::input : Buffer::partial, 0, count_}; }
  Region landing(const Region& sent) const { return {sent.buffer == Buffer::input ? Buffer::arrived : Buffer::arrived_partial, 0, count_}; }
};

/// Each exchange leaves a role half of what it had to add: at distance 2^(k-1), ..., 2, 1; role v finishes piece v of 2^k. Then the finished pieces come back the same way, doubling.
///
///   4 roles, pieces abcd   0-2, 1-3: 0 and 1 keep ab, 2 and 3 keep cd   0-1, 2-3: each keeps one, finished   0-1, 2-3: pairs have two   0-2, 1-3: all have four
class HalvingDoubling : public Tree {
 public:
  HalvingDoubling(const Summed& vector, int ranks) : Tree(vector, ranks), pieces_{vector.count, folding_.roles} {}
  std::string algorithm() const override { return std::string(name_of(AllReduce::halving_doubling)); }

  std::array<std::int64_t, buffer_kinds> room(int rank) const override {
    if (folding_.sits_out(rank)) return {count_, count_, 0, 0, 0};
    const int role = folding_.role_of(rank), half = folding_.roles / 2;
    const bool two = stands_for_two(role), partner_two = stands_for_two(role ^ half);
    const std::int64_t kept = length(kept_in(role, 0)), quarter = halvings() > 1 ? length(kept_in(role, 1)) : 0;
    return {count_, count_, two ? count_ : partner_two ? 0 : kept, two ? count_ : halvings() > 1 ? kept : 0, partner_two ? kept : quarter};
  }

 private:
  struct Run { int first, last; };  // pieces first .. last-1

  int halvings() const { return folding_.steps(); }
  int steps() const override { return 2 * halvings(); }

  void add_step(Round& round, int role, int step) const override {
    const bool halving = step < halvings();
    const int level = halving ? step : 2 * halvings() - 1 - step;  // both go through the same pairs
    const int peer_role = role ^ (folding_.roles >> (level + 1)), peer = folding_.rank_of(peer_role);
    const Run kept = kept_in(role, level), given = kept_in(peer_role, level);
    if (!halving) {
      const Region own = in_vector(Buffer::output, kept), theirs = in_vector(Buffer::output, given);
      if (own.count > 0) round.sends.push_back({peer, own, own});
      if (theirs.count > 0) round.receives.push_back({peer, theirs, theirs});
      return;
    }
    if (length(given) > 0) {
      const Region sent = held(role, level, given);
      round.sends.push_back({peer, sent, landing(sent)});
    }
    if (length(kept) == 0) return;
    const Region own = held(role, level, kept), theirs = held(peer_role, level, kept), here = landing(theirs);
    round.receives.push_back({peer, here, theirs});
    const Region into = level + 1 == halvings() ? in_vector(Buffer::output, kept) : in_partial(role, kept);
    if (role < peer_role) round.sums.push_back({{own, here}, into});
    else round.sums.push_back({{here, own}, into});
  }

  /// The pieces that a role still adds after a halving.
  Run kept_in(int role, int level) const {
    const int width = folding_.roles >> (level + 1);
    const int first = role & ~(width - 1);
    return {first, first + width};
  }
  std::int64_t start(const Run& run) const { return pieces_.start(run.first); }
  std::int64_t length(const Run& run) const { return pieces_.start(run.last) - pieces_.start(run.first); }
  Region in_vector(Buffer buffer, const Run& run) const { return {buffer, start(run), length(run)}; }
  /// `partial` begins where the first sum into it does.
  Region in_partial(int role, const Run& run) const {
    const std::int64_t origin = stands_for_two(role) ? 0 : start(kept_in(role, 0));
    return {Buffer::partial, start(run) - origin, length(run)};
  }
  /// Where a role has its sums of a run at the beginning of a halving.
  Region held(int role, int level, const Run& run) const { return level == 0 && !stands_for_two(role) ? in_vector(Buffer::input, run) : in_partial(role, run); }
  static Region landing(const Region& sent) { return {sent.buffer == Buffer::input ? Buffer::arrived : Buffer::arrived_partial, 0, sent.count}; }

  Pieces pieces_;
};

}  // namespace

std::unique_ptr<Schedule> recursive_doubling_all_reduce(const Summed& vector, int ranks) { return std::make_unique<RecursiveDoubling>(vector, ranks); }
std::unique_ptr<Schedule> halving_doubling_all_reduce(const Summed& vector, int ranks) { return std::make_unique<HalvingDoubling>(vector, ranks); }

}  // namespace faibench
