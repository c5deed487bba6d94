// The prices of messages, fitted to times of whole collectives on few ranks, so that a forecast for many is calibrated and not guessed. Pure.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "schedule/cost.h"

namespace faibench::scale {

/// A time of one task on regular nodes: simulated, or measured where nothing else ran.
struct TimedPoint { std::string task; std::int64_t bytes = 0; int ranks = 0, ranks_per_node = 0; double seconds = 0; };

struct Calibration {
  CostModel cost;
  /// What ranks agree on before they move anything, and how late the last one starts: seconds for each doubling of the ranks in a node, each doubling of the nodes, and once where there are several. By task.
  std::map<std::string, std::array<double, 3>> agreement;
  int points = 0;            ///< it was fitted to
  double median_error = 0;   ///< of these, without sign
  double largest_error = 0;
  /// 0 for a task that no point was of.
  [[nodiscard]] double agreement_seconds(const std::string& task, const NodeMap& nodes) const;
};

/// Null where the task has none.
using ScheduleOf = std::function<std::shared_ptr<const Schedule>(const std::string& task, std::int64_t bytes, const NodeMap& nodes)>;

/// Least relative squares over the points, no price negative: the longest path at the prices so far says how often each is paid, prices are fitted to that, and again. Whether ranks of a node share its links
/// to the network, and messages in a node its memory, is what fits best. A weak pull towards `start` decides what the points leave open.
Calibration calibrate(std::span<const TimedPoint> points, const CostModel& start, const ScheduleOf& schedule_of);

}  // namespace faibench::scale
