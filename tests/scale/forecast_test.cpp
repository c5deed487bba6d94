#include "scale/forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tensor/error.h"

namespace faibench::scale {
namespace {

const CostModel two_levels{{1e-6, 5e-6}, {1e-10, 1e-9}, 0};
const Calibration priced{two_levels, {}};

/// Not a real task: S bytes of f32 summed by one algorithm.
Task summing(AllReduce algorithm) {
  Task task;
  task.name = "summing";
  MultiRank::Scaling scaling;
  scaling.schedule = [=](std::int64_t bytes, const NodeMap& nodes) { return std::shared_ptr<const Schedule>(all_reduce_schedule(algorithm, bytes / 4, nodes, 4, 4)); };
  scaling.bound = [](std::int64_t bytes, int ranks) { return all_reduce_bound(bytes, ranks); };
  task.multi_rank.emplace();
  task.multi_rank->scaling = std::move(scaling);
  return task;
}

TEST(Plan, counts_bytes_partners_and_rounds_of_65536_ranks_from_a_few) {
  const std::int64_t n = std::int64_t{1} << 20;
  const auto rows = plan(summing(AllReduce::hierarchical), n, std::vector<int>{1024, 65536}, 8, priced);
  ASSERT_EQ(rows.size(), 2u);
  for (const PlanRow& row : rows) {
    EXPECT_EQ(row.fault, "");
    EXPECT_GT(row.ranks_checked, 8);
    EXPECT_EQ(row.nodes, row.ranks / 8);
    EXPECT_EQ(row.bytes_sent[0], 2 * 7 * n / 8);
    EXPECT_EQ(row.bytes_sent[1], 2 * (row.nodes - 1) * (n / 8 / row.nodes));  // 2(M-1)/M n/L
    EXPECT_EQ(row.rounds, 2 + 2 * static_cast<int>(std::log2(row.nodes)));
    EXPECT_EQ(row.partners, 7 + static_cast<int>(std::log2(row.nodes)));
    EXPECT_EQ(row.in_degree, 7);
    EXPECT_GE(row.ratio_to_bound(), 1);
    EXPECT_FALSE(row.error().has_value());
  }
}

TEST(Plan, follows_some_messages_where_they_are_too_many) {
  const auto rows = plan(summing(AllReduce::two_shot), 1 << 20, std::vector<int>{64, 8192}, 8, priced);
  EXPECT_EQ(rows[0].ranks_checked, 64);
  EXPECT_EQ(rows[0].partners_checked, 63);
  EXPECT_TRUE(rows[0].every_clock);
  EXPECT_EQ(rows[1].partners, 8191);
  EXPECT_GT(rows[1].ranks_checked, 1);
  EXPECT_GT(rows[1].partners_checked, 8);
  EXPECT_LT(rows[1].partners_checked, 8191);
  EXPECT_FALSE(rows[1].every_clock);
  EXPECT_GE(rows[1].ratio_to_bound(), 1);
}

TEST(Plan, of_a_task_without_schedule_is_its_bound) {
  Task task = summing(AllReduce::ring);
  task.multi_rank->scaling->schedule = {};
  const auto rows = plan(task, 1 << 20, std::vector<int>{16}, 8, priced);
  EXPECT_GT(rows[0].bound_seconds, 0);
  EXPECT_EQ(rows[0].forecast_seconds, 0);
  EXPECT_EQ(rows[0].ranks_checked, 0);
}

TEST(Plan, sets_the_forecast_beside_the_simulated_point_that_matches) {
  const Simulation simulation{two_levels, {{"summing", 4096, 8, 8, 1.0}, {"summing", 4096, 16, 8, 2e-3}, {"other", 4096, 32, 8, 3.0}}};
  const auto rows = plan(summing(AllReduce::recursive_doubling), 4096, std::vector<int>{16, 32}, 8, priced, simulation);
  ASSERT_TRUE(rows[0].error().has_value());
  // 3 rounds in the node, 1 between.
  EXPECT_NEAR(rows[0].forecast_seconds, 3 * (1e-6 + 4096e-10) + 5e-6 + 4096e-9, 1e-12);
  EXPECT_NEAR(*rows[0].error(), rows[0].forecast_seconds / 2e-3 - 1, 1e-12);
  EXPECT_FALSE(rows[1].simulated_seconds.has_value());
}

TEST(Plan, refuses_tasks_without_a_scaling_form_and_impossible_numbers) {
  EXPECT_THROW(plan(Task{}, 8, std::vector<int>{2}, 1, priced), Error);
  EXPECT_THROW(plan(summing(AllReduce::ring), 8, std::vector<int>{0}, 1, priced), Error);
  EXPECT_THROW(plan(summing(AllReduce::ring), 8, std::vector<int>{2}, 0, priced), Error);
}

TEST(Simulation, reads_cost_and_points_and_names_a_file_that_is_none) {
  const std::string file = testing::TempDir() + "simulation.json";
  std::ofstream(file) << R"({"cost": {"alpha": [1e-6, 5e-6], "beta": [1e-10, 8e-11], "gamma": 0}, "points": [{"task": "t", "bytes": 64, "ranks": 1024, "ranks_per_node": 8, "seconds": 0.25}]})";
  const Simulation simulation = read_simulation(file);
  EXPECT_EQ(simulation.cost.alpha[1], 5e-6);
  ASSERT_EQ(simulation.points.size(), 1u);
  EXPECT_EQ(simulation.points[0].ranks, 1024);
  EXPECT_EQ(simulation.points[0].seconds, 0.25);
  std::ofstream(file) << R"({"cost": 3})";
  try {
    read_simulation(file);
    ADD_FAILURE() << "read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, Error::Kind::bad_input);
    EXPECT_THAT(error.what(), testing::HasSubstr(file));
  }
  EXPECT_THROW(read_simulation("/nowhere/simulation.json"), Error);
}

}  // namespace
}  // namespace faibench::scale
