#include <gmock/gmock.h>

#include "cli/program.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing_support::faibench;
using testing_support::is_one_complaint;
using testing_support::Outcome;
using testing_support::Scratch;

TEST(Launch, says_what_to_launch_where_nothing_was_named) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"launch", "-n", "2"}, {"launch", "--", "doctor"}}) {
    const Outcome outcome = faibench(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_TRUE(is_one_complaint(outcome.err));
    EXPECT_THAT(outcome.err, HasSubstr("run or scale"));
  }
}

TEST(Launch, refuses_launchers_it_does_not_know) {
  const Outcome outcome = faibench({"launch", "--launcher", "qsub -x", "--", "run"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_complaint(outcome.err));
  EXPECT_THAT(outcome.err, HasSubstr("mpirun and srun"));
}

TEST(Launch, names_its_own_bad_option_and_not_the_jobs) {
  const Outcome outcome = faibench({"launch", "--hang-after", "0", "--", "run", "--workload", "smoke"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_complaint(outcome.err));
  EXPECT_THAT(outcome.err, HasSubstr("--hang-after"));
}

TEST(Launch, says_that_the_launcher_cannot_be_started) {
  const Scratch scratch;
  const Outcome outcome = faibench({"launch", "--launcher", scratch.file("mpirun"), "--", "run", "--out", scratch.file("run.h5")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_complaint(outcome.err));
  EXPECT_THAT(outcome.err, HasSubstr("No such file or directory"));
}

TEST(Launch, sweeps_a_host_that_has_nothing_left_in_silence) {
  const Outcome outcome = faibench({"launch", "--sweep", "no-such-job"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out + outcome.err, "");
}

TEST(Launch, hands_on_the_exit_code_of_a_run_with_bad_input) {
  const Scratch scratch;
  const Outcome outcome = faibench({"launch", "--launcher", "mpirun --oversubscribe --bind-to none", "-n", "2", "--", "run", "--tasks", "no_such_task", "--out", scratch.file("run.h5")});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("no_such_task"));
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("launch 2")));
}

}  // namespace
}  // namespace faibench
