// The schedule alone: 10,000 tasks of skewed cost over 1,024 ranks on 128 nodes, as a simulation of events.
// Prints makespan over its lower bound (at most 1.05) and the seconds spent planning (below 1); exits 1 when a bound is missed.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <queue>
#include <string>
#include <vector>

#include "cluster/schedule.h"
#include "tensor/random.h"

namespace {

using faibench::Random;
using faibench::RankSeat;
using faibench::WorkSchedule;
using faibench::WorkItem;

constexpr int tasks = 10'000, nodes = 128, ranks_per_node = 8, ranks = nodes * ranks_per_node;

struct Scenario {
  std::string name;
  bool pareto = false;            // else log-normal
  int slots_per_node = 8;
  double slot_share = 0.5;        // of an item that needs the slot
  double estimate_error = 0;      // standard deviation of ln(true / expected)
  bool whole_task_in_slot = false;
};

// Mean near 1, cut at 8: the longest item is below the average load of a rank (9.8 items), or the bound would be that item and prove nothing.
std::vector<double> costs(const Scenario& scenario, Random& random) {
  std::vector<double> out(tasks);
  for (double& cost : out) {
    const double skewed = scenario.pareto ? 0.36 * std::pow(1 - random.uniform(), -1 / 1.3) : std::exp(1.2 * random.normal() - 0.72);
    cost = std::min(8.0, skewed);
  }
  return out;
}

// Runs the items through simulated ranks: the part without the slot first, then the part in it, first come first served.
class Simulation {
 public:
  Simulation(const Scenario& scenario, const std::vector<double>& true_seconds, std::vector<WorkItem> items, const std::vector<RankSeat>& seats)
      : scenario_(scenario), true_(true_seconds), schedule_(std::move(items), seats), seats_(seats),
        slot_busy_(static_cast<std::size_t>(nodes * scenario.slots_per_node), false), slot_queue_(slot_busy_.size()) {}

  double makespan() {
    timed([&] { for (int r = 0; r < ranks; ++r) schedule_.rank_is_free(r); });
    hand_out(0);
    double now = 0;
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now = event.time;
      event.in_slot ? leave_slot(event) : wait_for_slot(event);
    }
    if (schedule_.waiting() + schedule_.in_flight() != 0) throw std::runtime_error("items were left over");
    return now;
  }
  [[nodiscard]] double planning_seconds() const { return planning_seconds_; }

 private:
  struct Event {
    double time;
    int item, rank;
    bool in_slot;
    bool operator<(const Event& other) const { return time > other.time; }
  };
  template <class F>
  void timed(F&& f) {
    const auto start = std::chrono::steady_clock::now();
    f();
    planning_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::size_t slot_of(int rank) const { return static_cast<std::size_t>(seats_[static_cast<std::size_t>(rank)].slots.front()); }
  double share() const { return scenario_.whole_task_in_slot ? 1 : scenario_.slot_share; }

  void hand_out(double now) {
    std::vector<WorkSchedule::Assignment> given;
    timed([&] { while (const auto a = schedule_.next()) given.push_back(*a); });
    for (const auto& a : given) events_.push({now + true_[static_cast<std::size_t>(a.item)] * (1 - share()), a.item, a.rank, false});
  }
  void wait_for_slot(const Event& event) {
    const std::size_t slot = slot_of(event.rank);
    if (slot_busy_[slot]) return slot_queue_[slot].push_back(event);
    enter_slot(event, event.time);
  }
  void enter_slot(const Event& event, double now) {
    slot_busy_[slot_of(event.rank)] = true;
    events_.push({now + true_[static_cast<std::size_t>(event.item)] * share(), event.item, event.rank, true});
  }
  void leave_slot(const Event& event) {
    const std::size_t slot = slot_of(event.rank);
    slot_busy_[slot] = false;
    if (!slot_queue_[slot].empty()) {
      const Event waiting = slot_queue_[slot].front();
      slot_queue_[slot].pop_front();
      enter_slot(waiting, event.time);
    }
    timed([&] {
      schedule_.finished(event.item);
      schedule_.rank_is_free(event.rank);
    });
    hand_out(event.time);
  }

  const Scenario& scenario_;
  const std::vector<double>& true_;
  WorkSchedule schedule_;
  const std::vector<RankSeat>& seats_;
  std::vector<bool> slot_busy_;
  std::vector<std::deque<Event>> slot_queue_;
  std::priority_queue<Event> events_;
  double planning_seconds_ = 0;
};

bool run(const Scenario& scenario) {
  Random random(faibench::stable_hash(scenario.name));
  const std::vector<double> true_seconds = costs(scenario, random);
  const double share = scenario.whole_task_in_slot ? 1 : scenario.slot_share;
  std::vector<WorkItem> items;
  double total = 0, longest = 0;
  for (double seconds : true_seconds) {
    const double expected = seconds * std::exp(scenario.estimate_error * random.normal());
    items.push_back({.expected_seconds = expected, .slot_seconds = expected * share});
    total += seconds;
    longest = std::max(longest, seconds);
  }
  std::vector<RankSeat> seats;
  for (int r = 0; r < ranks; ++r) {
    const int slot = (r / ranks_per_node) * scenario.slots_per_node + (r % ranks_per_node) * scenario.slots_per_node / ranks_per_node;
    seats.push_back({.slots = {slot}, .has_gpu = false, .whole_task_in_slot = scenario.whole_task_in_slot});
  }
  const double bound = std::max({total / ranks, total * share / (nodes * scenario.slots_per_node), longest});
  const auto start = std::chrono::steady_clock::now();
  Simulation simulation(scenario, true_seconds, items, seats);
  const double makespan = simulation.makespan();
  const double constructed_and_simulated = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const bool good = makespan <= 1.05 * bound && simulation.planning_seconds() < 1;
  fmt::print("{:<58} makespan/bound {:.4f}  planning {:.3f} s  (all with simulation {:.3f} s)  {}\n", scenario.name, makespan / bound, simulation.planning_seconds(),
             constructed_and_simulated, good ? "ok" : "MISSED");
  return good;
}

}  // namespace

int main() {
  fmt::print("{} tasks over {} ranks on {} nodes; bounds: makespan/bound <= 1.05, planning < 1 s\n", tasks, ranks, nodes);
  const Scenario scenarios[] = {
      {.name = "log-normal, a slot a rank"},
      {.name = "Pareto 1.3, a slot a rank", .pareto = true},
      {.name = "log-normal, a slot a rank, estimates off by 30%", .estimate_error = 0.3},
      {.name = "Pareto 1.3, a slot a rank, estimates off by 30%", .pareto = true, .estimate_error = 0.3},
      {.name = "log-normal, 2 slots a node, half of each task timed", .slots_per_node = 2, .slot_share = 0.5},
      {.name = "Pareto 1.3, 2 slots a node, half of each task timed", .pareto = true, .slots_per_node = 2, .slot_share = 0.5},
      {.name = "Pareto 1.3, 2 slots a node, half timed, off by 30%", .pareto = true, .slots_per_node = 2, .slot_share = 0.5, .estimate_error = 0.3},
      {.name = "log-normal, shared cores: a node does one task at a time", .slots_per_node = 1, .whole_task_in_slot = true},
  };
  bool good = true;
  for (const Scenario& scenario : scenarios) good = run(scenario) && good;
  return good ? 0 : 1;
}
