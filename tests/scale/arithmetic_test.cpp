#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "scale/clock.h"
#include "scale/fit.h"
#include "scale/sizes.h"
#include "scale/statistics.h"
#include "scale/study.h"
#include "tensor/error.h"

namespace faibench::scale {
namespace {

TEST(Sizes, range_ends_at_its_end) { EXPECT_EQ(parse_sizes("1K:10K:4"), (std::vector<std::int64_t>{1024, 4096, 10240})); }
TEST(Sizes, list_is_sorted_and_each_once) { EXPECT_EQ(parse_sizes("64,8,1K,8"), (std::vector<std::int64_t>{8, 64, 1024})); }
TEST(Sizes, nonsense_is_refused) {
  for (const char* text : {"", "x", "0", "1K:2K:1", "4K:1K", "1:2:3:4", "nan", "1,,2", "-3"}) EXPECT_THROW(parse_sizes(text), Error) << text;
}
TEST(Ranks, default_has_powers_of_two_and_the_world) {
  EXPECT_EQ(parse_ranks("", 6), (std::vector<int>{1, 2, 4, 6}));
  EXPECT_THROW(parse_ranks("7", 6), Error);
}

TEST(Statistics, p99_needs_a_hundred_samples) {
  EXPECT_FALSE(summarize(std::vector<double>(99, 1.0)).p99);
  EXPECT_TRUE(summarize(std::vector<double>(100, 1.0)).p99);
}
TEST(Statistics, two_modes_are_seen) {
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) values.push_back(i % 2 ? 1.0 + 0.001 * i : 2.0 + 0.001 * i);
  EXPECT_TRUE(summarize(values).bimodal);
  EXPECT_FALSE(summarize(values).drifting);
}
TEST(Statistics, a_step_in_time_is_drift) {
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) values.push_back((i < 20 ? 1.0 : 1.2) + 0.0001 * i);
  EXPECT_TRUE(summarize(values).drifting);
}
TEST(StopRule, waits_for_samples_and_time) {
  const StopRule rule{.cap_seconds = 1};
  EXPECT_STREQ(rule.decide(std::vector<double>(29, 1e-3), 0.5), "");
  EXPECT_STREQ(rule.decide(std::vector<double>(30, 1e-3), 0.1), "");
  EXPECT_STREQ(rule.decide(std::vector<double>(30, 1e-3), 0.5), "precision");
  EXPECT_STREQ(rule.decide(std::vector<double>(3, 1e-3), 1.5), "time");
}

TEST(Fit, finds_both_pieces_of_a_broken_line) {
  std::vector<FitPoint> points;
  for (double s = 8; s < 1e7; s *= 4) points.push_back({s, s < 1e4 ? 1e-6 + 1e-9 * s : 2e-5 + 2e-10 * s});
  const Fit fit = fit_pieces(points);
  ASSERT_EQ(fit.pieces.size(), 2u);
  EXPECT_NEAR(fit.pieces[0].alpha, 1e-6, 1e-9);
  EXPECT_NEAR(fit.pieces[1].beta, 2e-10, 1e-13);
  EXPECT_LT(fit.max_residual, 1e-6);
}
TEST(Fit, forecasts_the_largest_size_without_it) {
  std::vector<FitPoint> points;
  for (double s = 8; s < 1e6; s *= 4) points.push_back({s, 1e-6 + 1e-9 * s});
  points.push_back({4e6, 8e-3});
  const auto held = forecast_largest(points);
  ASSERT_TRUE(held);
  EXPECT_NEAR(held->forecast, 1e-6 + 4e-3, 1e-6);
  EXPECT_NEAR(held->error, -0.5, 0.01);
}

