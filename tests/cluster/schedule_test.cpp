#include "cluster/schedule.h"

#include <gtest/gtest.h>

#include "tensor/error.h"

namespace faibench {
namespace {

WorkItem cpu(double seconds) { return {.expected_seconds = seconds, .slot_seconds = seconds / 2}; }

TEST(Schedule, hands_out_the_longest_first) {
  WorkSchedule schedule({cpu(1), cpu(3), cpu(2)}, {RankSeat{.slots = {0}}});
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    schedule.rank_is_free(0);
    const auto next = schedule.next();
    ASSERT_TRUE(next);
    order.push_back(next->item);
    schedule.finished(next->item);
  }
  EXPECT_EQ(order, (std::vector<int>{1, 2, 0}));
  EXPECT_EQ(schedule.waiting(), 0);
  EXPECT_EQ(schedule.in_flight(), 0);
}

TEST(Schedule, gives_nothing_to_ranks_that_are_not_free) {
  WorkSchedule schedule({cpu(1)}, {RankSeat{.slots = {0}}});
  EXPECT_FALSE(schedule.next());
}

TEST(Schedule, spreads_the_first_items_over_idle_slots) {
  // Two nodes of two ranks: the second item goes to the other node, not to the neighbour who waits for the same slot.
  WorkSchedule schedule({cpu(4), cpu(3), cpu(2), cpu(1)}, {{.slots = {0}}, {.slots = {0}}, {.slots = {1}}, {.slots = {1}}});
  for (int rank = 0; rank < 4; ++rank) schedule.rank_is_free(rank);
  const auto first = schedule.next(), second = schedule.next();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->rank, 0);
  EXPECT_EQ(second->rank, 2);
}

TEST(Schedule, keeps_gpu_items_for_ranks_with_a_gpu) {
  WorkSchedule schedule({cpu(9), {.expected_seconds = 1, .slot_seconds = 1, .needs_gpu = true}}, {{.slots = {0}}, {.slots = {1}, .has_gpu = true}});
  schedule.rank_is_free(0);
  schedule.rank_is_free(1);
  std::vector<int> rank_of(2, -1);
  while (const auto next = schedule.next()) rank_of[static_cast<std::size_t>(next->item)] = next->rank;
  EXPECT_EQ(rank_of, (std::vector<int>{0, 1}));
}

TEST(Schedule, lets_a_gpu_item_wait_for_the_rank_that_can_take_it) {
  WorkSchedule schedule({{.expected_seconds = 1, .slot_seconds = 1, .needs_gpu = true}}, {{.slots = {0}}, {.slots = {1}, .has_gpu = true}});
  schedule.rank_is_free(0);
  EXPECT_FALSE(schedule.next());
  EXPECT_FALSE(schedule.can_take(0, 0));
  schedule.rank_is_free(1);
  EXPECT_EQ(schedule.next()->rank, 1);
}

TEST(Schedule, refuses_items_that_no_rank_can_take) {
  EXPECT_THROW(WorkSchedule({{.expected_seconds = 1, .needs_gpu = true}}, {RankSeat{.slots = {0}}}), Error);
}

TEST(Schedule, does_one_thing_at_a_time_where_ranks_share_cores) {
  const RankSeat shared{.slots = {0}, .has_gpu = false, .whole_task_in_slot = true};
  WorkSchedule schedule({cpu(2), cpu(1)}, {shared, shared});
  schedule.rank_is_free(0);
  schedule.rank_is_free(1);
  const auto first = schedule.next();
  ASSERT_TRUE(first);
  EXPECT_FALSE(schedule.next());
  schedule.finished(first->item);
  EXPECT_TRUE(schedule.next());
}

TEST(Schedule, prefers_work_without_a_slot_where_the_slot_is_busy) {
  WorkSchedule schedule({cpu(5), cpu(4), {.expected_seconds = 1, .slot_seconds = 0}}, {{.slots = {0}}, {.slots = {0}}});
  schedule.rank_is_free(0);
  ASSERT_EQ(schedule.next()->item, 0);
  schedule.rank_is_free(1);
  EXPECT_EQ(schedule.next()->item, 2);
}

TEST(Schedule, hands_an_item_that_was_put_back_out_again) {
  WorkSchedule schedule({cpu(1)}, {RankSeat{.slots = {0}}});
  schedule.rank_is_free(0);
  schedule.put_back(schedule.next()->item);
  EXPECT_EQ(schedule.waiting(), 1);
  schedule.rank_is_free(0);
  EXPECT_EQ(schedule.next()->item, 0);
}

TEST(Schedule, refuses_to_finish_what_was_not_handed_out) {
  WorkSchedule schedule({cpu(1)}, {RankSeat{.slots = {0}}});
  EXPECT_THROW(schedule.finished(0), Error);
}

TEST(Schedule, starts_scarce_slots_with_short_items) {
  // Four ranks on one slot, half of each item timed: the slot is the bottleneck, so the first item must reach it soon.
  std::vector<WorkItem> items;
  for (int i = 1; i <= 20; ++i) items.push_back(cpu(i));
  WorkSchedule schedule(items, std::vector<RankSeat>(4, RankSeat{.slots = {0}}));
  schedule.rank_is_free(2);
  EXPECT_EQ(schedule.next()->item, 0);
}

}  // namespace
}  // namespace faibench
