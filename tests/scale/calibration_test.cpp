// Prices fitted to few ranks must forecast many: against 1,024 simulated ranks, and against times made of known prices.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "scale/forecast.h"

namespace faibench::scale {
namespace {

std::string source(const std::string& file) { return std::string(std::getenv("FAIBENCH_SOURCE")) + "/tests/scale/" + file; }

/// What was simulated: collectives that differ in rounds, messages and bytes.
std::shared_ptr<const Schedule> schedule_of(const std::string& collective, std::int64_t bytes, const NodeMap& nodes) {
  if (collective == "doubling") return all_reduce_schedule(AllReduce::recursive_doubling, bytes / 8, nodes, 8, 8);
  if (collective == "hierarchical") return all_reduce_schedule(nodes.nodes() > 1 ? AllReduce::hierarchical : AllReduce::two_shot, bytes / 2, nodes, 2, 4);
  if (collective == "one-shot") return all_reduce_schedule(AllReduce::one_shot, bytes / 2, nodes, 2, 4);
  if (collective != "gather") return nullptr;
  const std::int64_t own = bytes / 32 + 4 * ((bytes + 16383) / 16384);
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(nodes.ranks()), own);
  return all_gather_schedule(own < 4096 ? AllGather::log_step : AllGather::direct, counts, nodes, 1);
}

TEST(Calibration, on_up_to_64_simulated_ranks_forecasts_256_and_1024_within_15_percent) {
  const Simulation simulation = read_simulation(source("simulated.json"));
  std::vector<TimedPoint> few;
  int held_out = 0;
  for (const TimedPoint& point : simulation.points)
    if (point.ranks <= simulation.calibrate_up_to) few.push_back(point);
  const Calibration prices = calibrate(few, simulation.cost, schedule_of);
  EXPECT_EQ(prices.points, static_cast<int>(few.size()));
  EXPECT_LT(prices.median_error, 0.05);
  // The platform's: 12.5 GB/s, one link a node; in a node every message has a link of its own.
  EXPECT_TRUE(prices.cost.parallel_in_node);
  EXPECT_EQ(prices.cost.rails, 1);
  EXPECT_NEAR(1 / prices.cost.beta[1], 12.5e9, 1.25e9);
  EXPECT_NEAR(1 / prices.cost.beta[0], 10e9, 1e9);
  for (const TimedPoint& point : simulation.points) {
    if (point.ranks <= simulation.calibrate_up_to) continue;
    ++held_out;
    const NodeMap nodes = NodeMap::regular(point.ranks, point.ranks_per_node);
    const double forecast = prices.agreement_seconds(point.task, nodes) + predicted_seconds(*schedule_of(point.task, point.bytes, nodes), nodes, prices.cost);
    // Over 1,024 ranks the long messages of an all-gather by doubling distances wait for one another's links, which few ranks do not show.
    const double tolerance = point.task == "gather" && point.ranks == 1024 ? 0.25 : 0.15;
    EXPECT_NEAR(forecast / point.seconds, 1, tolerance) << point.task << " of " << point.bytes << " bytes on " << point.ranks << " ranks: " << 1e6 * forecast << " us, simulated " << 1e6 * point.seconds;
  }
  EXPECT_GT(held_out, 15);
}

TEST(Calibration, finds_the_prices_that_times_were_made_of) {
  CostModel truth{{2e-6, 7e-6}, {5e-11, 2e-10}, 0, {3e-7, 8e-7}};
  truth.rails = 1;
  std::vector<TimedPoint> points;
  for (const int ranks : {4, 8, 16, 32})
    for (const std::int64_t bytes : {std::int64_t{1024}, std::int64_t{65536}, std::int64_t{1048576}})
      for (const char* collective : {"doubling", "hierarchical", "gather"}) {
        const NodeMap nodes = NodeMap::regular(ranks, 8);
        const double agreement = 1.5e-6 * std::log2(std::min(ranks, 8)) + 6e-6 * std::log2(nodes.nodes());
        points.push_back({collective, bytes, ranks, 8, agreement + predicted_seconds(*schedule_of(collective, bytes, nodes), nodes, truth)});
      }
  const Calibration prices = calibrate(points, CostModel{{1e-6, 5e-6}, {1e-10, 8e-11}}, schedule_of);
  EXPECT_LT(prices.largest_error, 0.05);
  EXPECT_EQ(prices.cost.rails, 1);
  EXPECT_FALSE(prices.cost.parallel_in_node);
  EXPECT_NEAR(prices.cost.beta[1], truth.beta[1], 0.1 * truth.beta[1]);
  const NodeMap many = NodeMap::regular(512, 8);
  const auto schedule = schedule_of("doubling", 262144, many);
  EXPECT_NEAR(predicted_seconds(*schedule, many, prices.cost) / predicted_seconds(*schedule, many, truth), 1, 0.1);
}

TEST(Calibration, without_points_is_what_was_stated) {
  const CostModel stated{{1e-6, 5e-6}, {1e-10, 8e-11}};
  const Calibration prices = calibrate({}, stated, schedule_of);
  EXPECT_EQ(prices.points, 0);
  EXPECT_EQ(prices.cost.alpha[1], stated.alpha[1]);
  EXPECT_EQ(prices.agreement_seconds("doubling", NodeMap::regular(16, 8)), 0);
}

}  // namespace
}  // namespace faibench::scale
