#include "scale/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scale/sizes.h"
#include "scale/statistics.h"

namespace faibench::scale {
namespace {

std::string soundness(const PlanRow& row) {
  if (!row.fault.empty()) return "FAULT: " + row.fault;
  if (row.ranks_checked == 0) return "not checked";
  if (row.ranks_checked == row.ranks) return "sound";
  return fmt::format("sound ({} of {} ranks{})", row.ranks_checked, row.ranks, row.partners_checked < row.partners ? fmt::format(", {} of {} partners of each", row.partners_checked, row.partners) : "");
}

std::string prices_text(const Calibration& prices) {
  const CostModel& model = prices.cost;
  const auto message = [&](int level) { return fmt::format("{:.3g} us + bytes / {:.3g} GB/s", 1e6 * model.alpha[level], 1e-9 / model.beta[level]); };
  const auto further = [&](int level) { return fmt::format("{:.3g}", 1e6 * model.overhead[level]); };
  std::string text = fmt::format("One message: {} in a node, {} between nodes; each further one of a round {} and {} us. {}; {}.\n", message(0), message(1), further(0), further(1),
                                 model.parallel_in_node ? "Messages in a node do not slow one another" : "A rank's messages in a node pass one after another",
                                 model.rails > 0 ? fmt::format("{} to the network a node", model.rails == 1 ? "one link" : fmt::format("{} links", model.rails)) : "every rank has a link to the network of its own");
  if (prices.points == 0) return text + "Not calibrated: prices as stated (--simulated), without what ranks agree on first. Sums and copies cost nothing.\n";
  text += fmt::format("Fitted to {} times: median error {:.0f}%, largest {:.0f}%. Forecasts hold what ranks agree on first; sums and copies cost what they did there.\n", prices.points, 100 * prices.median_error, 100 * prices.largest_error);
  return text;
}

std::vector<double> errors_of(std::span<const PlanRow> rows) {
  std::vector<double> errors;
  for (const PlanRow& row : rows)
    if (row.error()) errors.push_back(std::abs(*row.error()));
  return errors;
}

std::string held_out_text(std::span<const PlanRow> rows) {
  const std::vector<double> errors = errors_of(rows);
  if (errors.empty()) return {};
  std::string text = fmt::format("\nHeld out, {} times on more ranks than the prices were fitted to: median error {:.0f}%, largest {:.0f}%.\n", errors.size(), 100 * median_of(errors), 100 * *std::ranges::max_element(errors));
  for (const PlanRow& row : rows)
    if (row.error())
      text += fmt::format("  {:<32} {:>10} {:>6} ranks {:>12.2f} us forecast {:>12.2f} us simulated {:>+6.1f}%\n", row.task, size_text(row.bytes), row.ranks, 1e6 * row.forecast_seconds, 1e6 * *row.simulated_seconds, 100 * *row.error());
  return text;
}

nlohmann::json json_of(const PlanRow& row) {
  using nlohmann::json;
  const auto known = [&](double value) { return row.rounds > 0 ? json(value) : json(); };
  return {{"task", row.task},
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
          {"partners_checked", row.partners_checked},
          {"soundness", soundness(row)},
          {"bound_formula", row.bound.formula},
          {"bound_seconds", row.bound_seconds},
          {"agreement_seconds", known(row.agreement_seconds)},
          {"forecast_seconds", known(row.forecast_seconds)},
          {"every_clock", row.every_clock},
          {"simulated_seconds", row.simulated_seconds ? json(*row.simulated_seconds) : json()},
          {"calibrated_on", row.calibrated_on},
          {"error", row.error() ? json(*row.error()) : json()}};
}

}  // namespace

std::string plan_text(std::span<const PlanRow> rows, const Calibration& prices, std::span<const PlanRow> held_out) {
  std::string text = prices_text(prices) + "Bytes, partners and in-degree are the busiest rank's. ~: forecast from a few ranks that stand for all, not from a clock of each. *: a time that the prices were fitted to.\n";
  std::string task;
  for (const PlanRow& row : rows) {
    if (row.task != task)
      text += fmt::format("\n{}\n{:>10} {:>6} {:>6} {:<32} {:>12} {:>12} {:>8} {:>9} {:>6} {:>11} {:>12} {:>7} {:>12} {:>7}  {}\n", task = row.task, "S", "ranks", "nodes", "algorithm", "B in node", "B between", "partners", "in-degree",
                          "rounds", "bound us", "forecast us", "x bound", "simulated us", "error", "messages");
    const bool forecast = row.forecast_seconds > 0;
    text += fmt::format("{:>10} {:>6} {:>6} {:<32} {:>12} {:>12} {:>8} {:>9} {:>6} {:>11} {:>12} {:>7} {:>12} {:>7}  {}\n", size_text(row.bytes), row.ranks, row.nodes, row.algorithm, row.bytes_sent[0], row.bytes_sent[1], row.partners,
                        row.in_degree, row.rounds, row.bound_seconds > 0 ? fmt::format("{:.2f}", 1e6 * row.bound_seconds) : "-", forecast ? fmt::format("{}{:.2f}", row.every_clock ? "" : "~", 1e6 * row.forecast_seconds) : "-",
                        forecast && row.bound_seconds > 0 ? fmt::format("{:.2f}", row.ratio_to_bound()) : "-", row.simulated_seconds ? fmt::format("{:.2f}{}", 1e6 * *row.simulated_seconds, row.calibrated_on ? "*" : "") : "-",
                        row.error() ? fmt::format("{:+.0f}%", 100 * *row.error()) : "-", soundness(row));
  }
  return text + held_out_text(held_out);
}

std::string plan_json(std::span<const PlanRow> rows, const Calibration& prices, std::span<const PlanRow> held_out) {
  using nlohmann::json;
  const CostModel& model = prices.cost;
  json all = {{"format", "faibench-plan/2"},
              {"cost", {{"alpha", model.alpha}, {"beta", model.beta}, {"gamma", model.gamma}, {"overhead", model.overhead}, {"parallel_in_node", model.parallel_in_node}, {"rails", model.rails}, {"eager", model.eager}}},
              {"calibration", {{"points", prices.points}, {"median_error", prices.median_error}, {"largest_error", prices.largest_error}, {"agreement", prices.agreement}}},
              {"held_out", json::array()},
              {"rows", json::array()}};
  for (const PlanRow& row : held_out) all["held_out"].push_back(json_of(row));
  for (const PlanRow& row : rows) all["rows"].push_back(json_of(row));
  return all.dump();
}

}  // namespace faibench::scale
