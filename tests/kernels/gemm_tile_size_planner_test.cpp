#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "kernels/task_harness.h"

namespace faibench {
namespace {

using namespace testing_support;
using Values = std::vector<std::int64_t>;

const Task& task() { return *find_task("gemm_tile_size_planner"); }

TensorMap workload(const char* name, std::uint64_t repetition) {
  Random random(task().name, name, 1, repetition);
  return task().find_workload(name)->parts[0](random);
}

TensorMap outputs_of(const TensorMap& inputs, std::string_view variant) { return run_kernel(task().contract, variant_of(task(), variant).kernel, refs(inputs)); }

Values plans_of(const TensorMap& inputs, std::string_view variant) {
  const TensorMap outputs = outputs_of(inputs, variant);
  const auto tiles = outputs.at("tiles").flat<const std::int64_t>();
  return {tiles.begin(), tiles.end()};
}

TensorMap tiles(const Values& values) {
  TensorMap outputs;
  outputs.add("tiles", Tensor::of<std::int64_t>({static_cast<std::int64_t>(values.size()) / 3, 3}, values));
  return outputs;
}

GateResult judge(const TensorMap& inputs, const Values& values) { return task().gate.check({refs(inputs), refs(tiles(values)), TensorRefMap(), {}, false}); }

double mean_traffic(const TensorMap& inputs, const Values& values) { return task().metric.objective(refs(inputs), refs(tiles(values))); }

/// One task, `t` [m, n, k].
TensorMap one(std::array<std::int64_t, 3> problem, std::int32_t elem_bytes, std::array<Values, 3> lists, std::int64_t buffer) {
  TensorMap in;
  in.add("problem", Tensor::of<std::int64_t>({1, 3}, {problem[0], problem[1], problem[2]}));
  in.add("elem_bytes", Tensor::of<std::int32_t>({1}, {elem_bytes}));
  constexpr const char* axes[] = {"tm", "tn", "tk"};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t count = static_cast<std::int64_t>(lists[axis].size());
    in.add(std::string(axes[axis]) + "_cand", Tensor::of<std::int64_t>({count}, lists[axis]));
    in.add(std::string(axes[axis]) + "_offsets", Tensor::of<std::int64_t>({2}, {0, count}));
  }
  in.add("buffer_bytes", Tensor::scalar(buffer));
  return in;
}

/// Loads of the loop nest counted one after another: what rule 3 of the contract means.
std::int64_t counted_traffic(std::array<std::int64_t, 3> problem, std::array<std::int64_t, 3> t) {
  const auto [M, N, K] = problem;
  const auto count = [](std::int64_t x, std::int64_t tile) { return (x + tile - 1) / tile; };
  const auto width = [](std::int64_t x, std::int64_t tile, std::int64_t index) { return std::min(tile, x - index * tile); };
  std::int64_t moved = 0, a_at[2] = {-1, -1}, b_at[2] = {-1, -1};
  for (std::int64_t m = 0; m < count(M, t[0]); ++m)
    for (std::int64_t n = 0; n < count(N, t[1]); ++n) {
      for (std::int64_t k = 0; k < count(K, t[2]); ++k) {
        if (a_at[0] != m || a_at[1] != k) moved += width(M, t[0], m) * width(K, t[2], k);
        if (b_at[0] != k || b_at[1] != n) moved += width(K, t[2], k) * width(N, t[1], n);
        a_at[0] = m, a_at[1] = k, b_at[0] = k, b_at[1] = n;
      }
      moved += width(M, t[0], m) * width(N, t[1], n);
    }
  return moved;
}

/// The whole cube of candidates, with traffic as counted.
Values enumerated(const TensorMap& inputs) {
  Values plans;
  const auto problem = inputs.at("problem").flat<const std::int64_t>();
  const auto elem_bytes = inputs.at("elem_bytes").flat<const std::int32_t>();
  const std::int64_t buffer = inputs.at("buffer_bytes").ref().scalar<std::int64_t>();
  const auto list = [&](const char* axis, std::size_t i) {
    const auto all = inputs.at(std::string(axis) + "_cand").flat<const std::int64_t>(), offsets = inputs.at(std::string(axis) + "_offsets").flat<const std::int64_t>();
    return Values(all.begin() + offsets[i], all.begin() + offsets[i + 1]);
  };
  for (std::size_t i = 0; i < elem_bytes.size(); ++i) {
    std::array<std::int64_t, 5> best;
    best.fill(INT64_MAX);
    for (const std::int64_t tm : list("tm", i))
      for (const std::int64_t tn : list("tn", i))
        for (const std::int64_t tk : list("tk", i))
          if (const std::int64_t needed = elem_bytes[i] * (tm * tk + tk * tn + tm * tn); needed <= buffer)
            best = std::min(best, {counted_traffic({problem[3 * i], problem[3 * i + 1], problem[3 * i + 2]}, {tm, tn, tk}), needed, tm, tn, tk});
    plans.insert(plans.end(), best.begin() + 2, best.end());
  }
  return plans;
}

class EveryVariant : public testing::TestWithParam<const char*> {};
TEST_P(EveryVariant, holds_on_all_cases) { check_all_cases(task(), GetParam()); }
TEST_P(EveryVariant, holds_on_random_cases) { check_random_cases(task(), GetParam(), 150); }
TEST_P(EveryVariant, holds_on_case_files) { check_case_files(task(), GetParam()); }
INSTANTIATE_TEST_SUITE_P(gemm_tile_size_planner, EveryVariant, testing::Values("reference", "baseline", "cpu"), [](const auto& i) { return std::string(i.param); });

class ExactPlanner : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(gemm_tile_size_planner, ExactPlanner, testing::Values("reference", "cpu"), [](const auto& i) { return std::string(i.param); });

TEST_P(ExactPlanner, gives_the_plans_of_the_case_files) {
  for_each_answer(task(), [](const CaseFile& file) {
    const auto wanted = file.outputs.at("tiles").flat<const std::int64_t>();
    EXPECT_EQ(plans_of(file.inputs, GetParam()), Values(wanted.begin(), wanted.end()));
  });
}

TEST_P(ExactPlanner, finds_what_an_enumeration_finds) {
  for (std::uint64_t i = 0; i < 120; ++i) {
    Random random(task().name, "enumerate", 2, i);
    const TensorMap inputs = i == 0 ? workload("smoke", 0) : task().random_case(random);
    EXPECT_EQ(plans_of(inputs, GetParam()), enumerated(inputs)) << "random case " << i;
  }
}

TEST(Cpu, gives_the_plans_of_the_reference_on_every_case) {
  for (const Case& c : task().cases) {
    Random random(task().name, c.name, 1, 0);
    const TensorMap inputs = c.inputs(random);
    if (!task().contract.validate(refs(inputs))) { EXPECT_EQ(plans_of(inputs, "cpu"), plans_of(inputs, "reference")) << c.name; }
  }
}

TEST(Cpu, gives_the_plans_of_the_reference_on_real_layers) {
  for (const char* name : {"standard", "standard_192k", "standard_32m"}) {
    const TensorMap inputs = workload(name, 1);
    EXPECT_EQ(plans_of(inputs, "cpu"), plans_of(inputs, "reference")) << name;
  }
}

TEST(Cpu, gives_the_same_plans_on_any_number_of_threads) {
  const int before = omp_get_max_threads();
  const TensorMap inputs = workload("standard", 2);
  omp_set_num_threads(1);
  const Values alone = plans_of(inputs, "cpu");
  for (int threads : {2, 3}) {
    omp_set_num_threads(threads);
    check_all_cases(task(), "cpu");
    EXPECT_EQ(plans_of(inputs, "cpu"), alone) << threads;
  }
  omp_set_num_threads(before);
}

// The contract's limits are 1 ms a task and 5 s; ten times less leaves room for a busy machine and still shows a search that is not O(L log L).
TEST(Cpu, plans_well_within_the_time_allowed_on_one_core) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  for (const auto& [name, seconds] : {std::pair{"standard", 0.2}, std::pair{"long", 0.5}}) {
    const TensorMap inputs = workload(name, 3);
    const std::clock_t start = std::clock();  // of this process alone
    const Values plans = plans_of(inputs, "cpu");
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, seconds) << name;
    EXPECT_FALSE(judge(inputs, plans).has_value()) << name;
  }
  omp_set_num_threads(before);
  ASSERT_EQ(task().gate.time_limits.size(), 2u);
  EXPECT_EQ(task().gate.time_limits[0].seconds, 2) << "1 ms for each of 2000 tasks";
  EXPECT_EQ(task().gate.time_limits[1].seconds, 5);
}

