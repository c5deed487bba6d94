#include <set>

#include "kernels/execution_harness.h"

namespace faibench::testing_support {
namespace {

const Task& task() { return *find_task("rdma_blockpool_window"); }

class EachVariant : public testing::TestWithParam<const char*> {};

TEST_P(EachVariant, is_right_on_every_case) { check_all_cases(task(), GetParam()); }
TEST_P(EachVariant, is_right_on_random_cases) { check_random_cases(task(), GetParam(), 100); }
TEST_P(EachVariant, is_right_on_the_case_files) { check_case_files(task(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(RdmaBlockpoolWindow, EachVariant, testing::Values("reference", "baseline", "cpu"));

TEST(RdmaBlockpoolWindow, is_right_on_any_number_of_threads) { check_on_threads(task()); }

TEST(RdmaBlockpoolWindow, has_all_76_codes_each_met_by_a_case_of_its_name) {
  EXPECT_EQ(task().contract.rules().size(), 76u);
  std::set<std::string> met;
  for (const Case& c : task().cases) {
    Random random(1);
    const Rejected rejected = task().contract.validate(refs(c.inputs(random)));
    if (!rejected) continue;
    EXPECT_EQ(rejected->code, c.name) << rejected->message;
    met.insert(rejected->code);
  }
  for (const Rule& rule : task().contract.rules()) EXPECT_TRUE(met.contains(rule.code)) << rule.code;
}

}  // namespace
}  // namespace faibench::testing_support
