// faibench run from outside: several ranks, interruptions, bad days.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>

#include <algorithm>
#include <map>

#include "cli/program.h"
#include "launch/journal_state.h"
#include "patience.h"
#include "results/run_file.h"
#include "task/catalog.h"
#include "task/task.h"

namespace faibench::testing_support {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string program() { return std::getenv("FAIBENCH_BIN"); }

std::vector<std::string> under_mpirun(int ranks, std::vector<std::string> arguments) {
  std::vector<std::string> words = {"mpirun", "--oversubscribe", "-n", std::to_string(ranks), program(), "run"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

// task/variant@ranks -> verdict
std::map<std::string, Verdict> verdicts(const std::string& file) {
  std::map<std::string, Verdict> all;
  for (const Record& record : read_run(file).records) EXPECT_TRUE(all.emplace(record.task + "/" + record.variant, record.verdict).second) << "twice: " << record.task;
  return all;
}

const std::vector<std::string> quick = {"--workload", "smoke", "--budget", "0.1", "--no-color"};

std::vector<std::string> quick_with(std::vector<std::string> more) {
  more.insert(more.begin(), quick.begin(), quick.end());
  return more;
}

TEST(Run, gives_the_same_verdicts_on_any_number_of_ranks) {
  const Scratch scratch;
  std::map<std::string, Verdict> alone;
  for (int ranks : {1, 2, 3, 4, 7}) {
    const std::string file = scratch.file(std::to_string(ranks) + ".h5");
    const Outcome outcome = run_command(under_mpirun(ranks, quick_with({"--out", file, "--gate-only"})));
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    auto found = verdicts(file);
    if (ranks > 1) {
      for (const char* task : {"tp_allreduce_bias_fuse", "diloco_comm_chunk_balance"}) EXPECT_EQ(found.at(std::string(task) + "/mpi"), Verdict::passed);
      std::erase_if(found, [](const auto& entry) { return entry.first.find("/mpi") != std::string::npos || entry.first.find("/peer:mpi") != std::string::npos || entry.first.find("/nccl") != std::string::npos; });
    }
    if (alone.empty()) alone = found;
    EXPECT_EQ(found, alone);
  }
  EXPECT_GE(alone.size(), 8u);
}

TEST(Run, works_alone_without_a_launcher) {
  const Scratch scratch;
  auto words = quick_with({"--tasks", "grpo*", "--out", scratch.file("run.h5"), "--force"});
  words.insert(words.begin(), {program(), "run"});
  Outcome outcome;
  std::vector<Record> records;
  for (int tries = 0; tries < 5; ++tries) {  // a busy machine may leave the times too noisy to be scored
    outcome = run_command(words);
    records = read_run_file(scratch.file("run.h5")).records;
    ASSERT_EQ(records.size(), 1u);
    if (records[0].verdict != Verdict::noisy) break;
  }
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST(Run, resumes_without_judging_twice) {
  const Scratch scratch;
  const std::string file = scratch.file("run.h5");
  ASSERT_EQ(run_command(under_mpirun(2, quick_with({"--gate-only", "--tasks", "grpo*", "--out", file}))).code, 0);
  const Outcome nothing_new = run_command(under_mpirun(2, {"--resume", file}));
  EXPECT_EQ(nothing_new.code, 0) << nothing_new.err;
  EXPECT_EQ(verdicts(file).size(), 1u);
  const Outcome more = run_command(under_mpirun(2, {"--resume", file, "--tasks", "*matrix*"}));
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_EQ(verdicts(file).size(), 2u);
}

TEST(Run, keeps_what_was_judged_when_it_is_told_to_stop) {
  const Scratch scratch;
  const std::string file = scratch.file("run.h5");
  const pid_t pid = fork();
  if (pid == 0) {
    std::vector<std::string> words = {program(), "run", "--workload", "smoke", "--tasks", "*", "--budget", "2", "--out", file, "--quiet"};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int err = open(scratch.file("err").c_str(), O_CREAT | O_WRONLY, 0600);
    dup2(err, 1);
    dup2(err, 2);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  EXPECT_TRUE(wait_until([&] { return journal_state(file).records >= 1; }));
  kill(pid, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  const std::string err = read_text(scratch.file("err"));
  ASSERT_TRUE(WIFEXITED(status)) << err;
  EXPECT_EQ(WEXITSTATUS(status), 143) << err;
  EXPECT_THAT(err, HasSubstr("faibench: stopped by SIGTERM: "));
  EXPECT_THAT(err, HasSubstr("go on with --resume " + file));
  const auto kept = read_run_file(file).records.size();
  EXPECT_GE(kept, 1u);
  const Outcome resumed = run_command({program(), "run", "--resume", file, "--gate-only", "--quiet"});
  EXPECT_EQ(resumed.code, 0) << resumed.out << resumed.err;
  EXPECT_GE(verdicts(file).size(), 8u);
}

TEST(Run, refuses_a_launch_without_pmi) {
  const Outcome outcome = run_command({program(), "run", "--workload", "smoke"}, {.variables = {"SLURM_NTASKS=2", "SLURM_PROCID=0"}, .folder = {}});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_complaint(outcome.err));
  EXPECT_THAT(outcome.err, HasSubstr("srun --mpi=pmix"));
  const Outcome second = run_command({program(), "run", "--workload", "smoke"}, {.variables = {"SLURM_NTASKS=2", "SLURM_PROCID=1"}, .folder = {}});
  EXPECT_EQ(second.code, 2);
  EXPECT_EQ(second.err, "");
}

// A file system of its own over a folder: only root may, elsewhere these tests are skipped.
class SmallDisk {
 public:
  SmallDisk(const std::string& folder, const char* options, unsigned long flags = 0) : folder_(folder), mounted_(mount("faibench-test", folder.c_str(), "tmpfs", flags, options) == 0) {}
  ~SmallDisk() {
    if (mounted_) umount2(folder_.c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool mounted() const { return mounted_; }

 private:
  std::string folder_;
  bool mounted_;
};

TEST(Run, a_full_disk_is_one_line_and_loses_no_finished_verdict) {
  const Scratch scratch;
  const std::string folder = scratch.file("small");
  std::filesystem::create_directory(folder);
  const SmallDisk disk(folder, "size=60k");
  if (!disk.mounted()) GTEST_SKIP() << "no right to mount a small tmpfs";
  const Outcome outcome = run_command(under_mpirun(2, quick_with({"--out", folder + "/run.h5", "--quiet"})));
  EXPECT_EQ(outcome.code, 2) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("No space left on device"));
  EXPECT_EQ(outcome.err.find("faibench: "), outcome.err.rfind("faibench: ")) << "more than one message: " << outcome.err;
  for (const Record& record : read_journal(folder + "/run.jsonl").records) EXPECT_TRUE(record.verdict == Verdict::passed || record.verdict == Verdict::noisy) << to_json(record);  // what is there is whole
}

TEST(Run, a_read_only_folder_is_one_line) {
  const Scratch scratch;
  const std::string folder = scratch.file("fixed");
  std::filesystem::create_directory(folder);
  const SmallDisk disk(folder, "size=1m", MS_RDONLY);
  if (!disk.mounted()) GTEST_SKIP() << "no right to mount a read-only tmpfs";
  const Outcome outcome = run_command(under_mpirun(2, quick_with({"--out", folder + "/run.h5", "--quiet"})));
  EXPECT_EQ(outcome.code, 2) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("Read-only file system"));
  EXPECT_EQ(outcome.err.find("faibench: "), outcome.err.rfind("faibench: ")) << "more than one message: " << outcome.err;
}

TEST(Run, a_bad_variable_of_the_transports_is_said_before_anything_is_judged) {
  const Scratch scratch;
  const std::string file = scratch.file("run.h5");
  for (const std::string variable : {"FAIBENCH_SHARED_MEMORY=yes", "FAIBENCH_CHUNK_LIMIT=0", "FAIBENCH_NETWORK_PIECE=1e3", "FAIBENCH_RANKS_PER_NODE=-1", "FAIBENCH_PEER_READS=2"}) {
    const Outcome outcome = run_command(under_mpirun(2, quick_with({"--gate-only", "--tasks", "grpo*", "--out", file})), {.variables = {variable}, .folder = ""});
    EXPECT_EQ(outcome.code, 2) << variable;
    EXPECT_NE(outcome.err.find("faibench: " + variable.substr(0, variable.find('='))), std::string::npos) << variable << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(file)) << variable;
  }
}

TEST(Run, overwrites_nothing_without_force) {
  const Scratch scratch;
  const std::string file = scratch.write("run.h5", "precious");
  const Outcome outcome = run_command(under_mpirun(2, quick_with({"--tasks", "grpo*", "--out", file})));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(read_text(file), "precious");
  EXPECT_THAT(outcome.err, HasSubstr("exists"));
  EXPECT_EQ(outcome.err.find("faibench: "), outcome.err.rfind("faibench: ")) << "more than one message: " << outcome.err;
}

TEST(Run, says_that_a_gpu_was_asked_for_where_there_is_none) {
  const Scratch scratch;
  const std::string file = scratch.file("run.h5");
  const Outcome outcome = run_command(under_mpirun(1, quick_with({"--gate-only", "--tasks", "grpo*", "--variant", "cuda", "--out", file})));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto records = read_run_file(file).records;
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].variant, "cpu");
  EXPECT_EQ(records[0].asked_variant, "cuda");
  EXPECT_THAT(records[0].note, HasSubstr("cuda"));
}

TEST(Run, fails_for_what_was_asked_for_and_did_not_run) {
  const Scratch scratch;
  const auto& entries = embedded_catalog().entries;
  const auto unwritten = std::ranges::find_if(entries, [](const CatalogEntry& entry) { return !find_task(entry.name); });
  if (unwritten == entries.end()) GTEST_SKIP() << "every task of the catalog is implemented";
  const Outcome outcome = run_command(under_mpirun(1, quick_with({"--gate-only", "--tasks", "grpo_rloo_advantage", "--tasks", unwritten->name, "--out", scratch.file("run.h5")})));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr(unwritten->name));
}

TEST(Run, prints_plan_and_cases_without_running) {
  const Scratch scratch;
  const Outcome plan = run_command(under_mpirun(2, {"--dry-run", "--workload", "smoke"}), {.variables = {}, .folder = scratch.path()});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("tp_allreduce_bias_fuse/mpi@2"));
  const Outcome cases = run_command({program(), "run", "--list-cases", "--tasks", "coalesced*"}, {.variables = {}, .folder = scratch.path()});
  EXPECT_EQ(cases.code, 0) << cases.err;
  EXPECT_THAT(cases.out, HasSubstr("coalesced_matrix_transpose  "));
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

}  // namespace
}  // namespace faibench::testing_support
