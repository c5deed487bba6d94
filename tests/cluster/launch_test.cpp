#include "cluster/launch.h"

#include <gtest/gtest.h>

#include <csignal>
#include <map>

#include "cluster/deadline.h"
#include "cluster/stop_signals.h"

namespace faibench {
namespace {

LaunchView view(int world_size, std::map<std::string, std::string> environment) {
  const auto kept = std::make_shared<std::map<std::string, std::string>>(std::move(environment));
  return {world_size, [kept](const char* name) { return kept->contains(name) ? kept->at(name).c_str() : nullptr; }};
}

TEST(WrongLaunch, says_what_to_do_where_slurm_started_more_tasks_than_mpi_sees) {
  const auto line = wrong_launch(view(1, {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "2"}}));
  ASSERT_TRUE(line);
  EXPECT_NE(line->find("srun --mpi=pmix"), std::string::npos);
  EXPECT_EQ(line->find('\n'), std::string::npos);
}

TEST(WrongLaunch, trusts_a_step_before_the_allocation_and_mpirun_before_both) {
  EXPECT_FALSE(wrong_launch(view(1, {})));
  EXPECT_FALSE(wrong_launch(view(4, {{"SLURM_NTASKS", "4"}})));
  EXPECT_FALSE(wrong_launch(view(2, {{"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "2"}})));
  EXPECT_TRUE(wrong_launch(view(1, {{"SLURM_NTASKS", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}})));
  EXPECT_FALSE(wrong_launch(view(2, {{"SLURM_NTASKS", "4"}, {"OMPI_COMM_WORLD_SIZE", "2"}})));
}

TEST(WrongLaunch, says_that_mpirun_is_of_another_mpi) {
  const auto line = wrong_launch(view(1, {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "2"}}));
  ASSERT_TRUE(line);
  EXPECT_NE(line->find("mpirun started 4 ranks, but MPI sees 1"), std::string::npos);
  EXPECT_FALSE(speaks_for_launch(view(1, {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "2"}, {"SLURM_PROCID", "0"}})));
}

TEST(WrongLaunch, is_spoken_of_by_the_first_task_alone) {
  EXPECT_TRUE(speaks_for_launch(view(1, {})));
  EXPECT_TRUE(speaks_for_launch(view(1, {{"SLURM_PROCID", "0"}})));
  EXPECT_FALSE(speaks_for_launch(view(1, {{"SLURM_PROCID", "3"}})));
}

TEST(StopSignals, are_noted_and_given_back) {
  {
    const StopSignals signals;
    EXPECT_EQ(StopSignals::received(), 0);
    std::raise(SIGUSR1);
    std::raise(SIGTERM);  // the first one stands
    EXPECT_EQ(StopSignals::received(), SIGUSR1);
  }
  struct sigaction now {};
  sigaction(SIGTERM, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
  EXPECT_EQ(exit_code_of_signal(SIGINT), 130);
  EXPECT_EQ(exit_code_of_signal(SIGTERM), 143);
  EXPECT_EQ(exit_code_of_signal(SIGUSR1), 1);
  EXPECT_EQ(stop_signal_name(SIGTERM), "SIGTERM");
}

TEST(Deadline, acts_only_when_it_is_missed) {
  bool expired = false;
  { const Deadline met(60, [&] { expired = true; }); }
  EXPECT_FALSE(expired);
  std::atomic<bool> missed = false;
  {
    const Deadline late(0.001, [&] { missed = true; });
    while (!missed) std::this_thread::yield();
  }
  EXPECT_TRUE(missed);
}

}  // namespace
}  // namespace faibench
