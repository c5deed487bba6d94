#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/machine_setting.h"
#include "kernels/task_harness.h"

namespace faibench {
namespace {

using namespace testing_support;

const Task& task() { return *find_task("h2d_prefetch_compute_overlap"); }

TensorMap workload(const char* name, std::uint64_t repetition) {
  Random random(task().name, name, 1, repetition);
  return task().find_workload(name)->parts[0](random);
}

TensorMap answer(const TensorMap& inputs, std::string_view variant = "cpu") { return run_kernel(task().contract, variant_of(task(), variant).kernel, refs(inputs)); }

GateResult judge(const TensorMap& inputs, const TensorMap& outputs, const std::vector<TensorMap>& later = {}) { return task().gate.check({refs(inputs), refs(outputs), TensorRefMap(), later, false}); }

/// One chunk of the given data, a column each with its gain and bias.
TensorMap columns(const std::vector<float>& data, const std::vector<float>& gain, const std::vector<float>& bias, std::int32_t rounds) {
  const std::int64_t D = static_cast<std::int64_t>(data.size());
  TensorMap in;
  in.add("data", Tensor::of<float>({1, D}, data));
  in.add("offsets", Tensor::of<std::int64_t>({2}, {0, 1}));
  in.add("scale", Tensor::of<float>({1}, {1.0f}));
  in.add("gain", Tensor::of<float>({D}, gain));
  in.add("bias", Tensor::of<float>({D}, bias));
  in.add("rounds", Tensor::scalar(rounds));
  return in;
}

class EveryVariant : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(h2d_prefetch_compute_overlap, EveryVariant, testing::Values("reference", "baseline", "cpu"), [](const auto& i) { return std::string(i.param); });

TEST_P(EveryVariant, holds_on_all_cases) { check_all_cases(task(), GetParam()); }
TEST_P(EveryVariant, holds_on_random_cases) { check_random_cases(task(), GetParam(), 100); }
TEST_P(EveryVariant, holds_on_case_files) { check_case_files(task(), GetParam()); }
TEST_P(EveryVariant, holds_on_the_smoke_workload) { check_inputs(task(), variant_of(task(), GetParam()), workload("smoke", 0)); }

TEST(CaseFiles, hold_answers_that_are_right) { check_gate_on_answers(task()); }

TEST(Cpu, is_right_on_every_instruction_set) {
  under_every_instruction_set([](std::int64_t) {
    check_all_cases(task(), "cpu");
    check_random_cases(task(), "cpu", 60);
    check_inputs(task(), variant_of(task(), "cpu"), workload("smoke", 1));
  });
}

TEST(Cpu, is_right_for_any_number_of_threads) {
  const int before = omp_get_max_threads();
  for (int threads : {1, 2, 3}) {
    SCOPED_TRACE(threads);
    omp_set_num_threads(threads);
    check_all_cases(task(), "cpu");
    check_inputs(task(), variant_of(task(), "cpu"), workload("smoke", 2));
  }
  omp_set_num_threads(before);
}

TEST(Cpu, keeps_within_the_bound_over_the_whole_range_of_z) {
  under_every_instruction_set([](std::int64_t) {
    std::vector<float> z;
    for (int k = -24000; k <= 24000; ++k) z.push_back(static_cast<float>(k) / 192 + 0.001f);
    const TensorMap inputs = columns(z, std::vector<float>(z.size(), 1.0f), std::vector<float>(z.size(), 0.0f), 1);
    const GateResult bad = judge(inputs, answer(inputs));
    EXPECT_FALSE(bad.has_value()) << to_string(*bad);
  });
}

TEST(Workloads, have_chunks_of_the_sizes_that_the_contract_gives) {
  std::int64_t empty = 0, all = 0;
  for (std::uint64_t repetition = 0; repetition < 20; ++repetition) {
    const TensorMap inputs = workload("smoke", repetition);
    EXPECT_FALSE(task().contract.validate(refs(inputs)).has_value());
    const auto offsets = inputs.at("offsets").flat<const std::int64_t>();
    EXPECT_EQ(offsets.size(), 8u);
    EXPECT_EQ(inputs.at("data").shape(), (Shape{200, 33}));
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i, ++all) empty += offsets[i + 1] == offsets[i];
  }
  EXPECT_LT(empty * 10, all) << "2 % are empty";
}

// ---- the gate

TEST(Gate, is_as_wide_as_the_contract_says) {
  // One element, two rounds, the bound by hand in long double.
  const float data = 1.5f, gain = -0.7f, bias = 0.3f;
  const TensorMap inputs = columns({data}, {gain}, {bias}, 2);
  const long double u = 0x1p-24L;
  long double v = data, e = u * std::abs(v);
  for (int round = 0; round < 2; ++round) {
    const long double product = static_cast<long double>(gain) * v, z = product + static_cast<long double>(bias);
    const long double ez = std::abs(static_cast<long double>(gain)) * e + 2 * u * (std::abs(product) + static_cast<long double>(bias));
    v = z / (1 + std::exp(-z));
    e = 1.1L * ez + (32 + 4 * std::abs(z)) * u * std::abs(v);
  }
  const auto wrong = [&](long double off) {
    TensorMap outputs;
    outputs.add("out", Tensor::of<float>({1, 1}, {static_cast<float>(v + off)}));
    return judge(inputs, outputs).has_value();
  };
  for (const long double sign : {1.0L, -1.0L}) {
    EXPECT_FALSE(wrong(sign * 1.97L * e));
    EXPECT_TRUE(wrong(sign * 2.03L * e));
  }
}

TEST(Gate, wants_the_product_itself_without_rounds) {
  const TensorMap inputs = columns({1.0f, -0.0f, std::numeric_limits<float>::quiet_NaN()}, {1, 1, 1}, {0, 0, 0}, 0);
  const auto wrong = [&](std::vector<float> out) {
    TensorMap outputs;
    outputs.add("out", Tensor::of<float>({1, 3}, out));
    return judge(inputs, outputs).has_value();
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(wrong({1.0f, -0.0f, nan}));
  EXPECT_FALSE(wrong({1.0f, -0.0f, -std::bit_cast<float>(0x7fc12345u)})) << "any NaN";
  EXPECT_TRUE(wrong({std::nextafter(1.0f, 2.0f), -0.0f, nan}));
  EXPECT_TRUE(wrong({1.0f, 0.0f, nan}));
  EXPECT_TRUE(wrong({1.0f, -0.0f, 0.0f}));
  EXPECT_TRUE(wrong({nan, -0.0f, nan}));
}

TEST(Gate, wants_nan_and_inf_where_they_are_and_nowhere_else) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const TensorMap inputs = columns({inf, nan, 1.0f}, {1, 1, 1}, {0, 0, 0}, 1);
  const float silu = answer(inputs).at("out").flat<const float>()[2];
  const auto wrong = [&](std::vector<float> out) {
    TensorMap outputs;
    outputs.add("out", Tensor::of<float>({1, 3}, out));
    return judge(inputs, outputs).has_value();
  };
  EXPECT_FALSE(wrong({inf, nan, silu}));
  EXPECT_TRUE(wrong({-inf, nan, silu}));
  EXPECT_TRUE(wrong({3e38f, nan, silu}));
  EXPECT_TRUE(wrong({inf, 1.0f, silu}));
  EXPECT_TRUE(wrong({inf, nan, nan}));
  EXPECT_TRUE(wrong({inf, nan, inf}));
}

TEST(Gate, names_the_first_wrong_element) {
  const TensorMap inputs = workload("smoke", 0);
  TensorMap outputs = answer(inputs);
  for (const std::size_t k : {33u * 180u + 5u, 33u * 77u + 12u}) outputs.at("out").flat<float>()[k] += 0.5f;
  const GateResult bad = judge(inputs, outputs);
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(bad->index, (Shape{77, 12})) << to_string(*bad);
  EXPECT_GT(bad->error_over_tolerance, 100);
}

TEST(Gate, asks_for_twenty_calls_in_a_row_and_looks_at_each) {
  const auto found = std::ranges::find_if(task().cases, [](const Case& c) { return c.name == "twenty_calls"; });
  ASSERT_NE(found, task().cases.end());
  Random random(1);
  const TensorMap inputs = found->inputs(random);
  const std::vector<Probe> later = task().gate.probes(refs(inputs));
  ASSERT_EQ(later.size(), 19u);
  std::vector<TensorMap> outputs;
  for (const Probe& probe : later) outputs.push_back(answer(probe.inputs));
  EXPECT_FALSE(judge(inputs, answer(inputs), outputs).has_value());
  outputs[12] = clone(outputs[11]);  // a stale answer
  const GateResult bad = judge(inputs, answer(inputs), outputs);
  ASSERT_TRUE(bad.has_value());
  EXPECT_NE(to_string(*bad).find("call 14 of 20"), std::string::npos) << to_string(*bad);
  EXPECT_TRUE(task().gate.probes(refs(workload("smoke", 0))).empty());
}

TEST(Gate, lets_no_wrong_answer_through) {
  const TensorMap inputs = workload("smoke", 0);
  EXPECT_FALSE(judge(inputs, answer(inputs)).has_value());
  EXPECT_TRUE(judge(inputs, allocate_outputs(task().contract, refs(inputs))).has_value()) << "zeros";
  EXPECT_TRUE(judge(inputs, answer(workload("smoke", 1))).has_value()) << "the previous answer";
  TensorMap copy = answer(inputs);
  std::ranges::copy(inputs.at("data").flat<const float>(), copy.at("out").flat<float>().begin());
  EXPECT_TRUE(judge(inputs, copy).has_value()) << "a copy of the input";
  TensorMap rotated = answer(inputs);
  const auto out = rotated.at("out").flat<float>();
  std::rotate(out.begin(), out.begin() + 33, out.end());
  EXPECT_TRUE(judge(inputs, rotated).has_value()) << "rows permuted";
  TensorMap fewer = clone(inputs);
  fewer.at("rounds").flat<std::int32_t>()[0] = 2;
  EXPECT_TRUE(judge(inputs, answer(fewer)).has_value()) << "one round less";
  TensorMap swapped = clone(inputs);
  const auto scale = swapped.at("scale").flat<float>();
  std::rotate(scale.begin(), scale.begin() + 1, scale.end());
  EXPECT_TRUE(judge(inputs, answer(swapped)).has_value()) << "another chunk's factor";
}

}  // namespace
}  // namespace faibench
