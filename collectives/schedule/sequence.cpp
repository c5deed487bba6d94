// One schedule after another, each with buffers of its own.
#include "schedule/schedule.h"
#include "tensor/error.h"

namespace faibench {
namespace {

/// Counts in bytes, because elements differ between parts. A part's buffers lie behind those of the parts before it, on every rank.
class Sequence : public Schedule {
 public:
  explicit Sequence(std::vector<std::shared_ptr<const Schedule>> parts) : Schedule({1, 1, 1, 1, 1}), parts_(std::move(parts)) {
    for (const auto& part : parts_) rounds_ += part->rounds();
  }
  /// Equal neighbours are counted: "4 x two-shot direct, log-step".
  std::string algorithm() const override {
    std::string text;
    for (std::size_t first = 0, past = 0; first < parts_.size(); first = past) {
      const std::string name = parts_[first]->algorithm();
      for (past = first + 1; past < parts_.size() && parts_[past]->algorithm() == name;) ++past;
      text += (text.empty() ? "" : ", ") + (past - first > 1 ? std::to_string(past - first) + " x " : "") + name;
    }
    return text;
  }
  int ranks() const override { return parts_.front()->ranks(); }
  int rounds() const override { return rounds_; }
  std::array<std::int64_t, buffer_kinds> room(int rank) const override { return room_before(parts_.size(), rank); }

  Round round(int rank, int index) const override {
    std::size_t part = 0;
    for (; index >= parts_[part]->rounds(); ++part) index -= parts_[part]->rounds();
    const Schedule& schedule = *parts_[part];
    const auto own = room_before(part, rank);
    const auto placed = [&](const Region& region, const std::array<std::int64_t, buffer_kinds>& before) {
      const std::int64_t bytes = schedule.element_bytes()[static_cast<std::size_t>(region.buffer)];
      return Region{region.buffer, before[static_cast<std::size_t>(region.buffer)] + region.offset * bytes, region.count * bytes};
    };
    Round round = schedule.round(rank, index);
    for (std::vector<Message>* messages : {&round.sends, &round.receives})
      for (Message& m : *messages) m = {m.peer, placed(m.here, own), placed(m.there, room_before(part, m.peer))};
    for (Sum& sum : round.sums) {
      for (Region& term : sum.terms) term = placed(term, own);
      sum.into = placed(sum.into, own);
    }
    return round;
  }

 private:
  std::array<std::int64_t, buffer_kinds> room_before(std::size_t part, int rank) const {
    std::array<std::int64_t, buffer_kinds> bytes{};
    for (std::size_t k = 0; k < part; ++k) {
      const auto room = parts_[k]->room(rank);
      for (std::size_t b = 0; b < buffer_kinds; ++b) bytes[b] += room[b] * parts_[k]->element_bytes()[b];
    }
    return bytes;
  }

  std::vector<std::shared_ptr<const Schedule>> parts_;
  int rounds_ = 0;
};

}  // namespace

std::shared_ptr<const Schedule> sequence_schedule(std::vector<std::shared_ptr<const Schedule>> parts) {
  if (parts.empty()) throw Error(Error::Kind::internal, "sequence_schedule: no parts");
  for (const auto& part : parts)
    if (part->ranks() != parts.front()->ranks()) throw Error(Error::Kind::internal, "sequence_schedule: parts for " + std::to_string(parts.front()->ranks()) + " and " + std::to_string(part->ranks()) + " ranks");
  return std::make_shared<Sequence>(std::move(parts));
}

}  // namespace faibench
