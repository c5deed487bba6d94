// Beyond the ranks at hand: what a task's schedule would cost on any number of them, walked without running or making input.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scale/calibrate.h"
#include "schedule/traffic.h"
#include "task/task.h"

namespace faibench::scale {

constexpr int most_ranks_of_a_plan = 1 << 24;  ///< lists of all ranks and nodes are held

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
  int ranks_checked = 0;    ///< whose messages were followed to their other side
  int partners_checked = 0; ///< of each of them; all, or some where a rank has too many
  std::string fault;        ///< of those checked; empty: sound
  LowerBound bound;
  double bound_seconds = 0;
  double agreement_seconds = 0;             ///< of the forecast: what the ranks agree on first, where a calibration tells
  double forecast_seconds = 0;              ///< 0: the task has no schedule, and only its bound is known
  bool every_clock = false;                 ///< forecast from a clock of every rank; else from the rounds of a few, which stand for all
  std::optional<double> simulated_seconds;  ///< of the same collective on the same ranks, where a simulation of it is at hand
  bool calibrated_on = false;               ///< that one is among those the prices were fitted to
  [[nodiscard]] double ratio_to_bound() const { return bound_seconds > 0 ? forecast_seconds / bound_seconds : 0; }
  /// forecast / simulated - 1.
  [[nodiscard]] std::optional<double> error() const { return simulated_seconds && forecast_seconds > 0 ? std::optional(forecast_seconds / *simulated_seconds - 1) : std::nullopt; }
};

/// Simulated times of collectives and what the platform they were simulated on says of its messages.
struct Simulation {
  CostModel cost;
  std::vector<TimedPoint> points;
  int calibrate_up_to = 64;  ///< ranks; the points above are held out, to show the forecast's error
};
/// {"cost": {"alpha": [in node, between], "beta": [..], "gamma": g}, "calibrate_up_to": ranks (may be left out), "points": [{"task", "bytes", "ranks", "ranks_per_node", "seconds"}, ...]}.
/// Throws Error(io) where there is no such file, Error(bad_input) where it is something else.
Simulation read_simulation(const std::filesystem::path& file);
/// Prices fitted to the points up to `calibrate_up_to` ranks; without points, those of the file.
Calibration calibrate(const Simulation& simulation, std::span<const Task* const> tasks);

/// A row for each number of ranks, `ranks_per_node` to a node in order (the last node may hold fewer). Points that match in all but seconds become simulated_seconds.
/// Seconds even for 65,536 ranks: where there are too many messages a few ranks stand for all. A task without a schedule has its bound alone. Throws Error(bad_input) where the task has no scaling form or
/// a number is not at least 1.
std::vector<PlanRow> plan(const Task& task, std::int64_t bytes, std::span<const int> ranks, int ranks_per_node, const Calibration& prices, const Simulation& simulation = {});

/// The forecast of every point above `calibrate_up_to` beside its time: rows with simulated_seconds.
std::vector<PlanRow> held_out(const Simulation& simulation, const Calibration& prices, std::span<const Task* const> tasks);

}  // namespace faibench::scale
