#include <algorithm>

#include "kernels/execution_harness.h"

namespace faibench::testing_support {
namespace {

const Task& task() { return *find_task("ib_multisend_wr_plan"); }

class EachVariant : public testing::TestWithParam<const char*> {};

TEST_P(EachVariant, is_right_on_every_case) { check_all_cases(task(), GetParam()); }
TEST_P(EachVariant, is_right_on_random_cases) { check_random_cases(task(), GetParam(), 100); }
TEST_P(EachVariant, is_right_on_the_case_files) { check_case_files(task(), GetParam()); }
INSTANTIATE_TEST_SUITE_P(IbMultisendWrPlan, EachVariant, testing::Values("reference", "baseline", "cpu"));

TEST(IbMultisendWrPlan, is_right_on_any_number_of_threads) { check_on_threads(task()); }

TEST(IbMultisendWrPlan, is_right_on_every_instruction_set) { check_on_instruction_sets(task()); }

TEST(IbMultisendWrPlan, rejects_every_code_of_the_contract) {
  std::vector<std::string> seen;
  for (const Case& c : task().cases) {
    Random random(task().name, c.name, 1, 0);
    const TensorMap inputs = c.inputs(random);
    if (const Rejected rejected = task().contract.validate(refs(inputs))) seen.push_back(rejected->code);
  }
  for (const Rule& rule : task().contract.rules()) EXPECT_NE(std::ranges::find(seen, rule.code), seen.end()) << rule.code << " is in no case";
}

// Long enough for threads, whole blocks and streaming stores.
TEST(IbMultisendWrPlan, is_right_on_a_long_batch) {
  Random random(7);
  const Workload& standard = *task().find_workload("standard");
  const TensorMap inputs = standard.parts[0](random);
  const TensorMap wanted = run_kernel(task().contract, variant_of(task(), "baseline").kernel, refs(inputs));
  const TensorMap got = run_kernel(task().contract, variant_of(task(), "cpu").kernel, refs(inputs));
  const GateResult bad = exact_outputs({refs(inputs), refs(got), refs(wanted), {}, false});
  EXPECT_FALSE(bad) << to_string(*bad);
  EXPECT_GT(got.at("wr_qp").size(), 1000000);
}

}  // namespace
}  // namespace faibench::testing_support
