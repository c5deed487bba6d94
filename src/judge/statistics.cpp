#include "judge/statistics.h"

#include <algorithm>
#include <cmath>

#include "tensor/random.h"

namespace faibench {
namespace {

double median_in_place(std::vector<double>& values) {
  if (values.empty()) return 0;
  const std::size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle), values.end());
  const double upper = values[middle];
  if (values.size() % 2 == 1) return upper;
  return (*std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle)) + upper) / 2;
}

// Largest k such that the k-th smallest and k-th largest of n values enclose the median with at least 98%: P(Binomial(n, 1/2) < k) <= 1%.
std::size_t order_rank(std::size_t n) {
  double probability = std::pow(0.5, static_cast<double>(std::min<std::size_t>(n, 1000))), below = 0;
  if (n > 1000) return static_cast<std::size_t>(static_cast<double>(n) / 2 - 1.17 * std::sqrt(static_cast<double>(n)));
  std::size_t k = 0;
  for (; k < n / 2; ++k) {
    below += probability;
    if (below > 0.01) break;
    probability = probability * static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  return std::max<std::size_t>(k, 1);
}

}  // namespace

double median(std::span<const double> values) {
  std::vector<double> copy(values.begin(), values.end());
  return median_in_place(copy);
}

Interval order_interval(std::span<const double> values) {
  if (values.empty()) return {};
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t k = order_rank(sorted.size());
  return {median(values), sorted[k - 1], sorted[sorted.size() - k]};
}

Interval median_interval(std::span<const double> values, std::uint64_t seed) {
  Interval interval = order_interval(values);
  if (values.size() < 2) return interval;
  constexpr int resamples = 10000;
  Random random("bootstrap", "median", seed, 0);
  std::vector<double> medians(resamples), draw(values.size());
  for (double& m : medians) {
    for (double& d : draw) d = values[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(values.size())))];
    m = median_in_place(draw);
  }
  std::sort(medians.begin(), medians.end());
  interval.low = std::min(interval.low, medians[static_cast<std::size_t>(0.025 * resamples)]);
  interval.high = std::max(interval.high, medians[static_cast<std::size_t>(0.975 * resamples) - 1]);
  return interval;
}

Interval widened(Interval interval, double share) {
  interval.low *= 1 - share;
  interval.high *= 1 + share;
  return interval;
}

double resolution(double noise_floor) { return std::clamp(noise_floor, 0.01, 0.05); }

std::vector<bool> outliers(std::span<const double> values) {
  const double middle = median(values);
  std::vector<double> distances;
  for (double v : values) distances.push_back(std::abs(v - middle));
  const double mad = median(distances);
  std::vector<bool> flagged;
  for (double d : distances) flagged.push_back(mad > 0 && 0.6745 * d / mad > 10);
  return flagged;
}

double log_score(double speedup_low, double anchor) {
  if (!(speedup_low > 0) || !(anchor > 1)) return 0;
  return std::clamp(std::log(speedup_low) / std::log(anchor) - 1, 0.0, 1.0);
}

const char* StopRule::decide(std::span<const double> ratios, double elapsed_seconds, std::uint64_t seed) const {
  const int blocks = static_cast<int>(ratios.size());
  if (blocks < min_blocks) return "";
  if (blocks >= max_blocks) return "blocks";
  if (blocks >= min_blocks_for_precision && order_interval(ratios).relative_half_width() < precision && median_interval(ratios, seed).relative_half_width() < precision)
    return "precision";
  if (elapsed_seconds < budget_seconds) return "";
  const bool useful = order_interval(ratios).relative_half_width() < useful_precision;
  return useful || elapsed_seconds >= patience * budget_seconds ? "budget" : "";
}

}  // namespace faibench
