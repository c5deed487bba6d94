#include "cluster/schedule.h"

#include <algorithm>
#include <string>

#include "tensor/error.h"

namespace faibench {

WorkSchedule::WorkSchedule(std::vector<WorkItem> items, std::vector<RankSeat> seats)
    : items_(std::move(items)), seats_(std::move(seats)), holder_(items_.size(), -1) {
  int slots = 0;
  bool some_rank_has_gpu = false;
  for (const RankSeat& seat : seats_) {
    for (int slot : seat.slots) slots = std::max(slots, slot + 1);
    (seat.has_gpu ? some_rank_has_gpu : some_rank_lacks_gpu_) = true;
  }
  slot_backlog_.assign(static_cast<std::size_t>(slots), 0);
  double total = 0, in_slot = 0;
  for (const WorkItem& work : items_) {
    total += work.expected_seconds;
    in_slot += work.slot_seconds;
  }
  slots_are_scarce_ = slots > 0 && in_slot / slots > total / static_cast<double>(seats_.size());
  expected_over_preparation_ = total / std::max(total - in_slot, 1e-9 * total);
  slot_holders_.assign(static_cast<std::size_t>(slots), 0);
  for (int i = 0; i < static_cast<int>(items_.size()); ++i) {
    if (items_[static_cast<std::size_t>(i)].needs_gpu && !some_rank_has_gpu) {
      throw Error(Error::Kind::internal, "schedule: item " + std::to_string(i) + " needs a GPU and no rank has one");
    }
    queue_of(i).emplace(-item(i).expected_seconds, i);
  }
}

WorkSchedule::Queue& WorkSchedule::queue_of(int index) {
  if (item(index).needs_gpu) return gpu_;
  return item(index).slot_seconds > 0 ? any_ : slotless_;
}

bool WorkSchedule::can_take(int rank, int index) const { return !item(index).needs_gpu || seats_[static_cast<std::size_t>(rank)].has_gpu; }

void WorkSchedule::rank_is_free(int rank) { free_ranks_.insert(rank); }

// Work that waits for the rank's slots: of its busiest one, as it must have them all.
double WorkSchedule::backlog(int rank) const {
  double most = 0;
  for (int slot : seats_[static_cast<std::size_t>(rank)].slots) most = std::max(most, slot_backlog_[static_cast<std::size_t>(slot)]);
  return most;
}

std::optional<int> WorkSchedule::pick(int rank, double backlog) const {
  const RankSeat& seat = seats_[static_cast<std::size_t>(rank)];
  const bool slot_is_busy = backlog > 0;
  const bool may_wait_for_slot = !(slot_is_busy && seat.whole_task_in_slot);
  if (seat.has_gpu && !gpu_.empty() && may_wait_for_slot) {
    // Nobody else can do these where some ranks have no GPU; where all have one, only the length decides.
    const double longest_other = any_.empty() ? 0 : -any_.begin()->first;
    if (some_rank_lacks_gpu_ || -gpu_.begin()->first >= longest_other) return gpu_.begin()->second;
  }
  if (slot_is_busy && !slotless_.empty()) return slotless_.begin()->second;
  // Where the slots are what is scarce, one that waits for a long item to be prepared is lost time: the longest item that is ready before the slot
  // runs out of work, which ramps up from short ones at the start.
  if (slots_are_scarce_ && !seat.whole_task_in_slot && !any_.empty()) {
    const auto ready_in_time = any_.lower_bound({-backlog * expected_over_preparation_, -1});
    return ready_in_time == any_.end() ? any_.rbegin()->second : ready_in_time->second;
  }
  const Queue* longest = nullptr;
  if (!any_.empty() && may_wait_for_slot) longest = &any_;
  if (!slotless_.empty() && (!longest || slotless_.begin()->first < longest->begin()->first)) longest = &slotless_;
  return longest ? std::optional(longest->begin()->second) : std::nullopt;
}

std::optional<WorkSchedule::Assignment> WorkSchedule::next() {
  if (waiting() == 0) return std::nullopt;
  std::optional<Assignment> best;
  double best_backlog = 0;
  bool best_has_gpu = false;
  for (int rank : free_ranks_) {
    const double load = backlog(rank);
    const bool has_gpu = seats_[static_cast<std::size_t>(rank)].has_gpu;
    // Of two equals the one without a GPU, so that the other stays free for what only it can do.
    if (best && (load > best_backlog || (load == best_backlog && (!best_has_gpu || has_gpu)))) continue;
    if (const auto item = pick(rank, load)) {
      best = Assignment{*item, rank};
      best_backlog = load;
      best_has_gpu = has_gpu;
      if (load == 0 && !has_gpu && gpu_.empty()) break;
    }
  }
  if (!best) return std::nullopt;
  const WorkItem& work = item(best->item);
  queue_of(best->item).erase({-work.expected_seconds, best->item});
  holder_[static_cast<std::size_t>(best->item)] = best->rank;
  free_ranks_.erase(best->rank);
  ++in_flight_;
  if (work.slot_seconds > 0) {
    for (int slot : seats_[static_cast<std::size_t>(best->rank)].slots) {
      slot_backlog_[static_cast<std::size_t>(slot)] += work.slot_seconds;
      ++slot_holders_[static_cast<std::size_t>(slot)];
    }
  }
  return best;
}

void WorkSchedule::finished(int index) {
  int& rank = holder_[static_cast<std::size_t>(index)];
  if (rank < 0) throw Error(Error::Kind::internal, "schedule: item " + std::to_string(index) + " finished without having been handed out");
  if (item(index).slot_seconds > 0) {
    for (int slot : seats_[static_cast<std::size_t>(rank)].slots) {
      const auto s = static_cast<std::size_t>(slot);
      // Exactly zero again when nobody is left, whatever was rounded on the way.
      slot_backlog_[s] = --slot_holders_[s] == 0 ? 0 : slot_backlog_[s] - item(index).slot_seconds;
    }
  }
  rank = -1;
  --in_flight_;
}

void WorkSchedule::put_back(int index) {
  finished(index);
  queue_of(index).emplace(-item(index).expected_seconds, index);
}

std::vector<int> WorkSchedule::order() const {
  std::vector<std::pair<double, int>> all;
  for (const Queue* queue : {&gpu_, &any_, &slotless_}) all.insert(all.end(), queue->begin(), queue->end());
  std::sort(all.begin(), all.end());
  std::vector<int> result;
  result.reserve(all.size());
  for (const auto& [cost, index] : all) result.push_back(index);
  return result;
}

}  // namespace faibench
