// What is said of a series of times of the slowest rank, and when there are enough of them. Pure functions of numbers.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace faibench::scale {

/// Of fewer no two hold the median between them with 95%: there is no interval, and one sample alone would look exact.
inline constexpr std::int64_t samples_of_an_interval = 6;

struct Summary {
  std::int64_t count = 0;
  double median = 0, low = 0, high = 0;  ///< 95% interval by order statistics: ranks n/2 -+ 0.98 sqrt(n); all samples below 6
  double p90 = 0, min = 0, max = 0;
  std::optional<double> p99;             ///< refused below 100 samples
  double dispersion = 0;                 ///< 1.4826 MAD / median
  double outlier_share = 0;              ///< samples above median + 5 * 1.4826 MAD; never dropped
  std::int64_t bursts = 0;               ///< groups of at least two outliers less than 100 ms apart
  bool bimodal = false;                  ///< the widest gap of the sorted samples is > 25% of the median, with >= 10% of the samples on both sides
  double modes[2] = {0, 0};              ///< medians of both sides where bimodal
  bool drifting = false;                 ///< first and second half differ by the rank-sum test (|z| > 3.3) and their medians by 5%
};
/// `clock`: when each sample was taken, in seconds; may be empty (then no bursts are looked for).
Summary summarize(std::span<const double> seconds, std::span<const double> clock = {});

/// Half of the interval over the median.
double relative_half_width(const Summary& summary);

struct StopRule {
  double cap_seconds = 2;           ///< wall time of the cell
  double precision = 0.02;          ///< relative half-width
  double precision_below_10us = 0.05;
  std::int64_t min_samples = 30;
  double min_seconds = 0.2;
  std::int64_t max_samples = 20000;
  /// "" to go on, else "precision", "time" or "samples". `elapsed`: of the cell, a number all ranks have agreed on.
  [[nodiscard]] const char* decide(std::span<const double> seconds, double elapsed) const;
};

/// Warm-up is over when the median of the last third is within 10% of the one before it, after at least 6 calls.
bool warmed_up(std::span<const double> seconds);

/// The `q`-quantile of a sorted series, nearest rank.
double quantile(std::span<const double> sorted, double q);
double median_of(std::vector<double> values);

}  // namespace faibench::scale
