#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "scale/clock.h"
#include "scale/fit.h"
#include "scale/sizes.h"
#include "scale/statistics.h"
#include "scale/study.h"
#include "scale/visits.h"
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

TEST(Fit, finds_the_pieces_of_a_broken_line) {
  std::vector<FitPoint> points;
  const auto seconds = [](double s) { return s < 4096 ? 1e-6 + 1e-10 * s : s < 262144 ? 5e-7 + 2.2e-10 * s : 5e-7 + 2.2e-10 * 262144 + (s - 262144) * 2.2e-10; };
  for (double s = 8; s < 2e7; s *= 2) points.push_back({s, seconds(s)});
  const Fit fit = fit_pieces(points);
  ASSERT_GE(fit.pieces.size(), 2u);
  EXPECT_LT(fit.max_residual, 0.02);
  EXPECT_NEAR(fit.pieces[0].alpha, 1e-6, 1e-8);
  EXPECT_NEAR(fit.pieces.back().beta, 2.2e-10, 2e-12);
  for (std::size_t i = 1; i < fit.pieces.size(); ++i) {
    const Piece &left = fit.pieces[i - 1], &right = fit.pieces[i];
    EXPECT_EQ(left.to_bytes, right.from_bytes);
    EXPECT_NEAR((left.alpha + left.beta * left.to_bytes) / (right.alpha + right.beta * right.from_bytes), 1, 1e-9) << "pieces do not meet";
  }
}
TEST(Fit, of_a_straight_line_is_one_piece_and_no_price_is_negative) {
  std::vector<FitPoint> line, falling;
  for (double s = 8; s < 2e7; s *= 4) {
    line.push_back({s, 1e-6 + 1e-10 * s});
    falling.push_back({s, 1e-3 - 4e-11 * s});
  }
  const Fit fit = fit_pieces(line);
  ASSERT_EQ(fit.pieces.size(), 1u);
  EXPECT_NEAR(fit.pieces[0].alpha, 1e-6, 1e-11);
  EXPECT_NEAR(fit.pieces[0].beta, 1e-10, 1e-14);
  for (const Piece& piece : fit_pieces(falling).pieces) {
    EXPECT_GE(piece.alpha, 0);
    EXPECT_GE(piece.beta, 0);
  }
}
TEST(Fit, one_disturbed_size_does_not_bend_the_others) {
  std::vector<FitPoint> points;
  for (double s = 8; s < 2e7; s *= 2) points.push_back({s, 1e-6 + 1e-10 * s});
  points[12].seconds *= 3;
  const Fit fit = fit_pieces(points, 1);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i != 12) {
      EXPECT_NEAR(fit.residuals[i], 0, 0.05) << points[i].bytes;
    }
  }
}
TEST(LeftOut, every_size_from_4_kib_is_forecast_and_one_in_the_middle_named) {
  std::vector<FitPoint> points;
  for (double s = 64; s < 2e7; s *= 4) points.push_back({s, 1e-6 + 1e-10 * s});
  const auto all = leave_one_out(points);
  ASSERT_EQ(all.size(), 7u);  // 4 KiB to 4 MiB inside, 16 MiB beyond
  int named = 0;
  for (const LeftOut& out : all) {
    EXPECT_GE(out.point.bytes, 4096);
    EXPECT_NEAR(out.error, 0, 0.02) << out.point.bytes;
    EXPECT_EQ(out.beyond, &out == &all.back());
    named += out.named ? 1 : 0;
  }
  EXPECT_EQ(named, 1);
  EXPECT_TRUE(leave_one_out(std::span(points).first(3)).empty());
}

