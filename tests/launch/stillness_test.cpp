#include "launch/stillness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace faibench {
namespace {

Stamp stamp_of(int rank, std::int64_t beats, std::int64_t steps, double deadline = 10) {
  Stamp stamp;
  stamp.rank = rank;
  stamp.host = "node" + std::to_string(rank);
  stamp.phase = "gang";
  stamp.item = "t/mpi@2";
  stamp.deadline_seconds = deadline;
  stamp.beats = beats;
  stamp.steps = steps;
  return stamp;
}

// Looks once a second; rank 0 always moves, rank 1 as told. The second at which a casualty was found, -1: none.
template <class Next>
int first_casualty(Stillness& stillness, int seconds, Next next, std::optional<Casualty>* found = nullptr) {
  for (int s = 0; s < seconds; ++s) {
    if (auto casualty = stillness.look({{0, stamp_of(0, s, s)}, {1, next(s)}}, s)) {
      if (found) *found = casualty;
      return s;
    }
  }
  return -1;
}

TEST(Stillness, finds_nobody_while_all_move) {
  Stillness stillness(20);
  EXPECT_EQ(first_casualty(stillness, 300, [](int s) { return stamp_of(1, s, s); }), -1);
}

TEST(Stillness, names_a_rank_whose_watchdog_stands_still) {
  Stillness stillness(20);
  std::optional<Casualty> found;
  const int at = first_casualty(stillness, 300, [](int s) { return stamp_of(1, std::min(s, 50), std::min(s, 50)); }, &found);
  EXPECT_GT(at, 50 + 15);  // half of 20, and five beats
  EXPECT_LT(at, 50 + 18);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->host, "node1");
  EXPECT_THAT(found->how, testing::HasSubstr("no sign of life"));
  EXPECT_THAT(found->how, testing::HasSubstr("gang t/mpi@2"));
}

TEST(Stillness, gives_a_rank_beyond_its_phase_time_to_end_the_job_itself) {
  Stillness stillness(100, 5);
  std::optional<Casualty> found;
  const int at = first_casualty(stillness, 300, [](int s) { return stamp_of(1, s, std::min(s, 50)); }, &found);
  EXPECT_GT(at, 50 + 10 + 5);
  EXPECT_LT(at, 50 + 10 + 8);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->how, testing::HasSubstr("makes no progress"));
}

TEST(Stillness, blames_nobody_in_a_phase_without_a_deadline) {
  Stillness stillness(20);
  EXPECT_EQ(first_casualty(stillness, 300, [](int s) { return stamp_of(1, s, 1, 0); }), -1);
}

TEST(Stillness, blames_nobody_after_the_reader_itself_was_stopped) {
  Stillness stillness(20);
  EXPECT_FALSE(stillness.look({{1, stamp_of(1, 1, 1)}}, 0));
  EXPECT_FALSE(stillness.look({{1, stamp_of(1, 1, 1)}}, 1000));
  EXPECT_FALSE(stillness.look({{1, stamp_of(1, 2, 2)}}, 1001));
}

}  // namespace
}  // namespace faibench
