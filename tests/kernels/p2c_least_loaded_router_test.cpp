#include <algorithm>
#include <cmath>

#include "kernels/execution_harness.h"

namespace faibench::testing_support {
namespace {

const Task& task() { return *find_task("p2c_least_loaded_router"); }

class EachVariant : public testing::TestWithParam<const char*> {};

TEST_P(EachVariant, is_right_on_every_case) { check_all_cases(task(), GetParam()); }
TEST_P(EachVariant, is_right_on_random_cases) { check_random_cases(task(), GetParam(), 100); }
TEST_P(EachVariant, is_right_on_the_case_files) { check_case_files(task(), GetParam()); }
TEST_P(EachVariant, names_the_first_value_at_fault) {
  Random random(3);
  TensorMap inputs = task().find_workload("smoke")->parts[0](random);
  const auto candidates = inputs.at("candidates").flat<std::int32_t>();
  candidates[12345] = 16;
  candidates[19999] = -7;
  TensorMap outputs = allocate_outputs(task().contract, refs(inputs));
  TensorRefMap output_refs = refs(outputs);
  const Rejected rejected = call_kernel(task().contract, variant_of(task(), GetParam()).kernel, refs(inputs), output_refs);
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->tensor, "candidates");
  EXPECT_EQ(rejected->index, 12345);
  EXPECT_EQ(rejected->message.find("candidates[12345] is 16: "), 0u) << rejected->message;
}
INSTANTIATE_TEST_SUITE_P(P2cLeastLoadedRouter, EachVariant, testing::Values("reference", "baseline", "cpu"));

TEST(P2cLeastLoadedRouter, is_right_on_any_number_of_threads) { check_on_threads(task()); }

TEST(P2cLeastLoadedRouter, is_right_on_every_instruction_set) { check_on_instruction_sets(task()); }

TEST(P2cLeastLoadedRouter, zipf_draws_follow_their_law) {
  Random random(5);
  const Case* hot = nullptr;
  for (const Case& c : task().cases)
    if (c.name == "replicas_64") hot = &c;
  ASSERT_NE(hot, nullptr);
  const TensorMap inputs = hot->inputs(random);
  std::vector<double> counts(64);
  const auto candidates = inputs.at("candidates").flat<std::int32_t>();
  for (std::int32_t c : candidates) counts.at(static_cast<std::size_t>(c)) += 1;
  std::sort(counts.rbegin(), counts.rend());
  double total = 0;
  for (int k = 1; k <= 64; ++k) total += stable_exp(-1.1 * stable_log(k));
  for (int k = 1; k <= 8; ++k) {
    const double wanted = stable_exp(-1.1 * stable_log(k)) / total * static_cast<double>(candidates.size());
    EXPECT_NEAR(counts[static_cast<std::size_t>(k - 1)], wanted, 5 * std::sqrt(wanted)) << "rank " << k;
  }
}

}  // namespace
}  // namespace faibench::testing_support