ScalingRow row_of(const std::string& variant, int ranks, std::int64_t bytes, double seconds, double spread = 0.01) {
  ScalingRow row;
  row.task = "sum";
  row.variant = variant;
  row.cadence = "isolated";
  row.verdict = "passed";
  row.ranks = ranks;
  row.bytes = bytes;
  row.samples = 30;
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
TEST(Findings, elements_of_another_width_and_oversubscribed_ranks_are_not_compared) {
  auto ours = row_of("mpi", 2, 64, 2e-5), library = row_of("library:reduce+broadcast", 2, 64, 1e-5);
  ours.element = "bf16";
  library.element = "f32";
  EXPECT_THAT(rules({ours, library}), testing::IsEmpty());
  ours.element = "f32";
  EXPECT_THAT(rules({ours, library}), testing::ElementsAre("all-reduce <= reduce+broadcast"));
  ours.oversubscribed = true;
  EXPECT_THAT(rules({ours, library}), testing::IsEmpty());
}
TEST(Findings, of_too_few_samples_are_none) {
  auto ours = row_of("mpi", 2, 64, 2e-4), library = row_of("mpi_baseline", 2, 64, 1e-4);
  library.samples = 2;
  EXPECT_THAT(rules({ours, library}), testing::IsEmpty());
}
TEST(Findings, of_short_calls_need_a_wider_margin) {
  EXPECT_THAT(rules({row_of("mpi", 2, 64, 1.2e-6), row_of("mpi_baseline", 2, 64, 1e-6)}), testing::IsEmpty());
  EXPECT_THAT(rules({row_of("mpi", 2, 64, 1.2e-4), row_of("mpi_baseline", 2, 64, 1e-4)}), testing::ElementsAre("ours <= library"));
}
TEST(Findings, splitting_and_fewer_ranks) {
  EXPECT_THAT(rules({row_of("mpi", 2, 64, 1e-5), row_of("mpi", 2, 128, 3e-5)}), testing::ElementsAre("t(kS) <= k t(S)"));
  EXPECT_THAT(rules({row_of("mpi", 2, 64, 3e-5), row_of("mpi", 4, 64, 2e-5)}), testing::ElementsAre("t over P' ranks <= t over P ranks"));
  EXPECT_THAT(rules({row_of("library:allgather", 2, 64, 3e-5), row_of("library:gather+broadcast", 2, 64, 2e-5)}), testing::ElementsAre("all-gather <= gather+broadcast"));
}
TEST(Findings, are_grouped_with_the_worst_of_them) {
  std::vector<ScalingRow> rows;
  for (std::int64_t bytes : {64, 128, 256}) {
    rows.push_back(row_of("mpi", 2, bytes, bytes == 128 ? 4e-5 + 1e-8 : bytes == 64 ? 2e-5 : 5e-5));
    rows.push_back(row_of("mpi_baseline", 2, bytes, bytes == 128 ? 1e-5 : bytes == 64 ? 1e-5 : 6e-5));
  }
  const auto findings = findings_of(rows);
  std::vector<ScalingFinding> library;
  for (const ScalingFinding& f : findings)
    if (f.rule == "ours <= library") library.push_back(f);
  ASSERT_EQ(library.size(), 2u);
  const auto lines = grouped_text(library);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], testing::AllOf(testing::HasSubstr("at 2 of 3 cells"), testing::HasSubstr("worst 4.0x at 128 B"), testing::HasSubstr("40.01 us against 10.00 us")));
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

TEST(Table, says_nothing_of_the_width_of_an_interval_that_few_samples_cannot_give) {
  ScalingStudy study;
  study.rows = {row_of("mpi", 1, 64, 2e-6)};
  study.rows[0].low = 1.9e-6;
  study.rows[0].high = 2.1e-6;
  study.rows[0].samples = 1;
  EXPECT_EQ(table_text(study).find(" 5.0 "), std::string::npos);
  study.rows[0].samples = 6;
  EXPECT_NE(table_text(study).find(" 5.0 "), std::string::npos);
}

ScalingRow visit_of(int visit, double seconds, std::vector<double> samples) {
  ScalingRow row = row_of("mpi", 1, 64, seconds);
  row.key = visit_key("cell", visit);
  row.samples = static_cast<std::int64_t>(samples.size());
  row.enter = {std::vector<double>(samples.size(), 0)};
  row.exit = {std::move(samples)};
  return row;
}
TEST(Visits, median_is_that_of_the_visits_and_the_interval_reaches_over_all) {
  const auto rows = cells_of_visits({visit_of(0, 1e-5, {1e-5, 1e-5}), visit_of(1, 2e-5, {2e-5}), visit_of(2, 1.1e-5, {1.1e-5, 9e-6})});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].key, "cell");
  EXPECT_EQ(rows[0].seconds, 1.1e-5);
  EXPECT_EQ(rows[0].low, 1e-5 * 0.99);
  EXPECT_EQ(rows[0].high, 2e-5 * 1.01);
  EXPECT_EQ(rows[0].visits, 3);
  EXPECT_NEAR(rows[0].visit_spread, 2, 1e-12);
  EXPECT_EQ(rows[0].samples, 5);
  EXPECT_EQ(rows[0].p90, 2e-5);
  EXPECT_EQ(rows[0].exit[0].size(), 5u);
}
TEST(Visits, in_which_ranks_lost_their_cores_are_left_out_where_others_tell) {
  auto lost = visit_of(1, 5e-3, {5e-3, 6e-3});
  lost.flags = {"lost_turns:90%"};
  const auto row = cells_of_visits({lost, visit_of(0, 1e-5, {1e-5})})[0];
  EXPECT_EQ(row.seconds, 1e-5);
  EXPECT_EQ(row.invalid, 2);
  EXPECT_TRUE(row.flags.empty());
  EXPECT_EQ(cells_of_visits({lost})[0].seconds, 5e-3);
}
TEST(Visits, one_wrong_makes_the_cell_wrong_and_a_late_one_is_left_out) {
  auto late = visit_of(1, 0, {}), bad = visit_of(2, 0, {});
  late.verdict = "late";
  bad.verdict = "wrong";
  EXPECT_EQ(cells_of_visits({visit_of(0, 1e-5, {1e-5}), late})[0].verdict, "passed");
  EXPECT_EQ(cells_of_visits({visit_of(0, 1e-5, {1e-5}), late, bad})[0].verdict, "wrong");
  EXPECT_EQ(cells_of_visits({late})[0].verdict, "late");
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
