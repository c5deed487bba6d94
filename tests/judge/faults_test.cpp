// Candidates that crash, hang, eat memory, cheat or leave things behind: the right verdict each time, and the next task unharmed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "judge/candidate.h"
#include "judge/judge.h"
#include "judge/judge_process.h"

namespace faibench {
namespace {

struct Fault {
  const char* library;
  Verdict verdict;
  const char* reason;
  const char* detail_part;
};
void PrintTo(const Fault& fault, std::ostream* os) { *os << fault.library; }

JudgeJob job_for(const std::string& library) {
  adopt_orphans();
  prctl(PR_SET_DUMPABLE, 0);  // as in a judge's process
  JudgeJob job;
  job.task = "coalesced_matrix_transpose";
  job.variant = "library:" + std::string(std::getenv("FAIBENCH_FAULTS")) + "/" + library + ".so";
  job.workload = "smoke";
  job.call_limit_seconds = library == "hang" ? 1 : 60;
  job.memory_limit_bytes = std::int64_t{256} << 20;
  job.budget_seconds = 0.1;
  job.ref_speedup = 3;
  return job;
}

Record judged(const std::string& library) {
  Record record;
  for (int tries = 0; tries < 5; ++tries) {  // whatever is judged, a busy machine may leave its times too noisy to be scored
    record = judge_task(job_for(library), worker_path(), [](const std::string&) {});
    if (record.verdict != Verdict::noisy) break;
  }
  return record;
}

// Processes of any kind that a candidate of this test left behind: its orphans come to this process, so that they all descend from it.
int left_behind() {
  std::map<pid_t, pid_t> parents;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    std::string line;
    if (!std::getline(stat, line)) continue;
    const std::size_t close = line.rfind(')');
    if (close == std::string::npos || close + 4 >= line.size()) continue;
    parents[std::atoi(line.c_str())] = std::atoi(line.c_str() + close + 4);
  }
  return static_cast<int>(std::ranges::count_if(parents, [&](const auto& process) {
    pid_t ancestor = process.second;
    while (ancestor != getpid() && parents.contains(ancestor)) ancestor = parents.at(ancestor);
    return ancestor == getpid();
  }));
}

class Faults : public testing::TestWithParam<Fault> {};

TEST_P(Faults, get_the_right_verdict_and_harm_nobody) {
  const Record record = judged(GetParam().library);
  EXPECT_EQ(name_of(record.verdict), name_of(GetParam().verdict)) << record.detail;
  EXPECT_EQ(record.reason, GetParam().reason) << record.detail;
  EXPECT_NE(record.detail.find(GetParam().detail_part), std::string::npos) << record.detail;
  EXPECT_EQ(record.score, 0);
  EXPECT_EQ(left_behind(), 0);
  const Record next = judged("good");
  EXPECT_EQ(name_of(next.verdict), "passed") << next.detail;
  EXPECT_EQ(left_behind(), 0);
}

INSTANTIATE_TEST_SUITE_P(Judge, Faults,
                         testing::Values(Fault{"segfault", Verdict::crashed, "SIGSEGV", "SIGSEGV"}, Fault{"abort", Verdict::crashed, "SIGABRT", "SIGABRT"},
                                         Fault{"hang", Verdict::timed_out, "time limit", "1 s"}, Fault{"allocate", Verdict::out_of_memory, "memory limit", "256 MiB"},
                                         Fault{"write_after", Verdict::wrong, "out of bounds", "past its end"}, Fault{"write_before", Verdict::wrong, "out of bounds", "before its start"},
                                         Fault{"change_input", Verdict::wrong, "input changed", "input x was changed"},
                                         Fault{"exit_in_constructor", Verdict::crashed, "exit 0", "exit code 0"}, Fault{"exit_in_call", Verdict::crashed, "exit 0", "exit code 0"},
                                         Fault{"throw_exception", Verdict::crashed, "exception", "no plan"}, Fault{"wrong_element", Verdict::wrong, "value", "y["},
                                         Fault{"replay", Verdict::wrong, "value", "y["}, Fault{"shared_memory", Verdict::out_of_memory, "memory limit", "256 MiB"}, Fault{"no_symbol", Verdict::build_failed, "cannot load", "faibench_run"},
                                         Fault{"does_not_exist", Verdict::build_failed, "cannot load", "does_not_exist"}),
                         [](const auto& info) { return std::string(info.param.library); });

TEST(Faults, memory_that_is_only_mapped_runs_out_too) {
  const Record record = judged("allocate_untouched");
  EXPECT_EQ(name_of(record.verdict), "out_of_memory") << record.detail;
  EXPECT_EQ(left_behind(), 0);
}

TEST(Faults, the_last_lines_of_stderr_are_kept) {
  const Record record = judged("abort");
  EXPECT_EQ(record.stderr_tail, "first line\nassertion failed: shape\n");
}

TEST(Faults, a_child_that_left_the_process_group_is_found_and_killed) {
  const Record record = judged("fork_child");
  EXPECT_EQ(name_of(record.verdict), "passed") << record.detail;  // the answers were right
  EXPECT_EQ(left_behind(), 0);
}

// The attacks below leave the answer right unless they succeed; a success shows as a wrong answer, a hang or a speedup.
class Attacks : public testing::TestWithParam<const char*> {};
TEST_P(Attacks, gain_nothing) {
  const Record record = judge_task(job_for(GetParam()), worker_path(), [](const std::string&) {});
  // "noisy" is an answer too: threads left spinning get in the way of nobody but their own candidate.
  EXPECT_TRUE(record.verdict == Verdict::passed || record.verdict == Verdict::noisy) << name_of(record.verdict) << ", " << record.reason << ": " << record.detail;
  EXPECT_EQ(record.score, 0) << record.speedup_low;
  EXPECT_EQ(left_behind(), 0);
}
INSTANTIATE_TEST_SUITE_P(Judge, Attacks, testing::Values("stop_others", "reach_into_judge", "cut_memory", "spin_after"), [](const auto& info) { return std::string(info.param); });

TEST(Faults, garbage_on_stdout_reaches_nobody) {
  const Record record = judged("garbage_stdout");
  EXPECT_EQ(name_of(record.verdict), "passed") << record.detail;
  EXPECT_LT(record.speedup_low, 3);
  EXPECT_EQ(record.score, 0);
}

}  // namespace
}  // namespace faibench
