#include "scale/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace faibench::scale {
namespace {

constexpr double burst_seconds = 0.1;

double mad(std::span<const double> values, double median) {
  std::vector<double> distances;
  distances.reserve(values.size());
  for (double v : values) distances.push_back(std::abs(v - median));
  return median_of(std::move(distances));
}

void find_bursts(std::span<const double> seconds, std::span<const double> clock, double limit, Summary& summary) {
  double last = -1e300;
  bool inside = false;
  for (std::size_t i = 0; i < seconds.size() && i < clock.size(); ++i) {
    if (seconds[i] <= limit) continue;
    const bool near = clock[i] - last < burst_seconds;
    if (near && !inside) ++summary.bursts;
    inside = near;
    last = clock[i];
  }
}

void find_modes(std::span<const double> sorted, Summary& summary) {
  const std::size_t n = sorted.size(), margin = std::max<std::size_t>(1, (n + 9) / 10);
  if (n < 20) return;
  std::size_t at = 0;
  double widest = 0;
  for (std::size_t i = margin; i + margin <= n; ++i) {
    if (sorted[i] - sorted[i - 1] > widest) {
      widest = sorted[i] - sorted[i - 1];
      at = i;
    }
  }
  if (widest <= 0.25 * summary.median) return;
  summary.bimodal = true;
  summary.modes[0] = quantile(sorted.first(at), 0.5);
  summary.modes[1] = quantile(sorted.subspan(at), 0.5);
}

// Wilcoxon's rank-sum of both halves, by its normal approximation with mid-ranks.
void find_drift(std::span<const double> seconds, Summary& summary) {
  const std::size_t n = seconds.size(), half = n / 2;
  if (n < 20) return;
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return seconds[a] < seconds[b]; });
  double sum = 0;
  for (std::size_t i = 0; i < n;) {
    std::size_t end = i;
    while (end < n && seconds[order[end]] == seconds[order[i]]) ++end;
    for (std::size_t k = i; k < end; ++k) {
      if (order[k] < half) sum += (static_cast<double>(i + end) + 1) / 2;
    }
    i = end;
  }
  const auto a = static_cast<double>(half), b = static_cast<double>(n - half);
  const double z = (sum - a * (a + b + 1) / 2) / std::sqrt(a * b * (a + b + 1) / 12);
  const double first = median_of({seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(half)}), second = median_of({seconds.begin() + static_cast<std::ptrdiff_t>(half), seconds.end()});
  summary.drifting = std::abs(z) > 3.3 && std::abs(first - second) > 0.05 * summary.median;
}

}  // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const std::size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle), values.end());
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle] + *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle))) / 2;
}

double quantile(std::span<const double> sorted, double q) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<std::int64_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[static_cast<std::size_t>(std::clamp<std::int64_t>(rank - 1, 0, static_cast<std::int64_t>(sorted.size()) - 1))];
}

Summary summarize(std::span<const double> seconds, std::span<const double> clock) {
  Summary summary;
  summary.count = static_cast<std::int64_t>(seconds.size());
  if (seconds.empty()) return summary;
  std::vector<double> sorted(seconds.begin(), seconds.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  summary.median = n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
  summary.min = sorted.front();
  summary.max = sorted.back();
  summary.p90 = quantile(sorted, 0.9);
  if (n >= 100) summary.p99 = quantile(sorted, 0.99);
  summary.low = sorted.front();
  summary.high = sorted.back();
  if (n >= static_cast<std::size_t>(samples_of_an_interval)) {
    const double half = static_cast<double>(n) / 2, step = 0.98 * std::sqrt(static_cast<double>(n));
    summary.low = sorted[static_cast<std::size_t>(std::max(0.0, std::floor(half - step)))];
    summary.high = sorted[std::min(n - 1, static_cast<std::size_t>(std::ceil(half + step)))];
  }
  const double spread = 1.4826 * mad(sorted, summary.median), limit = summary.median + 5 * spread;
  summary.dispersion = summary.median > 0 ? spread / summary.median : 0;
  summary.outlier_share = static_cast<double>(std::count_if(sorted.begin(), sorted.end(), [&](double s) { return s > limit; })) / static_cast<double>(n);
  find_bursts(seconds, clock, limit, summary);
  find_modes(sorted, summary);
  find_drift(seconds, summary);
  return summary;
}

double relative_half_width(const Summary& summary) { return summary.median > 0 ? (summary.high - summary.low) / 2 / summary.median : 0; }

const char* StopRule::decide(std::span<const double> seconds, double elapsed) const {
  const auto n = static_cast<std::int64_t>(seconds.size());
  if (n >= max_samples) return "samples";
  // The order statistics are looked at rarely: sorting at every sample would cost more than short samples.
  if (n >= min_samples && elapsed >= min_seconds && (n % 16 == 0 || n < 64)) {
    const Summary summary = summarize(seconds);
    if (relative_half_width(summary) <= (summary.median < 1e-5 ? precision_below_10us : precision)) return "precision";
  }
  return elapsed >= cap_seconds ? "time" : "";
}

bool warmed_up(std::span<const double> seconds) {
  if (seconds.size() < 6) return false;
  const std::size_t third = seconds.size() / 3;
  const auto last = seconds.last(third), before = seconds.last(2 * third).first(third);
  const double a = median_of({last.begin(), last.end()}), b = median_of({before.begin(), before.end()});
  return std::abs(a - b) <= 0.1 * b;
}

}  // namespace faibench::scale
