#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "kernels/machine_setting.h"
#include "kernels/task_harness.h"
#include "kernels/training/grpo_rloo_advantage/grpo_rloo_advantage.h"

namespace faibench {
namespace tasks { const Task& grpo_rloo_advantage(); }
namespace {

using namespace testing_support;

const Task& task() { return tasks::grpo_rloo_advantage(); }

TensorMap workload(std::uint64_t repetition) {
  Random random(task().name, "smoke", 1, repetition);
  return task().find_workload("smoke")->parts[0](random);
}

TensorMap rollout(const char* estimator, double epsilon, bool norm, const std::vector<float>& scores, const std::vector<std::int64_t>& index) {  // L = 1
  const std::int64_t B = static_cast<std::int64_t>(index.size());
  TensorMap in;
  in.add("token_level_rewards", Tensor::of<float>({B, 1}, scores));
  in.add("response_mask", Tensor::of<Bool8>({B, 1}, std::vector<Bool8>(index.size(), Bool8{1})));
  in.add("index", Tensor::of<std::int64_t>({B}, index));
  in.add("estimator", Tensor::text(estimator));
  in.add("epsilon", Tensor::scalar(epsilon));
  in.add("norm_by_std", Tensor::boolean(norm));
  return in;
}

std::vector<float> advantages(const TensorMap& inputs, const char* variant) {
  const TensorMap outputs = run_kernel(task().contract, variant_of(task(), variant).kernel, refs(inputs));
  const auto a = outputs.at("advantages").flat<const float>(), r = outputs.at("returns").flat<const float>();
  EXPECT_EQ(std::memcmp(a.data(), r.data(), a.size_bytes()), 0) << "returns differ from advantages";
  return {a.begin(), a.end()};
}

GateResult judge(const TensorMap& inputs, const TensorMap& outputs) {
  const TensorMap expected = expected_outputs(task(), refs(inputs));
  return task().gate.check({refs(inputs), refs(outputs), refs(expected), {}, false});
}

class Variants : public testing::TestWithParam<const char*> {};
TEST_P(Variants, hold_on_all_cases) { check_all_cases(task(), GetParam()); }
TEST_P(Variants, hold_on_random_cases) { check_random_cases(task(), GetParam(), 150); }
TEST_P(Variants, hold_on_case_files) { check_case_files(task(), GetParam()); }
TEST_P(Variants, give_the_z_score_of_a_group) {
  const auto a = advantages(rollout("grpo", 0, true, {1, 2, 3, 10}, {5, 5, 5, 6}), GetParam());
  EXPECT_EQ(a, (std::vector<float>{-1, 0, 1, 10}));
}
TEST_P(Variants, leave_one_out) {
  const auto a = advantages(rollout("rloo", 1, true, {1, 2, 6, 10}, {5, 5, 5, 6}), GetParam());
  EXPECT_EQ(a, (std::vector<float>{-3, -1.5f, 4.5f, 10}));
}
TEST_P(Variants, only_centre_without_norm) {
  const auto a = advantages(rollout("grpo", 1, false, {1, 2, 6, 10}, {5, 5, 5, 6}), GetParam());
  EXPECT_EQ(a, (std::vector<float>{-2, -1, 3, 10}));
}
TEST_P(Variants, give_equal_scores_exactly_nothing) {
  for (const float score : {0.1f, 1000.1f, -3e33f})
    for (const char* estimator : {"grpo", "rloo"})
      for (const float a : advantages(rollout(estimator, 1e-300, true, std::vector<float>(7, score), std::vector<std::int64_t>(7, 1)), GetParam())) EXPECT_EQ(a, 0.0f) << score << " " << estimator;
}
TEST_P(Variants, keep_infinity_to_its_own_group) {
  const float inf = INFINITY;
  const auto centred = advantages(rollout("grpo", 1, false, {1, inf, 3, 4}, {1, 1, 2, 2}), GetParam());
  EXPECT_EQ(centred[0], -inf);
  EXPECT_TRUE(std::isnan(centred[1]));
  EXPECT_EQ(centred[2], -0.5f);
  const auto norm = advantages(rollout("grpo", 1, true, {1, inf, 3}, {1, 1, 2}), GetParam());
  EXPECT_TRUE(std::isnan(norm[0]) && std::isnan(norm[1]));
  EXPECT_EQ(norm[2], 1.5f);
  EXPECT_EQ(advantages(rollout("grpo", 1, true, {inf}, {1}), GetParam())[0], inf);
}
INSTANTIATE_TEST_SUITE_P(grpo_rloo_advantage, Variants, testing::Values("reference", "baseline", "cpu"), [](const auto& i) { return std::string(i.param); });

TEST(Cpu, holds_on_every_instruction_set) {
  under_every_instruction_set([](std::int64_t) {
    check_all_cases(task(), "cpu");
    check_random_cases(task(), "cpu", 60);
  });
}

TEST(Cpu, has_the_bits_of_the_reference_on_every_instruction_set) {
  Random random(task().name, "bits", 1, 0);
  TensorMap inputs = workload(0);
  for (float& reward : inputs.at("token_level_rewards").flat<float>()) reward = static_cast<float>(random.normal() * stable_exp(random.uniform(-60, 60)));
  const auto wanted = advantages(inputs, "reference");
  under_every_instruction_set([&](std::int64_t) { EXPECT_EQ(advantages(inputs, "cpu"), wanted); });
}

TEST(Cpu, streams_large_outputs_of_any_alignment_with_any_number_of_threads) {
  const int threads = omp_get_max_threads();
  const std::int64_t B = 1100;
  for (const std::int64_t L : {1024, 1029}) {  // 9 MB of outputs
    Random random(task().name, "large", 1, static_cast<std::uint64_t>(L));
    TensorMap inputs = rollout("grpo", 1e-6, true, std::vector<float>(B), std::vector<std::int64_t>(B));
    std::int64_t row = 0;
    for (std::int64_t& i : inputs.at("index").flat<std::int64_t>()) i = row++ % 91;
    Tensor rewards(Dtype::f32, {B, L}), mask(Dtype::bool_, {B, L});
    random.fill_normal(rewards.flat<float>());
    for (Bool8& m : mask.flat<Bool8>()) m.bits = static_cast<std::uint8_t>(random.u32() & 1u);
    inputs.at("token_level_rewards") = std::move(rewards);
    inputs.at("response_mask") = std::move(mask);
    const auto wanted = advantages(inputs, "reference");
    for (int n : {1, 2, 3}) {
      omp_set_num_threads(n);
      EXPECT_TRUE(advantages(inputs, "cpu") == wanted) << "L = " << L << ", " << n << " threads";
    }
    omp_set_num_threads(threads);
  }
}

TEST(Workload, has_groups_of_eight_and_a_few_of_one_row) {
  const TensorMap inputs = workload(0);
  EXPECT_EQ(inputs.at("token_level_rewards").shape(), (Shape{64, 32}));
  std::map<std::int64_t, int> rows;
  for (const std::int64_t i : inputs.at("index").flat<const std::int64_t>()) ++rows[i];
  EXPECT_EQ(rows.size(), 8u);
  for (const auto& [group, n] : rows) EXPECT_EQ(n, 8);
  EXPECT_FALSE(task().contract.validate(refs(inputs)).has_value());
}

TEST(Gate, fails_answers_that_estimate_nothing) {
  const TensorMap inputs = workload(0);
  TensorMap right = run_kernel(task().contract, variant_of(task(), "cpu").kernel, refs(inputs));
  EXPECT_FALSE(judge(inputs, right).has_value());
  const auto filled = [](auto value_of) {
    TensorMap outputs;
    for (const char* name : {"advantages", "returns"}) {
      auto out = outputs.add(name, Tensor(Dtype::f32, {64, 32})).flat<float>();
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = value_of(i);
    }
    return outputs;
  };
  const auto rewards = inputs.at("token_level_rewards").flat<const float>();
  const auto answer = right.at("advantages").flat<const float>();
  EXPECT_TRUE(judge(inputs, filled([](std::size_t) { return 0.0f; })).has_value()) << "all zeros";
  EXPECT_TRUE(judge(inputs, filled([](std::size_t) { return 0.3f; })).has_value()) << "a constant";
  EXPECT_TRUE(judge(inputs, filled([&](std::size_t i) { return rewards[i]; })).has_value()) << "a copy of the input";
  EXPECT_TRUE(judge(inputs, filled([&](std::size_t i) { return answer[(i + 32) % answer.size()]; })).has_value()) << "a permuted answer";
  EXPECT_TRUE(judge(inputs, run_kernel(task().contract, variant_of(task(), "cpu").kernel, refs(workload(1)))).has_value()) << "the previous answer";
  auto returns = right.at("returns").flat<float>();
  const auto shown = std::find_if(returns.begin(), returns.end(), [](float x) { return x != 0; });
  *shown *= 1.0001f;
  const GateResult bad = judge(inputs, right);
  ASSERT_TRUE(bad.has_value()) << "returns alone wrong";
  EXPECT_EQ(bad->tensor, "returns");
}

}  // namespace
}  // namespace faibench
