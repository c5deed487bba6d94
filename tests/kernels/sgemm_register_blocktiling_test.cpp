// sgemm_register_blocktiling: every variant on cases, random cases and case files; what the gate refuses.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "kernels/machine_setting.h"
#include "kernels/task_harness.h"

namespace faibench {
namespace tasks { const Task& sgemm_register_blocktiling(); }
namespace {

using namespace testing_support;

const Task& task() { return tasks::sgemm_register_blocktiling(); }

TensorMap run(std::string_view variant, const TensorMap& inputs) { return run_kernel(task().contract, variant_of(task(), variant).kernel, refs(inputs)); }

GateResult judge(const TensorMap& inputs, const TensorMap& outputs) {
  const TensorRefMap in = refs(inputs), out = refs(outputs), nothing;
  return task().gate.check({in, out, nothing, {}, false});
}

class Sgemm : public MachineSetting {};

TEST_F(Sgemm, every_variant_holds_on_all_cases) {
  for (const char* variant : {"reference", "baseline", "cpu"}) check_all_cases(task(), variant);
}

TEST_F(Sgemm, every_variant_holds_on_random_cases) {
  check_random_cases(task(), "baseline", 60);
  check_random_cases(task(), "cpu", 150);
}

TEST_F(Sgemm, every_variant_holds_on_case_files) {
  for (const char* variant : {"reference", "baseline", "cpu"}) check_case_files(task(), variant);
}

TEST_F(Sgemm, gate_takes_the_case_files_own_answers) { check_gate_on_answers(task()); }

TEST_F(Sgemm, holds_for_every_instruction_set) {
  under_every_instruction_set([](std::int64_t) {
    check_all_cases(task(), "cpu");
    check_random_cases(task(), "cpu", 60);
  });
}

TEST_F(Sgemm, holds_for_any_thread_count) {
  for (int threads : {1, 2, 3, 7}) {
    SCOPED_TRACE(threads);
    omp_set_num_threads(threads);
    check_all_cases(task(), "cpu");
  }
}

TEST_F(Sgemm, peers_hold_on_all_cases) {
  for (const Variant& variant : task().variants)
    if (variant.name.starts_with("peer:") && !variant.on_device) check_all_cases(task(), variant.name);
}

TEST_F(Sgemm, gate_refuses_what_is_no_answer) {
  Random random(task().name, "smoke", 1, 0), other(task().name, "smoke", 2, 0);
  const Generator &make = task().find_workload("smoke")->parts[0], &make_exact = task().find_workload("smoke")->also_gated[0];
  for (const TensorMap& inputs : {make(random), make_exact(random)}) {
    const TensorMap right = run("reference", inputs);
    EXPECT_FALSE(judge(inputs, right).has_value());
    const auto refused = [&](const char* what, auto change) {
      TensorMap outputs = clone(right);
      change(outputs.at("D").flat<float>());
      EXPECT_TRUE(judge(inputs, outputs).has_value()) << what;
    };
    refused("zeros", [](std::span<float> d) { std::ranges::fill(d, 0.0f); });
    refused("a constant", [](std::span<float> d) { std::ranges::fill(d, 1.0f); });
    refused("the addend", [&](std::span<float> d) { std::ranges::copy(inputs.at("C").flat<float>(), d.begin()); });
    refused("the answer reversed", [](std::span<float> d) { std::ranges::reverse(d); });
    refused("one NaN", [](std::span<float> d) { d.back() = NAN; });
    refused("one Inf", [](std::span<float> d) { d[1234] = INFINITY; });
    EXPECT_TRUE(judge(inputs, run("reference", make(other))).has_value()) << "the answer to another call";
  }
}

TEST_F(Sgemm, gate_knows_a_lower_precision_by_the_exact_rule_alone) {
  Random random(task().name, "smoke", 1, 0);
  TensorMap inputs = task().find_workload("smoke")->also_gated[0](random);
  TensorMap rounded = clone(inputs);
  for (float& x : rounded.at("A").flat<float>()) x = to_float(to_f16(x));  // 11 bits, as TF32
  EXPECT_TRUE(judge(inputs, run("reference", rounded)).has_value());
  TensorMap off = run("reference", inputs);
  off.at("D").flat<float>()[77] += 1;
  const GateResult bad = judge(inputs, off);
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(bad->index, (Shape{0, 77}));
  EXPECT_NE(bad->what.find("integer"), std::string::npos);
}

TEST_F(Sgemm, gate_bound_grows_with_the_sum_of_magnitudes) {
  const TensorMap inputs = case_inputs(task(), "cancelling_rows");
  const TensorMap right = run("reference", inputs);
  const auto A = inputs.at("A").view<const float, 2>(), B = inputs.at("B").view<const float, 2>();
  double size = 0;
  for (std::int64_t k = 0; k < 200; ++k) size += std::abs(static_cast<double>(A(5, k)) * static_cast<double>(B(k, 7)));
  const double allowed = 0x1p-24 * 208 * 1.25 * size;
  for (const auto& [share, passes] : {std::pair{0.9, true}, {1.1, false}}) {
    TensorMap outputs = clone(right);
    float& d = outputs.at("D").view<float, 2>()(5, 7);
    d = static_cast<float>(static_cast<double>(d) + share * allowed);
    EXPECT_EQ(!judge(inputs, outputs).has_value(), passes) << share;
  }
}

TEST_F(Sgemm, exact_fill_keeps_every_sum_below_2_to_24) {
  for (const Workload& workload : task().workloads) {
    if (workload.name == "gpu" || workload.name == "seven_rows") continue;
    Random random(task().name, workload.name, 1, 0);
    ASSERT_EQ(workload.also_gated.size(), 1u) << workload.name;
    const TensorMap inputs = workload.also_gated[0](random);
    const auto A = inputs.at("A").flat<const float>();
    const float most = *std::ranges::max_element(A), K = static_cast<float>(inputs.at("A").shape()[1]);
    EXPECT_LE(most * K + 16, 0x1p24f);
    EXPECT_GT(most, 2048.0f) << "12 bits";
    EXPECT_EQ(*std::ranges::max_element(inputs.at("B").flat<const float>()), 1.0f);
    EXPECT_EQ(*std::ranges::min_element(inputs.at("C").flat<const float>()), -8.0f);
  }
}

TEST_F(Sgemm, floor_leaves_out_what_is_not_read) {
  const auto floor_of = [](float alpha, float beta, std::int64_t K) {
    TensorMap inputs;
    inputs.add("A", Tensor(Dtype::f32, {3, K}));
    inputs.add("B", Tensor(Dtype::f32, {K, 7}));
    inputs.add("C", Tensor(Dtype::f32, {3, 7}));
    inputs.add("alpha", Tensor::scalar(alpha));
    inputs.add("beta", Tensor::scalar(beta));
    return task().floor(refs(inputs));
  };
  EXPECT_EQ(floor_of(1, 1, 5).operations, 2.0 * 3 * 7 * 5);
  EXPECT_EQ(floor_of(1, 1, 5).bytes, 4.0 * (15 + 35 + 42));
  EXPECT_EQ(floor_of(1, 0, 5).bytes, 4.0 * (15 + 35 + 21));
  EXPECT_EQ(floor_of(0, 1, 5).bytes, 4.0 * 42);
  EXPECT_EQ(floor_of(0, 1, 5).operations, 0);
}

}  // namespace
}  // namespace faibench
