#include "launch/job_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "temporary_folder.h"
#include "tensor/error.h"

namespace faibench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LaunchOptions options(std::vector<std::string> job, std::string launcher = "mpirun") {
  LaunchOptions launch;
  launch.ranks = 4;
  launch.launcher = std::move(launcher);
  launch.job = std::move(job);
  launch.program = "/bin/faibench";
  return launch;
}
std::vector<std::string> after_program(const std::vector<std::string>& words) { return {std::next(std::ranges::find(words, "/bin/faibench")), words.end()}; }
bool has(const std::vector<std::string>& words, const std::string& word) { return std::ranges::find(words, word) != words.end(); }

TEST(JobCommand, starts_as_asked_and_goes_on_over_the_journal) {
  const JobCommand command(options({"run", "--workload", "smoke", "--out", "a.h5", "--force"}));
  EXPECT_EQ(command.run_file(), "a.h5");
  EXPECT_THAT(after_program(command.first()), ElementsAre("run", "--workload", "smoke", "--out", "a.h5", "--force"));
  EXPECT_THAT(after_program(command.again()), ElementsAre("run", "--workload", "smoke", "--out", "a.h5", "--force"));
  EXPECT_THAT(after_program(command.resume({{"t/cpu", "rank 1 died"}})), ElementsAre("run", "--workload", "smoke", "--resume", "a.h5", "--give-up", "t/cpu=rank 1 died"));
}

TEST(JobCommand, names_a_file_where_none_was_asked_for) {
  const JobCommand command(options({"run"}));
  EXPECT_EQ(command.run_file().extension(), ".h5");
  EXPECT_THAT(after_program(command.first()), ElementsAre("run", "--out", command.run_file().string()));
  EXPECT_THAT(after_program(command.again()), ElementsAre("run", "--out", command.run_file().string(), "--force"));
}

TEST(JobCommand, resumes_what_was_a_resume) {
  const JobCommand command(options({"run", "--resume=r/a.jsonl"}));
  EXPECT_EQ(command.run_file(), "r/a.h5");
  EXPECT_THAT(after_program(command.resume({})), ElementsAre("run", "--resume=r/a.jsonl"));
}

TEST(JobCommand, tells_each_launcher_what_it_understands) {
  const auto mpirun = JobCommand(options({"scale", "t", "--out", "s.h5"}, "/opt/mpi/bin/mpirun --mca pml 'ob1'")).first();
  EXPECT_EQ(mpirun[0], "/opt/mpi/bin/mpirun");
  EXPECT_EQ(mpirun[3], "ob1");
  EXPECT_TRUE(has(mpirun, "FAIBENCH_JOB"));
  const auto srun = JobCommand(options({"run"}, "srun --exclusive")).first();
  EXPECT_TRUE(has(srun, "--kill-on-bad-exit=1"));
  EXPECT_TRUE(has(srun, "--mpi=pmix"));
  EXPECT_FALSE(has(srun, "-x"));
  EXPECT_FALSE(has(JobCommand(options({"run"}, "srun --mpi=pmi2")).first(), "--mpi=pmix"));
}

TEST(JobCommand, refuses_what_it_cannot_start) {
  EXPECT_THROW(JobCommand(options({"run"}, "qsub")), Error);
  EXPECT_THROW(JobCommand(options({"run"}, "  ")), Error);
  EXPECT_THROW(JobCommand(options({"run"}, "mpirun 'open")), Error);
  EXPECT_THROW(JobCommand(options({})), Error);
  EXPECT_THROW(JobCommand(options({"doctor"})), Error);
  LaunchOptions hosts = options({"run"}, "srun");
  hosts.hostfile = "hosts";
  EXPECT_THROW(JobCommand{hosts}, Error);
}

TEST(JobCommand, knows_the_hosts_of_its_file_once_each) {
  const testing_support::TemporaryFolder folder;
  LaunchOptions launch = options({"run"});
  launch.hostfile = (folder.path() / "hosts").string();
  std::ofstream(launch.hostfile) << "# ours\n10.0.0.1 slots=2\n10.0.0.2\n\n10.0.0.1 slots=4 # again\n";
  const JobCommand command(launch);
  EXPECT_THAT(command.hosts_of_file(), ElementsAre("10.0.0.1", "10.0.0.2"));
  const auto words = command.sweep_on("10.0.0.2", "cookie");
  EXPECT_THAT(after_program(words), ElementsAre("launch", "--sweep", "cookie"));
  EXPECT_TRUE(has(words, "10.0.0.2"));
}

TEST(Words, are_split_as_a_shell_would) { EXPECT_THAT(split_words("a  'b c' \"d'e\" f\\ g \"\""), ElementsAre("a", "b c", "d'e", "f g", "")); }

}  // namespace
}  // namespace faibench
