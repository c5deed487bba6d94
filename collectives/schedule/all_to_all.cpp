// Sparse all-to-all: only pairs that have something to say, a window of partners a round.
#include <algorithm>
#include <map>
#include <mutex>

#include "schedule/pieces.h"
#include "schedule/schedule.h"
#include "tensor/error.h"

namespace faibench {
namespace {

class SparseAllToAll : public Schedule {
 public:
  SparseAllToAll(int ranks, PairsOf pairs, std::span<const std::array<std::int64_t, 2>> room, int window, std::int64_t element_bytes)
      : Schedule({element_bytes, element_bytes, element_bytes, element_bytes, element_bytes}), ranks_(ranks), pairs_(std::move(pairs)), room_(room.begin(), room.end()), window_(window) {}
  std::string algorithm() const override { return "sparse all-to-all"; }
  int ranks() const override { return ranks_; }
  int rounds() const override { return std::max(1, (ranks_ - 1 + window_ - 1) / window_); }
  std::array<std::int64_t, buffer_kinds> room(int rank) const override {
    const auto& [in, out] = room_[static_cast<std::size_t>(rank)];
    return {in, out, 0, 0, 0};
  }

  Round round(int rank, int index) const override {
    const auto messages = messages_of(rank);
    const std::int64_t first = std::int64_t{index} * window_ + 1;
    Round round;
    const auto take = [&](const std::vector<Far>& all, std::vector<Message>& into) {
      for (auto m = std::ranges::lower_bound(all, first, {}, &Far::distance); m != all.end() && m->distance < first + window_; ++m) into.push_back(m->message);
    };
    take(messages->sends, round.sends);
    take(messages->receives, round.receives);
    return round;
  }

 private:
  struct Far {
    std::int64_t distance;  ///< from sender to receiver around the ranks, 1 .. P-1
    Message message;
  };
  struct Messages { std::vector<Far> sends, receives; };  // ascending distance

  /// Asked for round after round: the latest ranks' lists are kept.
  std::shared_ptr<const Messages> messages_of(int rank) const {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(rank); known != known_.end()) return known->second;
    auto messages = std::make_shared<Messages>();
    for (const PairTraffic& pair : pairs_(rank)) {
      if (pair.count == 0 || pair.from == pair.to) continue;
      const Region in{Buffer::input, pair.from_offset, pair.count}, out{Buffer::output, pair.to_offset, pair.count};
      const std::int64_t distance = wrapped(pair.to - pair.from, ranks_);
      if (pair.from == rank) messages->sends.push_back({distance, {pair.to, in, out}});
      else if (pair.to == rank) messages->receives.push_back({distance, {pair.from, out, in}});
      else throw Error(Error::Kind::internal, "all_to_all_schedule: asked for rank " + std::to_string(rank) + ", told of " + std::to_string(pair.from) + " to " + std::to_string(pair.to));
    }
    std::ranges::stable_sort(messages->sends, {}, &Far::distance);
    std::ranges::stable_sort(messages->receives, {}, &Far::distance);
    const std::size_t more = messages->sends.size() + messages->receives.size() + 1;
    if (known_messages_ + more > most_known_messages) {
      known_.clear();
      known_messages_ = 0;
    }
    known_messages_ += more;
    return known_[rank] = messages;
  }

  static constexpr std::size_t most_known_messages = std::size_t{1} << 21;  // 150 MB: all of 1,024 ranks that talk to all
  int ranks_;
  PairsOf pairs_;
  std::vector<std::array<std::int64_t, 2>> room_;
  int window_;
  mutable std::mutex mutex_;
  mutable std::map<int, std::shared_ptr<const Messages>> known_;
  mutable std::size_t known_messages_ = 0;
};

}  // namespace

std::unique_ptr<Schedule> all_to_all_schedule(int ranks, PairsOf pairs, std::span<const std::array<std::int64_t, 2>> room_in_out, int window, std::int64_t element_bytes) {
  if (ranks < 1 || window < 1 || room_in_out.size() != static_cast<std::size_t>(ranks)) {
    throw Error(Error::Kind::internal, "all_to_all_schedule: " + std::to_string(ranks) + " ranks, window " + std::to_string(window) + ", rooms of " + std::to_string(room_in_out.size()));
  }
  return std::make_unique<SparseAllToAll>(ranks, std::move(pairs), room_in_out, window, element_bytes);
}

}  // namespace faibench
