#include "task/names.h"

#include <gmock/gmock.h>

namespace faibench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<std::string> known = {"coalesced_matrix_transpose", "flash_causal_attn_prefill", "moe_routing_map_fuse", "moe_routing_map_pad", "cpu", "cuda"};

TEST(EditDistance, counts_insertions_deletions_replacements_and_swaps) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("cpu", "cpu"), 0);
  EXPECT_EQ(edit_distance("cp", "cpu"), 1);
  EXPECT_EQ(edit_distance("cpuu", "cpu"), 1);
  EXPECT_EQ(edit_distance("gpu", "cpu"), 1);
  EXPECT_EQ(edit_distance("pcu", "cpu"), 1);
  EXPECT_EQ(edit_distance("", "cuda"), 4);
}

TEST(Nearest, finds_typing_errors) {
  EXPECT_THAT(nearest("flash_casual_attn_prefil", known), ElementsAre("flash_causal_attn_prefill"));
  EXPECT_THAT(nearest("gpu", known), ElementsAre("cpu"));
}

TEST(Nearest, finds_parts_of_names) {
  EXPECT_THAT(nearest("transpose", known), ElementsAre("coalesced_matrix_transpose"));
  EXPECT_THAT(nearest("moe_routing", known), ElementsAre("moe_routing_map_fuse", "moe_routing_map_pad"));
}

TEST(Nearest, is_empty_for_what_resembles_nothing) {
  EXPECT_THAT(nearest("zzzzzzzzzz", known), IsEmpty());
  EXPECT_THAT(nearest("", known), IsEmpty());
  EXPECT_THAT(nearest(std::string(100000, 'x'), known), IsEmpty());
}

TEST(UnknownName, says_what_was_meant_and_where_all_are) {
  EXPECT_STREQ(unknown_name("variant", "gpu", known, "see there").what(), "unknown variant 'gpu': did you mean cpu? (see there)");
  EXPECT_STREQ(unknown_name("task", "moe_routing", known, "see there").what(), "unknown task 'moe_routing': did you mean moe_routing_map_fuse or moe_routing_map_pad? (see there)");
  EXPECT_STREQ(unknown_name("task", "zzzzzzzz", known, "see there").what(), "unknown task 'zzzzzzzz' (see there)");
}

TEST(UnknownName, shows_no_escape_sequences) { EXPECT_STREQ(unknown_name("task", "\x1b[31m\n", known, "x").what(), "unknown task '?[31m?' (x)"); }

}  // namespace
}  // namespace faibench
