#include "kernels/serving/safetensors_shard_route/safetensors_shard_route.h"
#include "kernels/execution_harness.h"

namespace faibench::testing_support {
namespace {

const Task& task() { return *find_task("safetensors_shard_route"); }

class EachVariant : public testing::TestWithParam<const char*> {};

TEST_P(EachVariant, is_right_on_every_case) { check_all_cases(task(), GetParam()); }
TEST_P(EachVariant, is_right_on_random_cases) { check_random_cases(task(), GetParam(), 100); }
TEST_P(EachVariant, is_right_on_the_case_files) { check_case_files(task(), GetParam()); }
TEST_P(EachVariant, names_the_reserved_name) {
  const Rejected rejected = rejection_by(task(), GetParam(), case_inputs(task(), "reserved_name_last"));
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->tensor, "names");
  EXPECT_EQ(rejected->index, 2);
  EXPECT_EQ(rejected->message.find("names[2] is __metadata__: "), 0u) << rejected->message;
}
INSTANTIATE_TEST_SUITE_P(SafetensorsShardRoute, EachVariant, testing::Values("reference", "baseline", "cpu"));

TEST(SafetensorsShardRoute, is_right_on_any_number_of_threads) { check_on_threads(task()); }

TEST(SafetensorsShardRoute, is_right_on_every_instruction_set) { check_on_instruction_sets(task()); }

// Names and queries in heap blocks of exactly their size: AddressSanitizer sees one byte read beyond.
TEST(SafetensorsShardRoute, reads_nothing_past_the_buffers) {
  for (std::size_t length = 1; length <= 130; ++length) {
    const std::vector<std::uint8_t> names(length, 'n'), queries(length, 'n');
    const std::vector<std::int64_t> offsets = {0, static_cast<std::int64_t>(length)}, file_offsets = {0, 1};
    std::int32_t file = 7;
    std::int64_t entry = 7;
    const auto n = static_cast<std::int64_t>(length);
    const Rejected rejected = faibench::safetensors_shard_route::cpu::resolve_tensor_files({names.data(), {n}}, {offsets.data(), {2}}, {file_offsets.data(), {2}}, {queries.data(), {n}}, {offsets.data(), {2}},
                                                                                          {&file, {1}}, {&entry, {1}});
    EXPECT_FALSE(rejected);
    EXPECT_EQ(file, 0);
    EXPECT_EQ(entry, 0);
  }
}

}  // namespace
}  // namespace faibench::testing_support
