// Variants for GPUs through judge and program, on the emulator: verdicts, marks and words of what they do wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "judge/judge.h"
#include "judge/judge_process.h"
#include "judge/processes.h"
#include "judge/candidate.h"
#include "results/run_file.h"

namespace faibench::testing_support {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string task = "coalesced_matrix_transpose";

/// Another folder of libraries while it lives.
class LibrariesFrom {
 public:
  explicit LibrariesFrom(const std::string& folder) { setenv("FAIBENCH_DEVICE_LIBRARIES", folder.c_str(), 1); }
  ~LibrariesFrom() { unsetenv("FAIBENCH_DEVICE_LIBRARIES"); }
};
std::string planted_folder() { return std::getenv("FAIBENCH_PLANTED_DEVICE"); }

Record judged(const std::string& variant) {
  adopt_orphans();
  JudgeJob job;
  job.task = task;
  job.variant = variant;
  job.workload = "smoke";
  job.ref_speedup = 2;
  job.emulate = true;
  return judge_task(job, worker_path(), [](const std::string&) {});
}

TEST(EmulatedVariant, passes_without_a_time_or_a_score) {
  const Record record = judged("cuda");
  EXPECT_EQ(name_of(record.verdict), "passed") << record.reason << ": " << record.detail;
  EXPECT_TRUE(record.emulated);
  EXPECT_EQ(record.score, 0);
  EXPECT_EQ(record.seconds, 0);
  EXPECT_EQ(record.blocks, 0);
  EXPECT_TRUE(record.samples.empty());
  EXPECT_EQ(record.cases, static_cast<std::int64_t>(find_task(task)->cases.size()) + random_cases + 1);  // and the workload's inputs
}

TEST(EmulatedVariant, is_told_what_its_kernel_does_wrong_and_where) {
  const LibrariesFrom planted(planted_folder());
  const Record record = judged("cuda");
  EXPECT_EQ(name_of(record.verdict), "crashed");
  EXPECT_EQ(record.reason, "race on shared memory");
  EXPECT_TRUE(record.emulated);
  for (const char* word : {"case ", "kernel planted_tiles", "block", "thread", "0x"}) EXPECT_THAT(record.detail, HasSubstr(word));
}

TEST(EmulatedVariant, is_wrong_where_its_values_are) {
  const LibrariesFrom planted(planted_folder());
  const Record record = judged("cuda_baseline");
  EXPECT_EQ(name_of(record.verdict), "wrong");
  EXPECT_EQ(record.reason, "value");
  EXPECT_THAT(record.detail, HasSubstr("y["));
}

TEST(EmulatedVariant, is_one_for_gpus) {
  const Record record = judged("cpu");
  EXPECT_EQ(name_of(record.verdict), "build_failed");
  EXPECT_THAT(record.detail, HasSubstr("nothing to emulate"));
}

std::vector<std::string> case_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(std::getenv("FAIBENCH_CASES")) / task)) files.push_back(entry.path().string());
  EXPECT_FALSE(files.empty());
  return files;
}

Outcome check(std::vector<std::string> options, const Surroundings& surroundings = {}) {
  options.insert(options.begin(), "check");
  for (const std::string& file : case_files()) options.push_back(file);
  return faibench(options, surroundings);
}

TEST(CheckEmulated, runs_case_files_through_the_variants_for_gpus) {
  const Outcome outcome = check({"--emulate", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["held"], 2 * case_files().size());  // cuda_baseline and cuda
  for (const auto& line : json["lines"]) EXPECT_EQ(line["emulated"], true);
  EXPECT_THAT(check({"--emulate", "--variant", "cuda"}).out, HasSubstr("cuda (emulated)"));
}

TEST(CheckEmulated, names_kernel_and_thread_of_a_fault) {
  const Outcome outcome = check({"--emulate", "--variant", "cuda"}, {{"FAIBENCH_DEVICE_LIBRARIES=" + planted_folder()}, ""});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("crashed (read of shared memory never written): kernel planted_tiles"));
}

TEST(CheckEmulated, says_what_is_missing) {
  Outcome outcome = check({"--emulate"}, {{"FAIBENCH_DEVICE_LIBRARIES=/nowhere"}, ""});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_complaint(outcome.err)) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("/nowhere/libfaibench_emulated.so is missing"));
  outcome = check({"--emulate", "--variant", "cpu"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("'cpu' of " + task + " is none"));
  outcome = check({"--variant", "cuda"}, {{"CUDA_VISIBLE_DEVICES="}, ""});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_TRUE(is_one_complaint(outcome.err)) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("--emulate"));
}

TEST(RunEmulated, says_what_is_missing_before_anything_is_written) {
  const Scratch scratch;
  const Surroundings nowhere{{"FAIBENCH_DEVICE_LIBRARIES=/nowhere"}, ""};
  Outcome outcome = faibench({"run", "--emulate", "--variant", "cuda", "--out", scratch.file("run.h5")}, nowhere);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_complaint(outcome.err)) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("no emulated kernels"));
  outcome = faibench({"run", "--emulate", "--variant", "cuda", "--workload", "standard", "--out", scratch.file("run.h5")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_complaint(outcome.err)) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("its workload is smoke"));
  EXPECT_FALSE(std::filesystem::exists(scratch.file("run.h5")));
}

TEST(RunEmulated, fails_with_the_fault_in_the_scoreboard) {
  const Scratch scratch;
  const Outcome outcome = faibench({"run", "--emulate", "--variant", "cuda", "--tasks", task, "--out", scratch.file("run.h5")}, {{"FAIBENCH_DEVICE_LIBRARIES=" + planted_folder()}, ""});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("cuda (emulated)"));
  EXPECT_THAT(outcome.out, HasSubstr("race on shared memory"));
  EXPECT_THAT(outcome.out, HasSubstr("1 variant for GPUs emulated on CPUs, neither timed nor scored: 0 passed, 1 did not"));
}

TEST(RunEmulated, judges_every_task_with_a_variant_for_gpus_on_two_ranks_and_resumes) {
  const Scratch scratch;
  const std::string file = scratch.file("run.h5"), program = std::getenv("FAIBENCH_BIN");
  const Outcome outcome = run_command({"mpirun", "--oversubscribe", "-n", "2", program, "run", "--workload", "smoke", "--variant", "cuda", "--emulate", "--no-color", "--out", file});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  std::size_t expected = 0;
  for (const Task* one : all_tasks()) expected += one->find_variant("cuda") != nullptr;
  const std::vector<Record> records = read_run(file).records;
  EXPECT_EQ(records.size(), expected);
  for (const Record& record : records) {
    EXPECT_EQ(name_of(record.verdict), "passed") << record.task << ": " << record.detail;
    EXPECT_TRUE(record.emulated);
    EXPECT_EQ(record.variant, "cuda");
    EXPECT_EQ(record.score, 0);
  }
  EXPECT_THAT(outcome.out, HasSubstr("neither timed nor scored: " + std::to_string(expected) + " passed, 0 did not"));
  const Outcome again = run_command({"mpirun", "--oversubscribe", "-n", "2", program, "run", "--resume", file});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr(std::to_string(expected) + " of " + std::to_string(expected) + " were judged before"));
  const Outcome report = faibench({"report", file});
  EXPECT_THAT(report.out, HasSubstr("cuda (emulated)"));
  EXPECT_THAT(report.out, Not(HasSubstr("mean score")));
}

}  // namespace
}  // namespace faibench::testing_support
