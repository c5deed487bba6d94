// One whole call: validation, allocation, in-place tensors, conditional outputs, data-dependent lengths.
#include <gtest/gtest.h>

#include <cmath>

#include "task/fake_task.h"

namespace faibench {
namespace {

using testing_support::fake_contract;
using testing_support::fake_inputs;
using testing_support::fake_kernel;

TEST(RunKernel, cuts_a_data_dependent_output_to_its_true_length) {
  const TensorMap inputs = fake_inputs();
  const TensorMap outputs = run_kernel(fake_contract(), fake_kernel(), refs(inputs));
  EXPECT_EQ(outputs.at("kept").shape(), (Shape{3}));
  const auto kept = outputs.at("kept").flat<float>();
  EXPECT_EQ(std::vector<float>(kept.begin(), kept.end()), (std::vector<float>{3, 4, 5}));
}

TEST(RunKernel, an_empty_data_dependent_output_has_no_rows) {
  TensorMap inputs = fake_inputs();
  inputs.at("threshold") = Tensor::scalar(100.0f);
  EXPECT_EQ(run_kernel(fake_contract(), fake_kernel(), refs(inputs)).at("kept").shape(), (Shape{0}));
}

TEST(RunKernel, an_in_place_tensor_starts_from_the_input_and_leaves_the_input_alone) {
  const TensorMap inputs = fake_inputs();
  const TensorMap outputs = run_kernel(fake_contract(), fake_kernel(), refs(inputs));
  EXPECT_EQ(outputs.at("totals").flat<std::int64_t>()[0], 11);
  EXPECT_EQ(outputs.at("totals").flat<std::int64_t>()[1], 22);
  EXPECT_EQ(inputs.at("totals").flat<std::int64_t>()[1], 20);
}

TEST(RunKernel, a_conditional_output_is_there_only_with_its_condition) {
  TensorMap inputs = fake_inputs();
  EXPECT_EQ(run_kernel(fake_contract(), fake_kernel(), refs(inputs)).find("used"), nullptr);
  inputs.add("bonus", Tensor::of<float>({2}, {0.5f, 0.25f}));
  const TensorMap outputs = run_kernel(fake_contract(), fake_kernel(), refs(inputs));
  EXPECT_EQ(outputs.at("used").flat<float>()[1], 0.25f);
  EXPECT_EQ(outputs.at("kept").flat<float>()[0], 3.5f);
}

TEST(CallKernel, a_rejection_comes_before_the_kernel_and_leaves_outputs_alone) {
  TensorMap inputs = fake_inputs();
  TensorMap outputs = allocate_outputs(fake_contract(), refs(inputs));
  outputs.at("kept").flat<float>()[0] = 42;
  inputs.at("threshold") = Tensor::scalar(-1.0f);
  TensorRefMap output_refs = refs(outputs);
  const Rejected rejected = call_kernel(fake_contract(), fake_kernel(), refs(inputs), output_refs);
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->code, "negative_threshold");
  EXPECT_EQ(outputs.at("kept").flat<float>()[0], 42);
  EXPECT_EQ(outputs.at("totals").flat<std::int64_t>()[0], 10);
}

TEST(CallKernel, a_rule_left_to_the_variant_is_the_kernels_own) {
  TensorMap inputs = fake_inputs();
  inputs.at("values").flat<float>()[4] = NAN;
  TensorMap outputs = allocate_outputs(fake_contract(), refs(inputs));
  TensorRefMap output_refs = refs(outputs);
  const Rejected rejected = call_kernel(fake_contract(), fake_kernel(), refs(inputs), output_refs);
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->code, "nan_value");
  EXPECT_EQ(rejected->index, 4);
}

void claims_too_much(View<const float, 1>, View<float, 1>, Length& K) { K.value = 6; }

TEST(CallKernel, a_length_beyond_the_room_is_an_error_not_a_longer_tensor) {
  Contract contract;
  contract.input("values", {Dtype::f32}, {"N"}, "");
  contract.output("kept", {Dtype::f32}, {"N"}, "").length = "K";
  TensorMap inputs;
  inputs.add("values", Tensor(Dtype::f32, {5}));
  EXPECT_THROW((void)run_kernel(contract, Kernel({bind(claims_too_much, {"values", "kept", "K"})}), refs(inputs)), Error);
}

TEST(ExpectedOutputs, come_from_the_reference_unless_the_task_has_its_own) {
  Task task;
  task.name = "fake";
  task.contract = fake_contract();
  const TensorMap inputs = fake_inputs();
  EXPECT_THROW((void)expected_outputs(task, refs(inputs)), Error);
  task.variants.push_back({"reference", fake_kernel(), ""});
  EXPECT_EQ(expected_outputs(task, refs(inputs)).at("kept").size(), 3);
  task.expected = [](const TensorRefMap&) {
    TensorMap wide;
    wide.add("kept", Tensor(Dtype::f64, {3}));
    return wide;
  };
  EXPECT_EQ(expected_outputs(task, refs(inputs)).at("kept").dtype(), Dtype::f64);
}

TEST(Task, finds_variants_and_workloads_by_name) {
  Task task;
  task.variants.push_back({"cpu", fake_kernel(), ""});
  task.workloads.push_back({"smoke", "", {}, 0.001});
  EXPECT_NE(task.find_variant("cpu"), nullptr);
  EXPECT_EQ(task.find_variant("gpu"), nullptr);
  EXPECT_NE(task.find_workload("smoke"), nullptr);
  EXPECT_EQ(task.find_workload("standard"), nullptr);
}

}  // namespace
}  // namespace faibench
