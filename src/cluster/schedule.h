// Which rank judges what, and in which order. Knows no MPI and no clock: events go in, assignments come out.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace faibench {

/// One thing to judge, as far as the order is concerned.
struct WorkItem {
  double expected_seconds = 0;  ///< the whole of it, alone on its machine
  double slot_seconds = 0;      ///< the part that needs the rank's timing slots for itself; 0: none
  bool needs_gpu = false;
};

/// Where a rank sits, as far as the order is concerned.
struct RankSeat {
  std::vector<int> slots;         ///< the timing slots that its cores touch, numbered over all nodes
  bool has_gpu = false;
  bool whole_task_in_slot = false;  ///< it holds its slots from an item's start to its end
};

/// Longest expected first, given to whoever is free. A free rank whose slots are idle goes before one whose slots have work to do,
/// and a rank whose slots are busy is rather given work that needs no slot. Where slots are scarcer than ranks, each is kept fed.
/// Items that need a GPU wait for a rank that has one, which takes them before others.
/// Not Schedule: that is what ranks send to each other, in the same namespace.
class WorkSchedule {
 public:
  /// Every rank starts as not free. Throws Error(internal) for an item that no rank can take.
  WorkSchedule(std::vector<WorkItem> items, std::vector<RankSeat> seats);

  struct Assignment {
    int item;
    int rank;
  };
  /// The rank has nothing to do and may be given work.
  void rank_is_free(int rank);
  /// The next item to hand out and who gets it; empty while no free rank should take any item that is left. Call until empty after each event.
  std::optional<Assignment> next();
  /// The rank is done with the item (it is not free before rank_is_free).
  void finished(int item);
  /// The item was handed out and must be done again.
  void put_back(int item);

  /// Items neither handed out nor done; items handed out and not done.
  [[nodiscard]] std::int64_t waiting() const { return static_cast<std::int64_t>(any_.size() + slotless_.size() + gpu_.size()); }
  [[nodiscard]] std::int64_t in_flight() const { return in_flight_; }
  /// The order in which items would be handed out to one rank at a time.
  [[nodiscard]] std::vector<int> order() const;
  [[nodiscard]] const WorkItem& item(int index) const { return items_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] bool can_take(int rank, int item) const;

 private:
  using Queue = std::set<std::pair<double, int>>;  // (-expected seconds, item): longest first, then in the order given

  Queue& queue_of(int item);
  double backlog(int rank) const;
  std::optional<int> pick(int rank, double backlog) const;

  std::vector<WorkItem> items_;
  std::vector<RankSeat> seats_;
  Queue any_, slotless_, gpu_;
  std::vector<int> holder_;           // rank of an item in flight, else -1
  std::vector<double> slot_backlog_;  // slot seconds handed out and not finished, by slot
  std::vector<int> slot_holders_;     // items in flight that need the slot, by slot
  bool slots_are_scarce_ = false;     // the slots' work, not the ranks', bounds the whole
  double expected_over_preparation_ = 1;
  std::set<int> free_ranks_;
  std::int64_t in_flight_ = 0;
  bool some_rank_lacks_gpu_ = false;
};

}  // namespace faibench
