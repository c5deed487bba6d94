#include "launch/launcher_words.h"

#include <gtest/gtest.h>

namespace faibench {
namespace {

TEST(Casualty, is_found_in_the_words_of_mpirun) {
  const auto found = casualty_in("mpirun noticed that process rank 1 with PID 0 on node h2 exited on signal 9 (Killed).");
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "rank 1 on h2 died of signal 9 (Killed)");
}

TEST(Casualty, is_found_in_the_words_of_srun) {
  const auto found = casualty_in("srun: error: fn1: task 3: Killed");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 3);
  EXPECT_EQ(found->host, "fn1");
}

TEST(Casualty, is_found_in_the_words_of_a_watchdog) {
  const auto found = casualty_in("faibench: stuck: rank 3 on node7 shows no sign of life for 9 s, last seen in gang t/mpi@2 (block 7); rank 0 on node1 waits");
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "rank 3 on node7 shows no sign of life for 9 s, last seen in gang t/mpi@2 (block 7)");
}

TEST(Casualty, is_in_no_other_line) {
  EXPECT_FALSE(casualty_in(""));
  EXPECT_FALSE(casualty_in("[1/9] grpo_rloo_advantage/cpu passed"));
  EXPECT_FALSE(casualty_in("srun: job 12 queued and waiting for resources"));
  EXPECT_FALSE(casualty_in("faibench: stopped by SIGTERM: 1 of 9 judged"));
}

}  // namespace
}  // namespace faibench
