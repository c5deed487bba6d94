#include "launch/retries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace faibench {
namespace {

TEST(Retries, give_up_an_item_after_the_first_try_and_two_more) {
  Retries retries(2);
  EXPECT_TRUE(retries.after({{"a/cpu"}, true, "rank 1 died"}));
  EXPECT_TRUE(retries.after({{"a/cpu", "b/cpu"}, false, "rank 1 died"}));
  EXPECT_TRUE(retries.given_up().empty());
  EXPECT_TRUE(retries.after({{"a/cpu"}, false, "rank 1 died"}));
  ASSERT_EQ(retries.given_up().size(), 1u);
  EXPECT_EQ(retries.given_up()[0].item, "a/cpu");
  EXPECT_THAT(retries.given_up()[0].why, testing::HasSubstr("rank 1 died"));
  EXPECT_THAT(retries.given_up()[0].why, testing::HasSubstr("3 breaks"));
}

TEST(Retries, end_where_launches_get_nowhere_and_nobody_is_to_blame) {
  Retries retries(2);
  EXPECT_TRUE(retries.after({{}, false, "why"}));
  EXPECT_TRUE(retries.after({{}, false, "why"}));
  EXPECT_FALSE(retries.after({{}, false, "why"}));
}

TEST(Retries, go_on_for_ever_while_the_journal_grows) {
  Retries retries(2);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(retries.after({{}, true, "why"}));
}

TEST(Retries, end_where_even_giving_up_does_not_help) {
  Retries retries(0);
  EXPECT_TRUE(retries.after({{"a/cpu"}, false, "why"}));
  EXPECT_EQ(retries.given_up().size(), 1u);
  EXPECT_FALSE(retries.after({{"a/cpu"}, false, "why"}));
  EXPECT_EQ(retries.given_up().size(), 1u);
}

}  // namespace
}  // namespace faibench
