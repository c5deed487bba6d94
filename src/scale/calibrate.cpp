#include "scale/calibrate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "scale/statistics.h"

namespace faibench::scale {
namespace {

constexpr int refinements = 8;
constexpr double pull = 1e-3;  // towards the start, against one point's relative error
constexpr std::size_t prices = CostTerms::count;

constexpr std::size_t agreement_prices = 3;
std::array<double, agreement_prices> agreement_times(const NodeMap& nodes) {
  std::size_t most = 1;
  for (int node = 0; node < nodes.nodes(); ++node) most = std::max(most, nodes.members(node).size());
  return {std::log2(static_cast<double>(most)), std::log2(static_cast<double>(nodes.nodes())), nodes.nodes() > 1 ? 1.0 : 0.0};
}

struct Observation {
  const TimedPoint* point;
  NodeMap nodes;
  std::shared_ptr<const Schedule> schedule;
  std::size_t task;  // whose agreement prices are its own
};

/// min |A x - b|^2, x >= 0, by coordinate descent on the normal equations: few unknowns, well apart by the pull.
class NonNegative {
 public:
  explicit NonNegative(std::size_t unknowns) : n_(unknowns), square_(unknowns * unknowns, 0), right_(unknowns, 0) {}
  void add(const std::vector<double>& row, double value, double weight) {
    for (std::size_t i = 0; i < n_; ++i) {
      right_[i] += weight * row[i] * value;
      for (std::size_t k = 0; k < n_; ++k) square_[i * n_ + k] += weight * row[i] * row[k];
    }
  }
  std::vector<double> solve(std::vector<double> x) const {
    for (int sweep = 0; sweep < 20000; ++sweep) {
      double moved = 0;
      for (std::size_t i = 0; i < n_; ++i) {
        const double diagonal = square_[i * n_ + i];
        if (diagonal <= 0) continue;
        const double slope = std::inner_product(x.begin(), x.end(), square_.begin() + static_cast<std::ptrdiff_t>(i * n_), -right_[i]);
        const double next = std::max(0.0, x[i] - slope / diagonal);
        moved = std::max(moved, std::abs(next - x[i]) * std::sqrt(diagonal));
        x[i] = next;
      }
      if (moved < 1e-9) break;
    }
    return x;
  }

 private:
  std::size_t n_;
  std::vector<double> square_, right_;
};

std::vector<double> row_of(const Observation& o, const CostModel& model, std::size_t unknowns) {
  const CostTerms terms = predicted_terms(*o.schedule, o.nodes, model);
  std::vector<double> row(unknowns, 0);
  std::copy(terms.times.begin(), terms.times.end(), row.begin());
  const auto times = agreement_times(o.nodes);
  std::copy(times.begin(), times.end(), row.begin() + static_cast<std::ptrdiff_t>(prices + agreement_prices * o.task));
  for (double& r : row) r /= o.point->seconds;
  return row;
}

CostModel with_prices(CostModel model, const std::vector<double>& x) {
  model.alpha[0] = x[0];
  model.alpha[1] = x[1];
  model.beta[0] = x[2];
  model.beta[1] = x[3];
  model.gamma = x[4];
  model.overhead[0] = x[5];
  model.overhead[1] = x[6];
  return model;
}

struct Fitted {
  CostModel cost;
  std::vector<double> x;
  std::vector<double> errors;
  double squares = std::numeric_limits<double>::infinity();
};

Fitted fit(const std::vector<Observation>& observations, const CostModel& start, std::size_t tasks) {
  const std::size_t unknowns = prices + agreement_prices * tasks;
  // What the start says, and an agreement of one small all-reduce after a barrier: a latency for each doubling, and one between who starts first and last.
  std::vector<double> first(unknowns, 0);
  const auto known = CostTerms::prices(start);
  std::copy(known.begin(), known.end(), first.begin());
  for (std::size_t t = 0; t < tasks; ++t) {
    first[prices + agreement_prices * t] = start.alpha[0];
    first[prices + agreement_prices * t + 1] = first[prices + agreement_prices * t + 2] = start.alpha[1];
  }
  Fitted best;
  std::vector<double> x = first;
  for (int round = 0; round <= refinements; ++round) {
    const CostModel model = with_prices(start, x);
    Fitted now{model, x, {}, 0};
    NonNegative system(unknowns);
    for (const Observation& o : observations) {
      const std::vector<double> row = row_of(o, model, unknowns);
      const double error = std::inner_product(row.begin(), row.end(), x.begin(), -1.0);
      now.errors.push_back(error);
      now.squares += error * error;
      system.add(row, 1, 1);
    }
    if (now.squares < best.squares) best = now;
    for (std::size_t i = 0; i < unknowns; ++i) {
      std::vector<double> row(unknowns, 0);
      row[i] = first[i] > 0 ? 1 / first[i] : i == 4 ? 1e11 : 1e6;  // what is not known is pulled to 0: a byte added in 10 ps, a message handled in 1 us
      system.add(row, first[i] > 0 ? 1 : 0, pull);
    }
    x = system.solve(x);
  }
  return best;
}

}  // namespace

double Calibration::agreement_seconds(const std::string& task, const NodeMap& nodes) const {
  const auto found = agreement.find(task);
  if (found == agreement.end() || nodes.ranks() == 1) return 0;
  const auto times = agreement_times(nodes);
  return std::inner_product(times.begin(), times.end(), found->second.begin(), 0.0);
}

Calibration calibrate(std::span<const TimedPoint> points, const CostModel& start, const ScheduleOf& schedule_of) {
  Calibration result{start, {}, 0, 0, 0};
  std::vector<std::string> tasks;
  std::vector<Observation> observations;
  for (const TimedPoint& point : points) {
    if (point.ranks < 2 || !(point.seconds > 0)) continue;
    NodeMap nodes = NodeMap::regular(point.ranks, point.ranks_per_node);
    auto schedule = schedule_of(point.task, point.bytes, nodes);
    if (!schedule) continue;
    const auto task = static_cast<std::size_t>(std::ranges::find(tasks, point.task) - tasks.begin());
    if (task == tasks.size()) tasks.push_back(point.task);
    observations.push_back({&point, std::move(nodes), std::move(schedule), task});
  }
  if (observations.empty()) return result;
  Fitted best;
  for (const bool parallel : {false, true}) {
    for (const int rails : {0, 1}) {
      CostModel structure = start;
      structure.parallel_in_node = parallel;
      structure.rails = rails;
      Fitted fitted = fit(observations, structure, tasks.size());
      if (fitted.squares < best.squares) best = std::move(fitted);
    }
  }
  result.cost = best.cost;
  for (std::size_t t = 0; t < tasks.size(); ++t) std::copy_n(best.x.begin() + static_cast<std::ptrdiff_t>(prices + agreement_prices * t), agreement_prices, result.agreement[tasks[t]].begin());
  result.points = static_cast<int>(observations.size());
  for (double& error : best.errors) error = std::abs(error);
  result.largest_error = *std::ranges::max_element(best.errors);
  result.median_error = median_of(best.errors);
  return result;
}

}  // namespace faibench::scale
