// Every task's gate must refuse trivial answers.
#include "judge/lint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace faibench {
namespace {

class Lint : public testing::TestWithParam<const Task*> {};

TEST_P(Lint, trivial_answers_fail_the_gate) {
  const Task& task = *GetParam();
  const Workload* smoke = task.find_workload("smoke");
  ASSERT_NE(smoke, nullptr);
  for (const std::string& finding : lint_gate(task, *smoke, 1)) ADD_FAILURE() << finding;
}

INSTANTIATE_TEST_SUITE_P(Gates, Lint, testing::ValuesIn(all_tasks().begin(), all_tasks().end()), [](const auto& info) { return info.param->name; });

// A gate that lets everything pass: the lint itself must see it.
TEST(LintItself, finds_a_gate_that_accepts_everything) {
  Task task;
  task.name = "blind";
  task.contract.input("x", {Dtype::i32}, {"N"}, "");
  task.contract.output("y", {Dtype::i32}, {"N"}, "");
  const auto copy = +[](View<const std::int32_t, 1> x, View<std::int32_t, 1> y) { std::copy(x.data(), x.data() + x.size(), y.data()); };
  task.variants = {{"reference", Kernel({bind(copy, {"x", "y"})}), ""}};
  task.workloads = {{"smoke", "", {[](Random& random) {
    TensorMap inputs;
    random.fill_below(inputs.add("x", Tensor(Dtype::i32, {10})).flat<std::int32_t>(), 100);
    return inputs;
  }}, 1}};
  task.gate = {"anything", [](const GateCall&) { return GateResult(); }};
  EXPECT_EQ(lint_gate(task, task.workloads[0], 1).size(), 5u);
  task.gate = exact_gate();  // the task copies its input, so that answer is right; the other four are not
  EXPECT_EQ(lint_gate(task, task.workloads[0], 1), std::vector<std::string>{"a copy of the input passes the gate"});
}

// The gate refuses trivial answers to the timed inputs; another fill may make them right.
TEST(LintItself, tries_every_fill) {
  Task task;
  task.name = "half_blind";
  task.contract.input("x", {Dtype::i32}, {"N"}, "");
  task.contract.output("y", {Dtype::i32}, {"N"}, "");
  const auto add_one = +[](View<const std::int32_t, 1> x, View<std::int32_t, 1> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y[i] = x[i] + 1;
  };
  task.variants = {{"reference", Kernel({bind(add_one, {"x", "y"})}), ""}};
  const auto filled = [](std::int32_t from, std::int32_t to) {
    return [from, to](Random& random) {
      TensorMap inputs;
      for (std::int32_t& x : inputs.add("x", Tensor(Dtype::i32, {10})).flat<std::int32_t>()) x = static_cast<std::int32_t>(random.between(from, to));
      return inputs;
    };
  };
  task.workloads = {{"smoke", "", {filled(1, 1000)}, 1}};
  task.gate = exact_gate();
  task.random_case = filled(1, 1000);
  EXPECT_EQ(lint_gate(task, task.workloads[0], 1), std::vector<std::string>{});
  task.workloads[0].also_gated = {filled(1, 1000), filled(-1, -1)};  // the answer is zero
  EXPECT_THAT(lint_gate(task, task.workloads[0], 1), testing::Contains("all zeros passes the gate (other fill 2)"));
}

}  // namespace
}  // namespace faibench
