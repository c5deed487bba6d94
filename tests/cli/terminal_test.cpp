#include "cli/terminal.h"

#include <gtest/gtest.h>

namespace faibench {
namespace {

TEST(Wrapped, breaks_at_spaces_and_indents_every_line) {
  EXPECT_EQ(wrapped("one two three", 2, 9), "  one two\n  three\n");
  EXPECT_EQ(wrapped("one\ntwo", 1, 80), " one\n two\n");
  EXPECT_EQ(wrapped("averyverylongword b", 0, 5), "averyverylongword\nb\n");
  EXPECT_EQ(wrapped("", 2, 80), "");
}

TEST(Columns, align_and_leave_no_trailing_spaces) {
  EXPECT_EQ(columns({{"a", "bb", "c"}, {"aaa", "b", ""}}, 1, 80), " a    bb  c\n aaa  b\n");
}

TEST(Columns, the_last_one_goes_on_below_itself) {
  EXPECT_EQ(columns({{"name", "one two three four five six"}}, 0, 26), "name  one two three four\n      five six\n");
}

TEST(Units, are_chosen_by_size) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(64.0 * 1024 * 1024 * 1024), "64 GiB");
  EXPECT_EQ(rate_text(24.1e9, "B"), "24 GB/s");
  EXPECT_EQ(rate_text(1.81e11, "FLOP"), "181 GFLOP/s");
  EXPECT_EQ(seconds_text(2.1e-6), "2.1 us");
  EXPECT_EQ(seconds_text(0.25), "250 ms");
  EXPECT_EQ(seconds_text(3), "3 s");
  EXPECT_EQ(number_text(3.16), "3.16");
}

TEST(WantsColor, not_without_a_terminal) { EXPECT_FALSE(wants_color(-1)); }

}  // namespace
}  // namespace faibench