ScalingRow row_of(const std::string& variant, int ranks, std::int64_t bytes, double seconds, double spread = 0.01) {
  ScalingRow row;
  row.task = "sum";
  row.variant = variant;
  row.cadence = "isolated";
  row.verdict = "passed";
  row.ranks = ranks;
  row.bytes = bytes;
  row.seconds = seconds;
  row.low = seconds * (1 - spread);
  row.high = seconds * (1 + spread);
  return row;
}
std::vector<std::string> rules(const std::vector<ScalingRow>& rows) {
  std::vector<std::string> found;
  for (const ScalingFinding& finding : findings_of(rows)) found.push_back(finding.rule);
  return found;
}
TEST(Findings, slower_than_the_library_or_a_composition) {
  EXPECT_THAT(rules({row_of("mpi", 2, 64, 2e-6), row_of("mpi_baseline", 2, 64, 1e-6)}), testing::ElementsAre("ours <= library"));
  EXPECT_THAT(rules({row_of("library:allreduce", 2, 64, 2e-6), row_of("library:reduce+broadcast", 2, 64, 1e-6)}), testing::ElementsAre("all-reduce <= reduce+broadcast"));
  EXPECT_THAT(rules({row_of("mpi", 2, 64, 2e-6), row_of("library:reduce_scatter+allgather", 2, 64, 1e-6)}), testing::ElementsAre("all-reduce <= reduce_scatter+allgather"));
}
TEST(Findings, none_of_one_rank_other_cells_equal_times_or_unsure_medians) {
  EXPECT_THAT(rules({row_of("mpi", 1, 64, 2e-6), row_of("mpi_baseline", 1, 64, 1e-6)}), testing::IsEmpty());
  EXPECT_THAT(rules({row_of("mpi", 2, 64, 2e-6), row_of("mpi_baseline", 4, 64, 1e-6)}), testing::IsEmpty());
  EXPECT_THAT(rules({row_of("mpi", 2, 64, 1.04e-6, 0), row_of("mpi_baseline", 2, 64, 1e-6, 0)}), testing::IsEmpty());
  EXPECT_THAT(rules({row_of("mpi", 2, 64, 2e-6, 0.6), row_of("mpi_baseline", 2, 64, 1e-6)}), testing::IsEmpty());
  EXPECT_THAT(rules({row_of("library:reduce+broadcast", 2, 64, 2e-6), row_of("mpi", 2, 64, 1e-6)}), testing::IsEmpty());
}
TEST(Findings, less_takes_longer) {
  EXPECT_THAT(rules({row_of("mpi", 2, 64, 2e-6), row_of("mpi", 2, 128, 1e-6)}), testing::ElementsAre("t(S) <= t(S')"));
}
TEST(Efficiency, compares_with_one_rank_and_flags_what_is_above_linear) {
  std::vector<ScalingRow> rows = {row_of("mpi", 1, 64, 4e-6), row_of("mpi", 2, 64, 1e-6), row_of("mpi", 4, 128, 1e-6)};
  add_efficiencies(rows);
  EXPECT_NEAR(rows[1].weak_efficiency, 4, 1e-12);
  EXPECT_NEAR(rows[1].strong_efficiency, 2, 1e-12);
  EXPECT_THAT(rows[1].flags, testing::ElementsAre("super_linear"));
  EXPECT_EQ(rows[2].weak_efficiency, 0);
}

TEST(Merge, makes_one_study_of_parts_each_on_its_own_number_of_ranks) {
  ScalingStudy one, two, again;
  one.rows = {row_of("mpi", 1, 64, 4e-6), row_of("mpi", 1, 128, 8e-6), row_of("mpi", 1, 256, 16e-6)};
  two.rows = {row_of("mpi", 2, 64, 2e-6), row_of("mpi", 2, 128, 1e-6)};
  for (auto* part : {&one, &two}) {
    for (ScalingRow& row : part->rows) row.key = row.variant + std::to_string(row.ranks) + "|" + std::to_string(row.bytes);
  }
  two.links.push_back({2, "node", 1, 1e-6, 1e-10, 0});
  again.rows = {one.rows[0]};
  again.rows[0].seconds = 1;
  const ScalingStudy whole = merge({one, two, again});
  ASSERT_EQ(whole.rows.size(), 5u) << "a row that is in two parts";
  EXPECT_EQ(whole.rows[0].seconds, 4e-6) << "is the first part's";
  EXPECT_NEAR(whole.rows[3].weak_efficiency, 2, 1e-12);
  EXPECT_NEAR(whole.rows[4].strong_efficiency, 4, 1e-12);
  EXPECT_EQ(whole.fits.size(), 1u) << "three sizes on one rank, two on two";
  EXPECT_EQ(whole.findings.size(), 1u) << "64 B take longer than 128 B";
  EXPECT_EQ(whole.links.size(), 1u);
}

TEST(Clock, fastest_round_trip_tells_the_offset) {
  const RoundTrip trips[] = {{0, 10.9, 1}, {2, 12.05, 2.1}};
  const Offset offset = offset_of(trips);
  EXPECT_NEAR(offset.seconds, 10, 1e-9);
  EXPECT_NEAR(offset.error, 0.05, 1e-9);
}
TEST(Clock, drift_is_followed_and_undone) {
  std::vector<Offset> offsets;
  for (int i = 0; i < 5; ++i) offsets.push_back({100.0 + i, 5 + 1e-5 * i, 1e-6});
  const GlobalClock clock = fit_clock(offsets);
  EXPECT_NEAR(clock.drift, 1e-5, 1e-9);
  EXPECT_NEAR(clock.own(clock.global(200.0)), 200.0, 1e-9);
  EXPECT_NEAR(clock.error, 1e-6, 1e-9);
}

}  // namespace
}  // namespace faibench::scale
