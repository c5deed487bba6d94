#include <set>
#include <string_view>

#include "collectives/dcp_shard_meta_merge/dcp_shard_meta_merge.h"
#include "kernels/task_harness.h"

namespace faibench::testing_support {
namespace {

const Task& task() { return *find_task("dcp_shard_meta_merge"); }

class EachVariant : public testing::TestWithParam<const char*> {};

TEST_P(EachVariant, is_right_on_every_case) { check_all_cases(task(), GetParam()); }
TEST_P(EachVariant, is_right_on_random_cases) { check_random_cases(task(), GetParam(), 100); }
TEST_P(EachVariant, is_right_on_the_case_files) { check_case_files(task(), GetParam()); }
INSTANTIATE_TEST_SUITE_P(DcpShardMetaMerge, EachVariant, testing::Values("reference", "baseline", "cpu"));

std::uint32_t fnv1a(std::string_view s) {
  std::uint32_t h = 2166136261u;
  for (const char c : s) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  return h;
}
std::uint32_t crc32(std::string_view s) {
  std::uint32_t h = ~0u;
  for (const char c : s) {
    h ^= static_cast<unsigned char>(c);
    for (int k = 0; k < 8; ++k) h = h >> 1 ^ (h & 1 ? 0xEDB88320u : 0);
  }
  return ~h;
}

TEST(DcpShardMetaMerge, weak_hashes_collide_in_the_cases) {
  int seen = 0;
  for (const Case& c : task().cases) {
    if (c.name != "weak_fnv" && c.name != "weak_crc") continue;
    ++seen;
    Random random(1);
    const TensorMap merged = run_kernel(task().contract, variant_of(task(), "reference").kernel, refs(c.inputs(random)));
    const auto names = merged.at("out_names").flat<std::uint8_t>();
    const auto ends = merged.at("out_name_offsets").flat<std::int64_t>();
    std::set<std::uint32_t> hashes;
    for (std::size_t t = 0; t + 1 < ends.size(); ++t) {
      const std::string_view name(reinterpret_cast<const char*>(names.data()) + ends[t], static_cast<std::size_t>(ends[t + 1] - ends[t]));
      hashes.insert(c.name == "weak_fnv" ? fnv1a(name) : crc32(name));
    }
    EXPECT_EQ(ends.size(), 13u) << c.name;
    EXPECT_EQ(hashes.size(), 6u) << c.name;
  }
  EXPECT_EQ(seen, 2);
}

TEST(DcpShardMetaMerge, the_floor_counts_what_is_read_and_the_distinct_names_written) {
  const TensorMap inputs = dcp_shard_meta_merge::merge_input({{{"ab", 0, 1}, {"cde", 0, 1}}, {{"ab", 1, 1}}});
  EXPECT_EQ(task().floor(refs(inputs)).bytes, 7 + 24 * 3 + 5 + 16 * 2);
}

TEST(DcpShardMetaMerge, cpu_agrees_with_the_reference_on_the_standard_workload) {
  Random random(task().name, "standard", 1, 0);
  const TensorMap inputs = task().find_workload("standard")->parts[0](random);
  EXPECT_EQ(inputs.at("offset").size(), 43072);
  const TensorMap wanted = run_kernel(task().contract, variant_of(task(), "reference").kernel, refs(inputs));
  EXPECT_EQ(wanted.at("total").size(), 40096);
  check_inputs(task(), variant_of(task(), "cpu"), inputs);
}

}  // namespace
}  // namespace faibench::testing_support
