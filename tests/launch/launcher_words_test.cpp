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

TEST(Casualty, may_be_a_whole_host) {
  for (const char* line : {"  Remote daemon: [[48061,0],2] on node h2", "srun: error: Node failure on h2"}) {
    const auto found = casualty_in(line);
    ASSERT_TRUE(found) << line;
    EXPECT_TRUE(is_lost_host(*found));
    EXPECT_EQ(describe(*found), "host h2 is lost: its launch daemon died or cannot be reached");
  }
  EXPECT_FALSE(casualty_in("  HNP daemon   : [[48061,0],0] on node head"));
  EXPECT_FALSE(is_lost_host({-1, "", "the ranks did not come through the start-up"}));
  EXPECT_FALSE(is_lost_host({2, "h2", "died"}));
}

TEST(Casualty, may_be_a_host_that_cannot_be_had) {
  const auto found = casualty_in("ORTE was unable to reliably start one or more daemons.");
  ASSERT_TRUE(found);
  EXPECT_TRUE(is_failed_start(*found));
  EXPECT_FALSE(is_lost_host(*found));
  EXPECT_FALSE(is_failed_start({2, "h2", "died"}));
}

TEST(Casualty, knows_a_host_with_and_without_its_domain) {
  EXPECT_TRUE(is_same_host("h2", "h2"));
  EXPECT_TRUE(is_same_host("h2.cluster.org", "h2"));
  EXPECT_TRUE(is_same_host("h2", "h2.cluster.org"));
  EXPECT_FALSE(is_same_host("h2.north.org", "h2.south.org"));
  EXPECT_FALSE(is_same_host("h2", "h20"));
}

TEST(Casualty, is_in_no_other_line) {
  EXPECT_FALSE(casualty_in(""));
  EXPECT_FALSE(casualty_in("[1/9] grpo_rloo_advantage/cpu passed"));
  EXPECT_FALSE(casualty_in("srun: job 12 queued and waiting for resources"));
  EXPECT_FALSE(casualty_in("faibench: stopped by SIGTERM: 1 of 9 judged"));
}

}  // namespace
}  // namespace faibench
