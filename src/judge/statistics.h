// What is said of a set of timed blocks. Pure functions of numbers.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace faibench {

/// Middle value; the mean of the two middle ones for an even count; 0 for none.
double median(std::span<const double> values);

struct Interval {
  double median = 0;
  double low = 0, high = 0;
  /// Half of its width over the median: the precision that the stop rule looks at.
  [[nodiscard]] double relative_half_width() const { return median > 0 ? (high - low) / 2 / median : 0; }
};

/// 98% interval of the median by order statistics (exact for independent blocks; the extremes below seven blocks). Not 95%: blocks are drawn until the
/// interval is narrow, and a rule that stops on luck makes a nominal 95% contain the truth in 93% of runs (tests/judge/statistics_test.cpp).
Interval order_interval(std::span<const double> values);

/// 95% interval of the median: the hull of the bootstrap's percentiles (10,000 resamples of whole blocks, drawn from `seed`)
/// and order_interval, so that few blocks and an early stop do not make it too narrow.
Interval median_interval(std::span<const double> values, std::uint64_t seed);

/// The interval with both ends moved out by `share` of themselves.
Interval widened(Interval interval, double share);

/// What blocks cannot average out: baseline and candidate are two processes, and two processes that run the same code on the same inputs differ by up to
/// 1% for as long as they live (where their pages lie). 40 runs of the baseline against itself missed 1 in 4 of 35 intervals without it, in none with it.
/// The node's measured A/A half-width where that is larger, up to 5%.
double resolution(double noise_floor);

/// Blocks whose modified z-score (0.6745 |x - median| / MAD, Iglewicz and Hoaglin) is above 10.
std::vector<bool> outliers(std::span<const double> values);

/// min(1, max(0, ln(s)/ln(anchor) - 1)); 0 for s <= 0 or an anchor <= 1.
double log_score(double speedup_low, double anchor);

/// When to stop drawing blocks.
struct StopRule {
  double precision = 0.01;       ///< relative half-width of the interval
  double budget_seconds = 10;    ///< wall time of the counted blocks
  double useful_precision = 0.25;  ///< an interval wider than this at the end of the budget gets more time,
  double patience = 3;             ///< up to this many budgets
  int min_blocks = 7;            ///< also past the budget: the extremes of fewer blocks enclose the median too seldom
  int min_blocks_for_precision = 12;  ///< a narrow interval of fewer blocks may be luck
  int max_blocks = 300;
  /// "" to go on, else "precision", "budget" or "blocks".
  [[nodiscard]] const char* decide(std::span<const double> ratios, double elapsed_seconds, std::uint64_t seed) const;
};

}  // namespace faibench