TEST(Metric, is_the_geometric_mean_of_the_traffic) {
  const TensorMap inputs = one({100, 90, 80}, 4, {{{10, 100}, {9, 90}, {8, 80}}}, 1 << 20);
  for (const Values& plan : {Values{10, 9, 8}, Values{100, 9, 8}, Values{10, 9, 80}, Values{10, 90, 80}, Values{100, 90, 80}})
    EXPECT_NEAR(mean_traffic(inputs, plan), 4.0 * static_cast<double>(counted_traffic({100, 90, 80}, {plan[0], plan[1], plan[2]})), 1e-6);
  EXPECT_FALSE(task().metric.counts_time);
  EXPECT_EQ(task().metric.exponent, 1);
}

TEST(Metric, does_not_fall_over_tiles_that_are_none) {
  const TensorMap inputs = one({100, 90, 80}, 4, {{{10}, {9}, {8}}}, 1 << 20);
  EXPECT_GT(mean_traffic(inputs, {0, -7, INT64_MIN}), 0);
  EXPECT_GT(mean_traffic(inputs, {INT64_MAX, INT64_MAX, INT64_MAX}), 0);
}

TEST(Metric, gives_the_gain_that_the_contract_foresees) {
  const struct { const char* name; double gain; } expected[] = {{"standard", 645}, {"standard_192k", 200}, {"standard_32m", 985}};
  for (const auto& [name, gain] : expected) {
    const TensorMap inputs = workload(name, 0);
    EXPECT_NEAR(mean_traffic(inputs, plans_of(inputs, "baseline")) / mean_traffic(inputs, plans_of(inputs, "cpu")) / gain, 1, 0.1) << name;
  }
}

