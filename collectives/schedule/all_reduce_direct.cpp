// All-reduce by messages from everybody to everybody: every element is added once, in ascending rank, so that the bits are those of one process.
#include "schedule/all_reduce_parts.h"
#include "schedule/pieces.h"

namespace faibench {
namespace {

/// Everybody sends all it has to everybody, and adds everything up itself. Others' vectors lie one after another in `arrived`, by rank.
class OneShot : public Schedule {
 public:
  OneShot(const Summed& vector, int ranks) : Schedule(vector.element_bytes()), count_(vector.count), ranks_(ranks) {}
  std::string algorithm() const override { return std::string(name_of(AllReduce::one_shot)); }
  int ranks() const override { return ranks_; }
  int rounds() const override { return 1; }
  std::array<std::int64_t, buffer_kinds> room(int) const override { return {count_, count_, (ranks_ - 1) * count_, 0, 0}; }

  Round round(int rank, int) const override {
    Round round;
    if (count_ == 0) return round;
    const Region own{Buffer::input, 0, count_};
    for (int step = 1; step < ranks_; ++step) {
      const int to = wrapped(rank + step, ranks_), from = wrapped(rank - step, ranks_);
      round.sends.push_back({to, own, slot(to, rank)});
      round.receives.push_back({from, slot(rank, from), own});
    }
    Sum sum{{}, {Buffer::output, 0, count_}};
    for (int p = 0; p < ranks_; ++p) sum.terms.push_back(p == rank ? own : slot(rank, p));
    round.sums.push_back(std::move(sum));
    return round;
  }

 private:
  /// Where `at` keeps what came from `from`.
  Region slot(int at, int from) const { return {Buffer::arrived, (from < at ? from : from - 1) * count_, count_}; }

  std::int64_t count_;
  int ranks_;
};

/// Piece q is rank q's to finish:
///
///   rank 0   [a0|b0|c0]   b0 -> 1, c0 -> 2     a = a0+a1+a2 -> 1, 2
///   rank 1   [a1|b1|c1]   a1 -> 0, c1 -> 2     b = b0+b1+b2 -> 0, 2
///   rank 2   [a2|b2|c2]   a2 -> 0, b2 -> 1     c = c0+c1+c2 -> 0, 1
class TwoShot : public Schedule {
 public:
  TwoShot(const Summed& vector, int ranks) : Schedule(vector.element_bytes()), pieces_{vector.count, ranks}, ranks_(ranks) {}
  std::string algorithm() const override { return std::string(name_of(AllReduce::two_shot)); }
  int ranks() const override { return ranks_; }
  int rounds() const override { return 2; }
  std::array<std::int64_t, buffer_kinds> room(int rank) const override { return {pieces_.count, pieces_.count, (ranks_ - 1) * pieces_.length(rank), 0, 0}; }

  Round round(int rank, int index) const override {
    Round round;
    for (int step = 1; step < ranks_; ++step) {
      const int to = wrapped(rank + step, ranks_), from = wrapped(rank - step, ranks_);
      if (index == 0) {
        if (pieces_.length(to) > 0) round.sends.push_back({to, piece(Buffer::input, to), slot(to, rank)});
        if (pieces_.length(rank) > 0) round.receives.push_back({from, slot(rank, from), piece(Buffer::input, rank)});
      } else {
        const Region own = piece(Buffer::output, rank), theirs = piece(Buffer::output, from);
        if (own.count > 0) round.sends.push_back({to, own, own});
        if (theirs.count > 0) round.receives.push_back({from, theirs, theirs});
      }
    }
    if (index == 0 && pieces_.length(rank) > 0) {
      Sum sum{{}, piece(Buffer::output, rank)};
      for (int p = 0; p < ranks_; ++p) sum.terms.push_back(p == rank ? piece(Buffer::input, rank) : slot(rank, p));
      round.sums.push_back(std::move(sum));
    }
    return round;
  }

 private:
  Region piece(Buffer buffer, int q) const { return {buffer, pieces_.start(q), pieces_.length(q)}; }
  Region slot(int at, int from) const { return {Buffer::arrived, (from < at ? from : from - 1) * pieces_.length(at), pieces_.length(at)}; }

  Pieces pieces_;
  int ranks_;
};

}  // namespace

std::unique_ptr<Schedule> one_shot_all_reduce(const Summed& vector, int ranks) { return std::make_unique<OneShot>(vector, ranks); }
std::unique_ptr<Schedule> two_shot_all_reduce(const Summed& vector, int ranks) { return std::make_unique<TwoShot>(vector, ranks); }

}  // namespace faibench
