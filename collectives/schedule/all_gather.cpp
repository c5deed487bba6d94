// All-gather: everybody's block to everybody, in rank order. Blocks go straight to their place in `output`; the own block is copied there in the first round.

#include "schedule/pieces.h"
#include "schedule/schedule.h"
#include "tensor/error.h"

namespace faibench {
namespace {

class Gather : public Schedule {
 public:
  Gather(AllGather algorithm, std::span<const std::int64_t> counts, std::int64_t element_bytes)
      : Schedule({element_bytes, element_bytes, element_bytes, element_bytes, element_bytes}), algorithm_(algorithm), ranks_(static_cast<int>(counts.size())), starts_{0} {
    for (const std::int64_t count : counts) starts_.push_back(starts_.back() + count);
  }
  std::string algorithm() const override { return std::string(name_of(algorithm_)); }
  int ranks() const override { return ranks_; }
  std::array<std::int64_t, buffer_kinds> room(int rank) const override { return {count(rank), starts_.back(), 0, 0, 0}; }

  int rounds() const override {
    if (ranks_ == 1) return 1;  // to copy
    switch (algorithm_) {
      case AllGather::direct: return 1;
      case AllGather::ring: return ranks_ - 1;
      case AllGather::log_step: break;
    }
    return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks_ - 1)));
  }

  Round round(int rank, int index) const override {
    Round round;
    switch (algorithm_) {
      case AllGather::direct:
        for (int step = 1; step < ranks_; ++step) {
          send(round, wrapped(rank + step, ranks_), rank, 1, index, rank);
          receive(round, wrapped(rank - step, ranks_), wrapped(rank - step, ranks_), 1, index);
        }
        break;
      case AllGather::ring:
        if (ranks_ == 1) break;
        send(round, wrapped(rank + 1, ranks_), wrapped(rank - index, ranks_), 1, index, rank);
        receive(round, wrapped(rank - 1, ranks_), wrapped(rank - 1 - index, ranks_), 1, index);
        break;
      case AllGather::log_step: {
        // Rank r has blocks r .. r+distance-1 (around the end) and gets as many from r+distance, or what is missing.
        if (ranks_ == 1) break;
        const int distance = 1 << index, blocks = std::min(distance, ranks_ - distance), from = wrapped(rank + distance, ranks_);
        send(round, wrapped(rank - distance, ranks_), rank, blocks, index, rank);
        receive(round, from, from, blocks, index);
        break;
      }
    }
    if (index == 0 && count(rank) > 0) round.sums.push_back({{{Buffer::input, 0, count(rank)}}, block(rank)});
    return round;
  }

 private:
  std::int64_t start(int block) const { return starts_[static_cast<std::size_t>(block)]; }
  std::int64_t count(int block) const { return start(block + 1) - start(block); }
  Region block(int b) const { return {Buffer::output, start(b), count(b)}; }

  /// Calls use(region) for the one or two parts of `blocks` consecutive blocks in `output`.
  template <class Use>
  void for_run(int first, int blocks, Use use) const {
    const int last = std::min(first + blocks, ranks_), rest = first + blocks - last;
    if (start(last) > start(first)) use(Region{Buffer::output, start(first), start(last) - start(first)});
    if (start(rest) > 0) use(Region{Buffer::output, 0, start(rest)});
  }
  void send(Round& round, int to, int first, int blocks, int index, int rank) const {
    for_run(first, blocks, [&](const Region& there) {
      round.sends.push_back({to, index == 0 ? Region{Buffer::input, 0, count(rank)} : there, there});  // in round 0 it is the own block, not copied yet
    });
  }
  void receive(Round& round, int from, int first, int blocks, int index) const {
    for_run(first, blocks, [&](const Region& here) {
      round.receives.push_back({from, here, index == 0 ? Region{Buffer::input, 0, count(from)} : here});
    });
  }

  AllGather algorithm_;
  int ranks_;
  std::vector<std::int64_t> starts_;  // of each block, and the end
};

}  // namespace

std::string_view name_of(AllGather algorithm) {
  switch (algorithm) {
    case AllGather::direct: return "direct";
    case AllGather::ring: return "ring";
    case AllGather::log_step: return "log-step";
  }
  return "?";
}

std::unique_ptr<Schedule> all_gather_schedule(AllGather algorithm, std::span<const std::int64_t> counts, const NodeMap& nodes, std::int64_t element_bytes) {
  if (counts.size() != static_cast<std::size_t>(nodes.ranks())) {
    throw Error(Error::Kind::internal, "all_gather_schedule: " + std::to_string(counts.size()) + " counts for " + std::to_string(nodes.ranks()) + " ranks");
  }
  return std::make_unique<Gather>(algorithm, counts, element_bytes);
}

}  // namespace faibench
