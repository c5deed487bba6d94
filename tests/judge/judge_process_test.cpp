// The judge as a process: what a rank sees of it.
#include "judge/judge_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "judge/noise_probe.h"
#include "patience.h"

namespace faibench {
namespace {

JudgeJob probe_job(double budget) {
  JudgeJob job;
  job.task = noise_probe_name;
  job.variant = "baseline";
  job.workload = "smoke";
  job.budget_seconds = budget;
  job.ref_speedup = 2;
  return job;
}

JudgeProcess::Outcome outcome_of(JudgeProcess& judge) {
  std::optional<JudgeProcess::Outcome> outcome;
  testing_support::wait_until([&] { return (outcome = judge.poll()).has_value(); });
  return outcome.value_or(JudgeProcess::Outcome{std::nullopt, std::nullopt, "the test waited too long"});
}

// Processes of the session's worker program that descend from this test.
int workers_alive() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream environment(entry.path() / "environ");
    const std::string text((std::istreambuf_iterator<char>(environment)), {});
    count += text.find("FAIBENCH_TEST_MARK=" + std::to_string(getpid())) != std::string::npos && entry.path().filename() != std::to_string(getpid());
  }
  return count;
}

TEST(JudgeProcess, delivers_one_record) {
  JudgeProcess judge(probe_job(0.05));
  const auto outcome = outcome_of(judge);
  ASSERT_TRUE(outcome.record) << outcome.failure;
  EXPECT_EQ(outcome.record->task, noise_probe_name);
  EXPECT_EQ(name_of(outcome.record->verdict), "passed");
  EXPECT_FALSE(judge.poll());
}

TEST(JudgeProcess, calibrates) {
  JudgeJob job;
  job.kind = JudgeJob::Kind::calibrate;
  job.cpus = {0};
  JudgeProcess judge(job);
  const auto outcome = outcome_of(judge);
  ASSERT_TRUE(outcome.peaks) << outcome.failure;
  EXPECT_GT(outcome.peaks->copy_bytes_per_second, 1e8);
  EXPECT_GT(outcome.peaks->operations_per_second, 1e8);
}

TEST(JudgeProcess, says_so_when_the_judge_is_killed) {
  JudgeProcess judge(probe_job(60));
  judge.kill();  // at once: the probe may be sure of its interval within milliseconds
  const auto outcome = outcome_of(judge);
  EXPECT_FALSE(outcome.record);
  EXPECT_EQ(outcome.failure, "the judge was killed by SIGKILL");
}

TEST(JudgeProcess, takes_its_candidates_with_it) {
  setenv("FAIBENCH_TEST_MARK", std::to_string(getpid()).c_str(), 1);
  {
    JudgeJob job = probe_job(60);
    job.task = "coalesced_matrix_transpose";
    job.variant = "library:" + std::string(std::getenv("FAIBENCH_FAULTS")) + "/hang_in_workload.so";
    job.call_limit_seconds = 3600;
    JudgeProcess judge(job);
    EXPECT_TRUE(testing_support::wait_until([] { return workers_alive() == 3; }));  // judge, baseline, candidate
  }
  EXPECT_TRUE(testing_support::wait_until([] { return workers_alive() == 0; }));
}

TEST(JudgeProcess, reports_an_unknown_task_as_a_failure) {
  JudgeJob job = probe_job(0.1);
  job.task = "no_such_task";
  JudgeProcess judge(job);
  EXPECT_NE(outcome_of(judge).failure.find("no_such_task"), std::string::npos);
}

TEST(JudgeJob, survives_the_trip_through_json) {
  JudgeJob job = probe_job(0.25);
  job.cpus = {0, 3};
  job.slot_files = {"/tmp/a"};
  job.peaks.noise_floor = 0.125;
  const JudgeJob back = job_from_json(to_json(job));
  EXPECT_EQ(back.task, job.task);
  EXPECT_EQ(back.cpus, job.cpus);
  EXPECT_EQ(back.slot_files, job.slot_files);
  EXPECT_EQ(back.peaks.noise_floor, 0.125);
  EXPECT_THROW(job_from_json("{\"cpus\": 3}"), Error);
  EXPECT_THROW(job_from_json("nonsense"), Error);
}

}  // namespace
}  // namespace faibench
