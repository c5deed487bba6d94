#include "judge/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tensor/random.h"

namespace faibench {
namespace {

TEST(Median, of_nothing_is_zero) { EXPECT_EQ(median({}), 0); }
TEST(Median, of_an_odd_count_is_the_middle) { EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2); }
TEST(Median, of_an_even_count_is_the_mean_of_two) { EXPECT_EQ(median(std::vector<double>{4, 1, 3, 2}), 2.5); }

// Ranks from tables of the binomial distribution, 1% on either side.
struct Rank {
  int n, k;
};
TEST(OrderInterval, uses_the_exact_ranks) {
  for (const Rank r : {Rank{7, 1}, Rank{9, 1}, Rank{12, 2}, Rank{20, 5}, Rank{30, 9}}) {
    std::vector<double> values;
    for (int i = 1; i <= r.n; ++i) values.push_back(i);
    EXPECT_EQ(order_interval(values).low, r.k) << r.n;
    EXPECT_EQ(order_interval(values).high, r.n + 1 - r.k) << r.n;
  }
}

TEST(MedianInterval, of_equal_values_has_no_width) {
  const Interval i = median_interval(std::vector<double>(10, 2.5), 1);
  EXPECT_EQ(i.low, 2.5);
  EXPECT_EQ(i.high, 2.5);
}

TEST(MedianInterval, is_the_same_for_the_same_seed) {
  Random random("t", "w", 1, 0);
  std::vector<double> values;
  for (int i = 0; i < 25; ++i) values.push_back(random.normal());
  EXPECT_EQ(median_interval(values, 7).low, median_interval(values, 7).low);
}

// The promise that scores rest on: at least 95% of intervals contain the truth, skewed noise and an early stop included.
TEST(MedianInterval, covers_the_true_median_also_when_stopped_by_the_rule) {
  StopRule rule;
  rule.budget_seconds = 60;
  int covered = 0;
  constexpr int runs = 200;
  for (int run = 0; run < runs; ++run) {
    Random random("coverage", "w", 1, static_cast<std::uint64_t>(run));
    std::vector<double> ratios;
    while (*rule.decide(ratios, static_cast<double>(ratios.size()), 1) == 0) ratios.push_back(std::exp(0.02 * (random.exponential() - random.exponential())));  // median 1
    const Interval i = median_interval(ratios, static_cast<std::uint64_t>(run));
    covered += i.low <= 1 && 1 <= i.high;
  }
  EXPECT_GE(covered, runs * 95 / 100);
}

TEST(Widened, moves_both_ends_out) {
  const Interval i = widened({2, 1, 4}, 0.25);
  EXPECT_EQ(i.median, 2);
  EXPECT_EQ(i.low, 0.75);
  EXPECT_EQ(i.high, 5);
}

TEST(Resolution, is_the_noise_floor_within_bounds) {
  EXPECT_EQ(resolution(0), 0.01);
  EXPECT_EQ(resolution(0.02), 0.02);
  EXPECT_EQ(resolution(0.5), 0.05);
}

TEST(Outliers, flags_the_far_one_only) {
  std::vector<double> values{1, 1.01, 0.99, 1.02, 0.98, 9};
  const std::vector<bool> far = outliers(values);
  EXPECT_EQ(std::count(far.begin(), far.end(), true), 1);
  EXPECT_TRUE(far.back());
}

TEST(LogScore, is_zero_at_the_anchor_and_one_at_its_square) {
  EXPECT_EQ(log_score(4, 4), 0);
  EXPECT_DOUBLE_EQ(log_score(16, 4), 1);
  EXPECT_DOUBLE_EQ(log_score(8, 4), 0.5);
  EXPECT_EQ(log_score(1000, 4), 1);
  EXPECT_EQ(log_score(0.5, 4), 0);
  EXPECT_EQ(log_score(0, 4), 0);
  EXPECT_EQ(log_score(std::nan(""), 4), 0);
}

TEST(StopRule, needs_enough_blocks_even_past_the_budget) {
  const StopRule rule;
  EXPECT_STREQ(rule.decide(std::vector<double>(6, 1.0), 1000, 1), "");
  EXPECT_STREQ(rule.decide(std::vector<double>(7, 1.0), 1000, 1), "budget");
}
TEST(StopRule, stops_when_precise) { EXPECT_STREQ(StopRule().decide(std::vector<double>(12, 1.0), 0, 1), "precision"); }
TEST(StopRule, goes_on_while_imprecise_and_in_budget) {
  std::vector<double> wide;
  for (int i = 0; i < 20; ++i) wide.push_back(1 + 0.1 * i);
  EXPECT_STREQ(StopRule().decide(wide, 1, 1), "");
}

}  // namespace
}  // namespace faibench
