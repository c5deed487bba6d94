// Beyond the ranks at hand: what a task's schedule would cost on any number of them, walked without running or making input.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schedule/traffic.h"
#include "task/task.h"

namespace faibench::scale {

/// One collective of one size on one number of ranks. Levels: [0] between ranks of a node, [1] between nodes.
struct PlanRow {
  std::string task, algorithm;
  std::int64_t bytes = 0;  ///< S, as the task's `scaling` counts it
  int ranks = 0, ranks_per_node = 0, nodes = 0;
  int rounds = 0;
  /// Of the busiest rank among those looked at.
  std::int64_t bytes_sent[2] = {0, 0}, bytes_received[2] = {0, 0}, messages_sent[2] = {0, 0};
  int partners = 0;
  int in_degree = 0;        ///< most messages that arrive at a rank in one round
  int ranks_walked = 0;     ///< looked at for the figures above; less than `ranks` for large P
  int ranks_checked = 0;    ///< whose messages were followed to their other side; 0 where each rank has so many that it would take minutes
  std::string fault;        ///< of those checked; empty: sound
  LowerBound bound;
  double bound_seconds = 0, forecast_seconds = 0;
  std::optional<double> simulated_seconds;  ///< of the same collective on the same ranks, where a simulation of it is at hand
  [[nodiscard]] double ratio_to_bound() const { return bound_seconds > 0 ? forecast_seconds / bound_seconds : 0; }
  /// forecast / simulated - 1.
  [[nodiscard]] std::optional<double> error() const { return simulated_seconds ? std::optional(forecast_seconds / *simulated_seconds - 1) : std::nullopt; }
};

/// Simulated times of collectives and the cost parameters of the platform they were simulated on.
struct Simulation {
  struct Point { std::string task; std::int64_t bytes = 0; int ranks = 0, ranks_per_node = 0; double seconds = 0; };
  CostModel cost;
  std::vector<Point> points;
};
/// {"cost": {"alpha": [in node, between], "beta": [..], "gamma": g}, "points": [{"task", "bytes", "ranks", "ranks_per_node", "seconds"}, ...]}. Throws Error(io) where there is no
/// such file, Error(bad_input) where it is something else.
Simulation read_simulation(const std::filesystem::path& file);

/// A row for each number of ranks, `ranks_per_node` to a node in order (the last node may hold fewer). `points` that match in all but seconds become simulated_seconds.
/// Seconds even for 65,536 ranks: there a few ranks stand for all. Throws Error(bad_input) where the task has no schedule or a number is not at least 1.
std::vector<PlanRow> plan(const Task& task, std::int64_t bytes, std::span<const int> ranks, int ranks_per_node, const CostModel& model, std::span<const Simulation::Point> points = {});

}  // namespace faibench::scale
