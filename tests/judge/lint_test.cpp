// Every task's gate must refuse trivial answers.
#include "judge/lint.h"

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

}  // namespace
}  // namespace faibench
