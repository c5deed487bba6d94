#include "scale/forecast.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tensor/error.h"

namespace faibench::scale {
namespace {

constexpr int most_walked_whole = 256;        // ranks; above, some stand for all
constexpr std::int64_t most_followed = 1024;  // messages of a rank: following them asks each partner for all of its own

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

PlanRow row_of(const MultiRank::Scaling& scaling, std::int64_t bytes, int ranks, int ranks_per_node, const CostModel& model) {
  const NodeMap nodes = NodeMap::regular(ranks, ranks_per_node);
  const auto schedule = scaling.schedule(bytes, nodes);
  PlanRow row;
  row.algorithm = schedule->algorithm();
  row.bytes = bytes;
  row.ranks = ranks;
  row.ranks_per_node = ranks_per_node;
  row.nodes = nodes.nodes();
  row.rounds = schedule->rounds();

  std::vector<int> walked = ranks_to_walk(ranks, ranks_per_node);
  const Traffic first = traffic_of(*schedule, nodes, 0);
  const std::int64_t work = first.messages_sent[0] + first.messages_sent[1] + first.messages_received[0] + first.messages_received[1] + schedule->rounds();
  if (ranks > most_walked_whole && work > 4 * most_followed) walked = thinned(walked, 4);
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
  row.ranks_walked = static_cast<int>(walked.size());
  if (row.partners <= most_followed) {
    row.ranks_checked = row.ranks_walked;
    row.fault = fault_in(*schedule, walked).value_or("");
  }
  row.forecast_seconds = predicted_seconds(*schedule, nodes, model, walked);
  if (scaling.bound) {
    row.bound = scaling.bound(bytes, ranks);
    row.bound_seconds = bound_seconds(row.bound, nodes, model);
  }
  return row;
}

}  // namespace

Simulation read_simulation(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw Error(Error::Kind::io, file.string() + ": cannot be read");
  try {
    const auto json = nlohmann::json::parse(in);
    Simulation simulation;
    const auto& cost = json.at("cost");
    for (const std::size_t level : {0, 1}) {
      simulation.cost.alpha[level] = cost.at("alpha").at(level).get<double>();
      simulation.cost.beta[level] = cost.at("beta").at(level).get<double>();
    }
    simulation.cost.gamma = cost.at("gamma").get<double>();
    for (const auto& point : json.at("points")) {
      simulation.points.push_back({point.at("task").get<std::string>(), point.at("bytes").get<std::int64_t>(), point.at("ranks").get<int>(), point.at("ranks_per_node").get<int>(),
                                   point.at("seconds").get<double>()});
    }
    return simulation;
  } catch (const nlohmann::json::exception& e) {
    throw Error(Error::Kind::bad_input, file.string() + ": no simulation: " + e.what());
  }
}

std::vector<PlanRow> plan(const Task& task, std::int64_t bytes, std::span<const int> ranks, int ranks_per_node, const CostModel& model, std::span<const Simulation::Point> points) {
  if (!task.multi_rank || !task.multi_rank->scaling || !task.multi_rank->scaling->schedule) throw Error(Error::Kind::bad_input, task.name + ": has no schedule to plan with");
  if (bytes < 0 || ranks_per_node < 1 || std::ranges::any_of(ranks, [](int P) { return P < 1; })) {
    throw Error(Error::Kind::bad_input, task.name + ": a plan needs 0 bytes or more, and ranks and ranks on a node of 1 or more");
  }
  std::vector<PlanRow> rows;
  for (const int P : ranks) {
    PlanRow row = row_of(*task.multi_rank->scaling, bytes, P, ranks_per_node, model);
    row.task = task.name;
    for (const Simulation::Point& point : points)
      if (point.task == task.name && point.bytes == bytes && point.ranks == P && point.ranks_per_node == ranks_per_node) row.simulated_seconds = point.seconds;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace faibench::scale
