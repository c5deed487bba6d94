#include "scale/plan_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scale/sizes.h"

namespace faibench::scale {
namespace {

std::string soundness(const PlanRow& row) {
  if (!row.fault.empty()) return "FAULT: " + row.fault;
  if (row.ranks_checked == 0) return "not checked";
  return row.ranks_checked == row.ranks ? "sound" : fmt::format("sound ({} of {} ranks)", row.ranks_checked, row.ranks);
}

}  // namespace

std::string plan_text(std::span<const PlanRow> rows, const CostModel& model) {
  std::string text = fmt::format("One message: {:g} us + bytes / {:g} GB/s in a node, {:g} us + bytes / {:g} GB/s between nodes. Bytes, partners and in-degree are the busiest rank's.\n", 1e6 * model.alpha[0], 1e-9 / model.beta[0],
                                 1e6 * model.alpha[1], 1e-9 / model.beta[1]);
  std::string task;
  for (const PlanRow& row : rows) {
    if (row.task != task)
      text += fmt::format("\n{}\n{:>10} {:>6} {:>6} {:<32} {:>12} {:>12} {:>8} {:>9} {:>6} {:>11} {:>11} {:>7} {:>12} {:>7}  {}\n", task = row.task, "S", "ranks", "nodes", "algorithm", "B in node", "B between", "partners", "in-degree",
                          "rounds", "bound us", "forecast us", "x bound", "simulated us", "error", "messages");
    text += fmt::format("{:>10} {:>6} {:>6} {:<32} {:>12} {:>12} {:>8} {:>9} {:>6} {:>11} {:>11.2f} {:>7} {:>12} {:>7}  {}\n", size_text(row.bytes), row.ranks, row.nodes, row.algorithm, row.bytes_sent[0], row.bytes_sent[1], row.partners,
                        row.in_degree, row.rounds, row.bound_seconds > 0 ? fmt::format("{:.2f}", 1e6 * row.bound_seconds) : "-", 1e6 * row.forecast_seconds, row.bound_seconds > 0 ? fmt::format("{:.2f}", row.ratio_to_bound()) : "-",
                        row.simulated_seconds ? fmt::format("{:.2f}", 1e6 * *row.simulated_seconds) : "-", row.error() ? fmt::format("{:+.0f}%", 100 * *row.error()) : "-", soundness(row));
  }
  return text;
}

std::string plan_json(std::span<const PlanRow> rows, const CostModel& model) {
  using nlohmann::json;
  json all = {{"format", "faibench-plan/1"}, {"cost", {{"alpha", model.alpha}, {"beta", model.beta}, {"gamma", model.gamma}}}, {"rows", json::array()}};
  for (const PlanRow& row : rows) {
    all["rows"].push_back({{"task", row.task},
                           {"algorithm", row.algorithm},
                           {"bytes", row.bytes},
                           {"ranks", row.ranks},
                           {"ranks_per_node", row.ranks_per_node},
                           {"nodes", row.nodes},
                           {"rounds", row.rounds},
                           {"bytes_sent", row.bytes_sent},
                           {"bytes_received", row.bytes_received},
                           {"messages_sent", row.messages_sent},
                           {"partners", row.partners},
                           {"in_degree", row.in_degree},
                           {"ranks_walked", row.ranks_walked},
                           {"ranks_checked", row.ranks_checked},
                           {"soundness", soundness(row)},
                           {"bound_formula", row.bound.formula},
                           {"bound_seconds", row.bound_seconds},
                           {"forecast_seconds", row.forecast_seconds},
                           {"simulated_seconds", row.simulated_seconds ? json(*row.simulated_seconds) : json()},
                           {"error", row.error() ? json(*row.error()) : json()}});
  }
  return all.dump();
}

}  // namespace faibench::scale