TEST(Gate, says_what_is_illegal) {
  const TensorMap inputs = one({100, 100, 100}, 4, {{{16, 33}, {16, 33}, {8, 100}}}, 4 * (16 * 100 + 100 * 16 + 16 * 16));
  EXPECT_FALSE(judge(inputs, {16, 16, 8}).has_value());
  EXPECT_FALSE(judge(inputs, {16, 16, 100}).has_value()) << "fits to the byte";
  EXPECT_FALSE(judge(inputs, {33, 33, 8}).has_value());
  const struct { Values plan; const char* words; } wrong[] = {
      {{32, 16, 8}, "32 is not in the list tm_cand"},  {{16, 8, 8}, "8 is not in the list tn_cand"}, {{16, 16, 99}, "99 is not in the list tk_cand"},
      {{33, 16, 100}, "bytes of a buffer"},             {{0, 16, 8}, "not in the list"},               {{-16, 16, 8}, "not in the list"},
  };
  for (const auto& w : wrong) {
    const GateResult bad = judge(inputs, w.plan);
    ASSERT_TRUE(bad.has_value()) << w.words;
    EXPECT_NE(to_string(*bad).find(w.words), std::string::npos) << to_string(*bad);
  }
}

TEST(Gate, fails_the_batch_for_one_illegal_task) {
  const TensorMap inputs = workload("smoke", 4);
  Values plans = plans_of(inputs, "baseline");
  EXPECT_FALSE(judge(inputs, plans).has_value());
  plans.back() = 301;
  EXPECT_TRUE(judge(inputs, plans).has_value());
}

TEST(Gate, fails_answers_that_plan_nothing) {
  const TensorMap inputs = workload("smoke", 0);
  EXPECT_TRUE(judge(inputs, Values(60, 0)).has_value()) << "all zeros";
  EXPECT_TRUE(judge(inputs, Values(60, 1)).has_value()) << "a constant";
  const auto problem = inputs.at("problem").flat<const std::int64_t>();
  EXPECT_TRUE(judge(inputs, Values(problem.begin(), problem.end())).has_value()) << "a copy of an input";
  EXPECT_TRUE(judge(inputs, plans_of(workload("smoke", 1), "cpu")).has_value()) << "the previous answer";
  Values rotated = plans_of(inputs, "cpu");
  std::rotate(rotated.begin(), rotated.begin() + 3, rotated.end());
  EXPECT_TRUE(judge(inputs, rotated).has_value()) << "a permuted answer";
}

}  // namespace
}  // namespace faibench
