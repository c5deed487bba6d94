// All-reduce around a ring: sums of P pieces travel once around, finished pieces once more. Neighbours only, one message each way a round.
#include "schedule/all_reduce_parts.h"
#include "schedule/pieces.h"

namespace faibench {
namespace {

/// 3 ranks, pieces abc; rank r sends to r+1 and finishes piece r:
///
///   rank 0   c0 ->   b0+b2 ->   a ->   c ->
///   rank 1   a1 ->   c1+c0 ->   b ->   a ->
///   rank 2   b2 ->   a2+a1 ->   c ->   b ->
class Ring : public Schedule {
 public:
  Ring(const Summed& vector, int ranks) : Schedule(vector.element_bytes()), pieces_{vector.count, ranks}, ranks_(ranks) {}
  std::string algorithm() const override { return std::string(name_of(AllReduce::ring)); }
  int ranks() const override { return ranks_; }
  int rounds() const override { return 2 * (ranks_ - 1); }

  std::array<std::int64_t, buffer_kinds> room(int rank) const override {
    const std::int64_t longest = ranks_ > 2 ? pieces_.length(0) : 0;  // with two ranks the first sum is the last
    return {pieces_.count, pieces_.count, pieces_.length(wrapped(rank - 2, ranks_)), longest, longest};
  }

  Round round(int rank, int index) const override {
    Round round;
    const int next = wrapped(rank + 1, ranks_), before = wrapped(rank - 1, ranks_);
    if (index >= ranks_ - 1) {
      const int step = index - (ranks_ - 1);
      const Region out = piece(Buffer::output, wrapped(rank - step, ranks_)), in = piece(Buffer::output, wrapped(rank - 1 - step, ranks_));
      if (out.count > 0) round.sends.push_back({next, out, out});
      if (in.count > 0) round.receives.push_back({before, in, in});
      return round;
    }
    const int sent = wrapped(rank - 1 - index, ranks_), q = wrapped(rank - 2 - index, ranks_);
    if (pieces_.length(sent) > 0) round.sends.push_back({next, held(sent, index), landing(sent, index)});
    if (pieces_.length(q) > 0) {
      const Region here = landing(q, index);
      round.receives.push_back({before, here, held(q, index)});
      const Region into = index + 2 == ranks_ ? piece(Buffer::output, q) : Region{Buffer::partial, 0, pieces_.length(q)};
      round.sums.push_back({{here, piece(Buffer::input, q)}, into});
    }
    return round;
  }

 private:
  Region piece(Buffer buffer, int q) const { return {buffer, pieces_.start(q), pieces_.length(q)}; }
  /// Where the sender of piece q has it in a round, and where the receiver puts it.
  Region held(int q, int index) const { return index == 0 ? piece(Buffer::input, q) : Region{Buffer::partial, 0, pieces_.length(q)}; }
  Region landing(int q, int index) const { return {index == 0 ? Buffer::arrived : Buffer::arrived_partial, 0, pieces_.length(q)}; }

  Pieces pieces_;
  int ranks_;
};

}  // namespace

std::unique_ptr<Schedule> ring_all_reduce(const Summed& vector, int ranks) { return std::make_unique<Ring>(vector, ranks); }

}  // namespace faibench
