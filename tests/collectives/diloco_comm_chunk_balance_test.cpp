#include <cmath>

#include "collectives/diloco_comm_chunk_balance/diloco_comm_chunk_balance.h"
#include "collectives/diloco_comm_chunk_balance/workloads.h"
#include "kernels/task_harness.h"

namespace faibench::testing_support {
namespace {

const Task& task() { return *find_task("diloco_comm_chunk_balance"); }

double largest_load(const char* variant, const TensorMap& inputs) {
  const TensorMap outputs = run_kernel(task().contract, variant_of(task(), variant).kernel, refs(inputs));
  return task().metric.objective(refs(inputs), refs(outputs));
}

class EachVariant : public testing::TestWithParam<const char*> {};
TEST_P(EachVariant, is_right_on_every_case) { check_all_cases(task(), GetParam()); }
TEST_P(EachVariant, is_right_on_random_cases) { check_random_cases(task(), GetParam(), 200); }
TEST_P(EachVariant, is_right_on_the_case_files) { check_case_files(task(), GetParam()); }
INSTANTIATE_TEST_SUITE_P(DilocoCommChunkBalance, EachVariant, testing::Values("reference", "baseline", "cpu"));

TEST(DilocoCommChunkBalance, is_never_worse_than_longest_first_nor_below_the_bound) {
  for (int i = 0; i < 300; ++i) {
    Random random(task().name, "random", 7, static_cast<std::uint64_t>(i));
    const TensorMap inputs = task().random_case(random);
    const double ours = largest_load("cpu", inputs), bound = static_cast<double>(diloco_comm_chunk_balance::lower_bound(inputs.at("sizes").ref().view<const std::int64_t, 1>(), inputs.at("chunks").ref().scalar<std::int32_t>()));
    EXPECT_LE(ours, largest_load("reference", inputs)) << i;
    EXPECT_GE(ours, std::max(1.0, bound)) << i;
  }
}

TEST(DilocoCommChunkBalance, finds_the_exact_partition_of_chunks_cut_in_three) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Random random(seed);
    EXPECT_EQ(largest_load("cpu", diloco_comm_chunk_balance::instance(diloco_comm_chunk_balance::cut_in_three(random, 64), 64)), std::ldexp(1.0, 30)) << seed;
  }
}

TEST(DilocoCommChunkBalance, finds_what_longest_first_misses) { EXPECT_EQ(largest_load("cpu", diloco_comm_chunk_balance::instance({3, 3, 2, 2, 2}, 2)), 6); }

// The first five are fixed lists. Of the last, only the optimum is known: how bad round-robin is depends on the shuffle.
TEST(DilocoCommChunkBalance, plans_the_standard_instances_as_well_as_is_known) {
  const Workload& standard = *task().find_workload("standard");
  const std::vector<double> ratios = {4.0, 4.0, 2.734, 2.928, 2.66};
  for (std::size_t k = 0; k < ratios.size(); ++k) {
    Random random(1);
    const TensorMap inputs = standard.parts[k](random);
    EXPECT_GE(largest_load("baseline", inputs) / largest_load("cpu", inputs), ratios[k]) << k;
  }
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Random random(seed);
    EXPECT_EQ(largest_load("cpu", standard.parts.back()(random)), 0x1p30) << seed;
  }
}

TEST(DilocoCommChunkBalance, gate_finds_a_dropped_tensor_and_a_wrong_load) {
  const TensorMap inputs = diloco_comm_chunk_balance::instance({5, 0, 7}, 2);
  TensorMap outputs = run_kernel(task().contract, variant_of(task(), "cpu").kernel, refs(inputs));
  outputs.at("chunk_of").flat<std::int32_t>()[1] = -1;
  const TensorMap none;
  EXPECT_TRUE(task().gate.check({refs(inputs), refs(outputs), refs(none), {}, false}));
  outputs.at("chunk_of").flat<std::int32_t>()[1] = 0;
  outputs.at("load").flat<std::int64_t>()[0] += 1;
  EXPECT_TRUE(task().gate.check({refs(inputs), refs(outputs), refs(none), {}, false}));
}

}  // namespace
}  // namespace faibench::testing_support
