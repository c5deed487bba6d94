#include "scale/forecast.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tensor/error.h"

namespace faibench::scale {
namespace {

constexpr int most_walked_whole = 256;        // ranks; above, some stand for all
constexpr std::int64_t many_messages = 4096;  // of a rank: then fewer ranks stand for all
constexpr int most_followed = 16;             // partners of a rank whose side is looked at, where not all ranks are walked
constexpr std::int64_t most_clocked = 1 << 21;  // messages of all ranks, for a clock of every rank

/// All ranks where they are few; else the first node, ranks on both sides of every power of two (where folding and trees change), and the last ones.
std::vector<int> ranks_to_walk(int ranks, int ranks_per_node) {
  std::vector<int> walked;
  if (ranks <= most_walked_whole) {
    walked.resize(static_cast<std::size_t>(ranks));
    std::iota(walked.begin(), walked.end(), 0);
    return walked;
  }
  for (int rank = 0; rank < std::min(ranks_per_node, 8); ++rank) walked.push_back(rank);
  for (int power = 8; power < ranks; power *= 2) walked.insert(walked.end(), {power - 1, power});
  walked.insert(walked.end(), {ranks / 3, ranks - 2, ranks - 1});
  std::ranges::sort(walked);
  walked.erase(std::unique(walked.begin(), walked.end()), walked.end());
  return walked;
}

/// `most` of them, evenly spaced, both ends among them.
std::vector<int> thinned(const std::vector<int>& ranks, std::size_t most) {
  if (ranks.size() <= most) return ranks;
  std::vector<int> fewer;
  for (std::size_t i = 0; i < most; ++i) fewer.push_back(ranks[i * (ranks.size() - 1) / (most - 1)]);
  return fewer;
}

PlanRow row_of(const Task& task, std::int64_t bytes, int ranks, int ranks_per_node, const Calibration& prices) {
  const MultiRank::Scaling& scaling = *task.multi_rank->scaling;
  const NodeMap nodes = NodeMap::regular(ranks, ranks_per_node);
  PlanRow row;
  row.task = task.name;
  row.algorithm = "no schedule";
  row.bytes = bytes;
  row.ranks = ranks;
  row.ranks_per_node = ranks_per_node;
  row.nodes = nodes.nodes();
  if (scaling.bound) {
    row.bound = scaling.bound(bytes, ranks);
    row.bound_seconds = bound_seconds(row.bound, nodes, prices.cost);
  }
  if (!scaling.schedule) return row;
  const auto schedule = scaling.schedule(bytes, nodes);
  row.algorithm = schedule->algorithm();
  row.rounds = schedule->rounds();

  std::vector<int> walked = ranks_to_walk(ranks, ranks_per_node);
  const Traffic first = traffic_of(*schedule, nodes, 0);
  const std::int64_t messages = first.messages_sent[0] + first.messages_sent[1] + first.messages_received[0] + first.messages_received[1] + schedule->rounds();
  if (ranks > most_walked_whole && messages > many_messages) walked = thinned(walked, 4);
  for (const int rank : walked) {
    const Traffic traffic = traffic_of(*schedule, nodes, rank);
    for (const int level : {0, 1}) {
      row.bytes_sent[level] = std::max(row.bytes_sent[level], traffic.bytes_sent[level]);
      row.bytes_received[level] = std::max(row.bytes_received[level], traffic.bytes_received[level]);
      row.messages_sent[level] = std::max(row.messages_sent[level], traffic.messages_sent[level]);
    }
    row.partners = std::max(row.partners, traffic.partners);
    row.in_degree = std::max(row.in_degree, traffic.most_incoming);
  }
  row.ranks_walked = row.ranks_checked = static_cast<int>(walked.size());
  const bool whole = row.ranks_walked == ranks;
  row.partners_checked = whole ? row.partners : std::min(row.partners, most_followed);
  row.fault = (whole ? fault_in(*schedule) : fault_in(*schedule, walked, most_followed)).value_or("");
  row.agreement_seconds = prices.agreement_seconds(task.name, nodes);
  row.every_clock = messages * ranks <= most_clocked;
  row.forecast_seconds = row.agreement_seconds + predicted_seconds(*schedule, nodes, prices.cost, row.every_clock ? std::span<const int>() : walked);
  return row;
}

double positive(const nlohmann::json& number, const char* what, bool or_zero) {
  const double value = number.get<double>();
  if (!(value > 0 || (or_zero && value == 0)) || value > 1e6 || (value > 0 && value < 1e-20)) throw Error(Error::Kind::bad_input, std::string("no simulation: ") + what + " is " + number.dump() + ", none that a machine has");
  return value;
}

std::int64_t count(const nlohmann::json& number, const char* what, std::int64_t most) {
  if (!number.is_number_integer() || number.get<double>() < 1 || number.get<double>() > static_cast<double>(most))
    throw Error(Error::Kind::bad_input, std::string("no simulation: ") + what + " is " + number.dump().substr(0, 40) + ", must be a whole number from 1 to " + std::to_string(most));
  return number.get<std::int64_t>();
}

Simulation simulation_from(const nlohmann::json& json) {
  Simulation simulation;
  const auto& cost = json.at("cost");
  for (const std::size_t level : {0, 1}) {
    simulation.cost.alpha[level] = positive(cost.at("alpha").at(level), "alpha", true);
    simulation.cost.beta[level] = positive(cost.at("beta").at(level), "beta", true);
  }
  simulation.cost.gamma = positive(cost.at("gamma"), "gamma", true);
  simulation.calibrate_up_to = json.value("calibrate_up_to", simulation.calibrate_up_to);
  for (const auto& point : json.at("points")) {
    simulation.points.push_back({point.at("task").get<std::string>(), count(point.at("bytes"), "bytes", std::int64_t{1} << 50), static_cast<int>(count(point.at("ranks"), "ranks", most_ranks_of_a_plan)),
                                 static_cast<int>(count(point.at("ranks_per_node"), "ranks_per_node", most_ranks_of_a_plan)), positive(point.at("seconds"), "seconds", false)});
  }
  return simulation;
}

bool fitted_to(const Simulation& simulation, const TimedPoint& point) { return point.ranks <= simulation.calibrate_up_to; }

const Task* find(std::span<const Task* const> tasks, const std::string& name) {
  const auto found = std::ranges::find_if(tasks, [&](const Task* task) { return task->name == name && task->multi_rank && task->multi_rank->scaling; });
  return found == tasks.end() ? nullptr : *found;
}

}  // namespace

Simulation read_simulation(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw Error(Error::Kind::io, file.string() + ": cannot be read");
  try {
    return simulation_from(nlohmann::json::parse(in));
  } catch (const nlohmann::json::exception& e) {
    throw Error(Error::Kind::bad_input, file.string() + ": no simulation: " + e.what());
  } catch (const Error& e) {
    throw e.at(file.string());
  } catch (const std::ios_base::failure&) {  // a folder opens, and then cannot be read
    throw Error(Error::Kind::io, file.string() + ": cannot be read");
  }
}

Calibration calibrate(const Simulation& simulation, std::span<const Task* const> tasks) {
  std::vector<TimedPoint> few;
  std::ranges::copy_if(simulation.points, std::back_inserter(few), [&](const TimedPoint& point) { return fitted_to(simulation, point); });
  return calibrate(few, simulation.cost, [&](const std::string& name, std::int64_t bytes, const NodeMap& nodes) -> std::shared_ptr<const Schedule> {
    const Task* task = find(tasks, name);
    return task && task->multi_rank->scaling->schedule ? task->multi_rank->scaling->schedule(bytes, nodes) : nullptr;
  });
}

std::vector<PlanRow> plan(const Task& task, std::int64_t bytes, std::span<const int> ranks, int ranks_per_node, const Calibration& prices, const Simulation& simulation) {
  if (!task.multi_rank || !task.multi_rank->scaling) throw Error(Error::Kind::bad_input, task.name + ": has no scaling form to plan with");
  if (bytes < 0 || ranks_per_node < 1 || std::ranges::any_of(ranks, [](int P) { return P < 1; })) {
    throw Error(Error::Kind::bad_input, task.name + ": a plan needs 0 bytes or more, and ranks and ranks on a node of 1 or more");
  }
  std::vector<PlanRow> rows;
  for (const int P : ranks) {
    PlanRow row = row_of(task, bytes, P, ranks_per_node, prices);
    for (const TimedPoint& point : simulation.points) {
      if (point.task != task.name || point.bytes != bytes || point.ranks != P || point.ranks_per_node != ranks_per_node) continue;
      row.simulated_seconds = point.seconds;
      row.calibrated_on = fitted_to(simulation, point);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<PlanRow> held_out(const Simulation& simulation, const Calibration& prices, std::span<const Task* const> tasks) {
  std::vector<PlanRow> rows;
  for (const TimedPoint& point : simulation.points) {
    const Task* task = find(tasks, point.task);
    if (fitted_to(simulation, point) || !task || !task->multi_rank->scaling->schedule) continue;
    rows.push_back(plan(*task, point.bytes, std::array{point.ranks}, point.ranks_per_node, prices, simulation).front());
  }
  return rows;
}

}  // namespace faibench::scale
