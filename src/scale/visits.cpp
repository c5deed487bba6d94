#include "scale/visits.h"

#include <algorithm>
#include <map>

#include "scale/statistics.h"

namespace faibench::scale {
namespace {

constexpr std::string_view separator = "|visit ";

ScalingRow merged(const std::vector<const ScalingRow*>& visits) {
  std::vector<const ScalingRow*> passed;
  for (const ScalingRow* visit : visits) {
    if (visit->verdict == "wrong") return *visit;
    if (visit->verdict == "passed") passed.push_back(visit);
  }
  if (passed.empty()) return *visits.front();
  // Where the ranks kept their cores in some visits, those tell.
  const auto lost = [](const ScalingRow* visit) { return std::ranges::any_of(visit->flags, [](const std::string& flag) { return flag.starts_with("lost_turns"); }); };
  std::int64_t disturbed = 0;
  if (!std::ranges::all_of(passed, lost)) {
    for (const ScalingRow* visit : passed) disturbed += lost(visit) ? visit->samples : 0;
    std::erase_if(passed, lost);
  }
  ScalingRow row = *passed.front();
  row.visits = static_cast<std::int64_t>(passed.size());
  row.invalid = disturbed;
  for (const ScalingRow* visit : visits) row.invalid += visit->invalid;
  if (passed.size() == 1) return row;

  const auto median = [&](auto member) {
    std::vector<double> values;
    for (const ScalingRow* visit : passed) values.push_back(visit->*member);
    return median_of(std::move(values));
  };
  row.seconds = median(&ScalingRow::seconds);
  row.arrival_skew = median(&ScalingRow::arrival_skew);
  row.exit_skew = median(&ScalingRow::exit_skew);
  row.transfer = median(&ScalingRow::transfer);
  row.dispersion = median(&ScalingRow::dispersion);
  row.samples = 0;
  double slowest = row.seconds, fastest = row.seconds;
  std::vector<double> all;
  for (const ScalingRow* visit : passed) {
    row.samples += visit->samples;
    row.low = std::min(row.low, visit->low);
    row.high = std::max(row.high, visit->high);
    row.least = std::min(row.least, visit->least);
    row.most = std::max(row.most, visit->most);
    row.clock_error = std::max(row.clock_error, visit->clock_error);
    slowest = std::max(slowest, visit->seconds);
    fastest = std::min(fastest, visit->seconds);
    for (const std::string& flag : visit->flags)
      if (std::ranges::find(row.flags, flag) == row.flags.end()) row.flags.push_back(flag);
    for (std::size_t k = 0; k < (visit->enter.empty() ? 0 : visit->enter[0].size()); ++k) {
      double enter = visit->enter[0][k], exit = visit->exit[0][k];
      for (std::size_t rank = 1; rank < visit->enter.size(); ++rank) {
        enter = std::min(enter, visit->enter[rank][k]);
        exit = std::max(exit, visit->exit[rank][k]);
      }
      all.push_back((exit - enter) / static_cast<double>(visit->calls));
    }
    if (visit == passed.front()) continue;
    row.stop_reason += row.stop_reason.find(visit->stop_reason) == std::string::npos ? "," + visit->stop_reason : "";
    for (std::size_t rank = 0; rank < std::min(row.enter.size(), visit->enter.size()); ++rank) {
      row.enter[rank].insert(row.enter[rank].end(), visit->enter[rank].begin(), visit->enter[rank].end());
      row.exit[rank].insert(row.exit[rank].end(), visit->exit[rank].begin(), visit->exit[rank].end());
    }
  }
  row.visit_spread = fastest > 0 ? slowest / fastest : 1;
  if (!all.empty()) {
    std::ranges::sort(all);
    row.p90 = quantile(all, 0.9);
    row.p99 = all.size() >= 100 ? quantile(all, 0.99) : 0;
  }
  // What was reckoned from one visit's time.
  const double longer = row.seconds / passed.front()->seconds;
  row.algbw /= longer;
  row.busbw /= longer;
  row.bound_ratio *= longer;
  return row;
}

}  // namespace

std::string visit_key(const std::string& cell_key, int visit) { return cell_key + std::string(separator) + std::to_string(visit); }
std::string cell_key(const std::string& visit_key) { return visit_key.substr(0, visit_key.rfind(separator)); }

std::vector<ScalingRow> cells_of_visits(const std::vector<ScalingRow>& visits) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const ScalingRow*>> cells;
  for (const ScalingRow& visit : visits) {
    auto& cell = cells[cell_key(visit.key)];
    if (cell.empty()) order.push_back(cell_key(visit.key));
    cell.push_back(&visit);
  }
  std::vector<ScalingRow> rows;
  for (const std::string& key : order) {
    rows.push_back(merged(cells[key]));
    rows.back().key = key;
  }
  return rows;
}

}  // namespace faibench::scale
