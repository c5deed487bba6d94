// Bad days on one host, under the supervisor: what breaks, how long until it is named, what is left, what the resumed result is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "supervised_job.h"

namespace faibench::testing_support {
namespace {

using testing::HasSubstr;
using testing::Not;

// On a machine that is not busy with other things; see patience().
constexpr double death_seconds = 10;     // until a death is named
constexpr double leftover_seconds = 15;  // until no process is left
const std::vector<std::string> two_ranks = {"-n", "2", "--hang-after", "4"};

std::vector<std::string> job(const std::string& file, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"run", "--workload", "smoke", "--gate-only", "--no-color", "--tasks", "grpo*", "--tasks", "coalesced*", "--tasks", "tp_allreduce*", "--tasks", "device_mesh*", "--tasks", "runtime_arena*"};
  if (!file.empty()) words.insert(words.end(), {"--out", file});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string host() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// What the same job gives when nothing happens.
const std::map<std::string, std::string>& unbroken() {
  static const std::map<std::string, std::string> result = [] {
    const Scratch scratch;
    SupervisedJob run(scratch, two_ranks, job(scratch.file("run.h5")));
    EXPECT_EQ(run.wait(), 0) << run.output();
    EXPECT_TRUE(run.processes().empty());
    EXPECT_FALSE(std::filesystem::exists(scratch.file("run.ranks"))) << "stamps of a run that ended as it should";
    return judged(scratch.file("run.h5"));
  }();
  return result;
}

// The end of a test whose job went on by itself.
void expect_a_whole_result(SupervisedJob& run, const std::string& file) {
  EXPECT_EQ(run.wait(), 0) << run.output();
  EXPECT_TRUE(run.nothing_left(leftover_seconds));
  EXPECT_EQ(judged(file), unbroken());
}

void report(const char* fault, double seconds) { std::printf("[   TIME   ] %s: named after %.1f s\n", fault, seconds); }

// Kills or stops a rank while both have work, and sees the run through.
void hurt_a_rank(int rank, int signal, const std::string& item, const std::string& words, double deadline) {
  (void)unbroken();
  const Scratch scratch;
  const std::string file = scratch.file("run.h5");
  SupervisedJob run(scratch, two_ranks, job(file));
  ASSERT_GT(run.until_busy(file, rank, 1, item, signal), 0) << run.output();
  const std::int64_t before = journal_state(file).records;
  const double seconds = run.seconds_until_said("faibench: launch: rank " + std::to_string(rank) + " on " + host() + " " + words, deadline);
  report(words.c_str(), seconds);
  EXPECT_GE(seconds, 0) << run.output();
  EXPECT_GE(journal_state(file).records, before);
  expect_a_whole_result(run, file);
}

TEST(Supervised, a_killed_rank_is_named_and_the_run_goes_on) { hurt_a_rank(1, SIGKILL, "", "died of signal 9", death_seconds); }

TEST(Supervised, a_killed_coordinator_is_named_and_the_run_goes_on) { hurt_a_rank(0, SIGKILL, "", "died of signal 9", death_seconds); }

TEST(Supervised, a_rank_killed_within_a_gang_is_named_and_the_run_goes_on) { hurt_a_rank(1, SIGKILL, "tp_allreduce_bias_fuse/mpi", "died of signal 9", death_seconds); }

// Half of --hang-after and five beats until it counts as silent, two seconds for mpirun to end the others.
TEST(Supervised, a_stopped_rank_is_named_and_the_run_goes_on) { hurt_a_rank(1, SIGSTOP, "", "shows no sign of life", 12); }

TEST(Supervised, a_coordinator_stopped_within_a_gang_is_named_and_the_run_goes_on) { hurt_a_rank(0, SIGSTOP, "tp_allreduce_bias_fuse/mpi", "shows no sign of life", 12); }

TEST(Supervised, a_killed_launcher_leaves_no_rank_and_the_run_goes_on) {
  (void)unbroken();
  const Scratch scratch;
  const std::string file = scratch.file("run.h5");
  SupervisedJob run(scratch, two_ranks, job(file));
  ASSERT_GT(run.until_busy(file, 1, 1), 0) << run.output();
  ASSERT_TRUE(run.signal_role("mpirun", SIGKILL));
  const double seconds = run.seconds_until_said("going on with launch 2", death_seconds);
  report("killed launcher", seconds);
  EXPECT_GE(seconds, 0) << run.output();
  expect_a_whole_result(run, file);
}

TEST(Supervised, a_killed_supervisor_takes_its_job_with_it) {
  (void)unbroken();
  const Scratch scratch;
  const std::string file = scratch.file("run.h5");
  {
    SupervisedJob run(scratch, two_ranks, job(file));
    ASSERT_GT(run.until_busy(file, 1, 1), 0) << run.output();
    kill(run.pid(), SIGKILL);
    EXPECT_TRUE(run.nothing_left(leftover_seconds));
  }
  SupervisedJob resumed(scratch, two_ranks, job("", {"--resume", file}));
  expect_a_whole_result(resumed, file);
}

TEST(Supervised, an_item_that_breaks_every_launch_is_lost_and_the_others_are_judged) {
  for (int tries = 1;; ++tries) {
    const Scratch scratch;
    const std::string file = scratch.file("run.h5");
    SupervisedJob run(scratch, two_ranks, job(file));
    bool broke = true;
    for (int launch = 1; launch <= 3 && broke; ++launch)  // whoever begins this gang dies
      broke = run.until_busy(file, 1, 0, "tp_allreduce_bias_fuse/mpi@2", SIGKILL) > 0 && run.seconds_until_said("going on with launch " + std::to_string(launch + 1), death_seconds) >= 0;
    const int code = run.wait();
    EXPECT_TRUE(run.nothing_left(leftover_seconds));
    const auto records = read_run(file).records;
    const auto is_the_item = [](const Record& record) { return record.task + "/" + record.variant == "tp_allreduce_bias_fuse/mpi"; };
    // The gang lasts some 50 ms: it may end between the look at what the rank does and the signal.
    if (std::ranges::any_of(records, [&](const Record& record) { return is_the_item(record) && record.verdict == Verdict::passed; }) && tries < 8) continue;
    EXPECT_TRUE(broke) << run.output();
    EXPECT_EQ(code, 1) << run.output();
    std::size_t lost = 0, passed = 0;
    for (const Record& record : records) {
      passed += record.verdict == Verdict::passed ? 1 : 0;
      if (record.verdict != Verdict::lost) continue;
      ++lost;
      EXPECT_TRUE(is_the_item(record)) << record.task << "/" << record.variant;
      EXPECT_EQ(record.reason, "rank");
      EXPECT_THAT(record.detail, HasSubstr("rank 1 on " + host() + " died of signal 9"));
    }
    EXPECT_EQ(lost, 1u);
    EXPECT_EQ(passed, unbroken().size() - 1);
    return;
  }
}

TEST(Supervised, a_time_limit_stops_cleanly_and_the_next_job_goes_on) {
  for (const auto& [signal, code] : {std::pair{SIGUSR1, 1}, {SIGTERM, 143}}) {
    (void)unbroken();
    const Scratch scratch;
    const std::string file = scratch.file("run.h5");
    {
      SupervisedJob run(scratch, two_ranks, job(file));
      ASSERT_GT(run.until_busy(file, 1, 1), 0) << run.output();
      const double start = test_clock();
      kill(run.pid(), signal);
      EXPECT_EQ(run.wait(), code) << run.output();
      report("told to stop", test_clock() - start);
      EXPECT_LT(test_clock() - start, death_seconds * patience());
      EXPECT_TRUE(run.nothing_left(1));
      EXPECT_THAT(run.output(), HasSubstr("go on with --resume " + file));
      EXPECT_FALSE(std::filesystem::exists(scratch.file("run.ranks")));
    }
    SupervisedJob resumed(scratch, two_ranks, job("", {"--resume", file}));
    expect_a_whole_result(resumed, file);
  }
}

TEST(Supervised, a_rank_of_a_study_that_is_stopped_is_named_and_the_study_goes_on) {
  const Scratch scratch;
  const std::string file = scratch.file("study.h5");
  SupervisedJob study(scratch, two_ranks, {"scale", "tp_allreduce_bias_fuse", "--sizes", "1K,64K", "--variants", "mpi,mpi_baseline", "--budget", "0.3", "--visits", "2", "--out", file});
  std::optional<Stamp> stamp;
  ASSERT_TRUE(study.until([&] { return journal_state(file).records >= 3 && (stamp = read_stamp(stamp_folder(file), 1)); })) << study.output();
  const std::string before = read_text(scratch.file("study.jsonl"));
  ASSERT_EQ(kill(stamp->pid, SIGSTOP), 0);
  const double seconds = study.seconds_until_said("faibench: launch: rank 1 on " + host() + " shows no sign of life", 12);
  report("stopped rank of a study", seconds);
  EXPECT_GE(seconds, 0) << study.output();
  EXPECT_EQ(study.wait(), 0) << study.output();
  EXPECT_TRUE(study.nothing_left(leftover_seconds));
  EXPECT_THAT(study.output(), HasSubstr("last seen in "));
  EXPECT_THAT(study.output(), HasSubstr("going on with launch 2"));
  EXPECT_FALSE(std::filesystem::exists(stamp_folder(file)));
  EXPECT_THAT(read_text(scratch.file("study.jsonl")), testing::StartsWith(before.substr(0, before.rfind('\n') + 1))) << "visits that were done stand";
  const Outcome shown = run_command({std::getenv("FAIBENCH_BIN"), "report", file, "--json"});
  const auto rows = nlohmann::json::parse(shown.out).at("rows");
  EXPECT_EQ(rows.size(), 2u * 2 * 2 * 2) << "sizes, variants, numbers of ranks, cadences";
}

TEST(Supervised, two_runs_at_once_are_one_run_and_one_line) {
  (void)unbroken();
  const Scratch scratch;
  const std::string file = scratch.file("run.h5");
  SupervisedJob first(scratch, {"-n", "2", "--hang-after", "1000"}, job(file));
  ASSERT_GT(first.until_busy(file, 1, 1), 0) << first.output();
  std::optional<Stamp> coordinator;
  ASSERT_TRUE(first.until([&] { return (coordinator = read_stamp(stamp_folder(file), 0)) && kill(coordinator->pid, SIGSTOP) == 0; })) << "so that it is still at work when the others come, however long they take to start";
  SupervisedJob second(scratch, two_ranks, job(file, {"--force", "--quiet"})), third(scratch, two_ranks, job("", {"--resume", file, "--quiet"}));
  EXPECT_EQ(second.wait(), 2) << second.output();
  EXPECT_EQ(third.wait(), 2) << third.output();
  ASSERT_EQ(kill(coordinator->pid, SIGCONT), 0);
  for (SupervisedJob* late : {&second, &third}) {
    const std::string said = late->output();
    EXPECT_THAT(said, HasSubstr("run.jsonl: another run is writing it\n"));
    EXPECT_EQ(said.find("faibench: "), said.rfind("faibench: ")) << "more than one message: " << said;
  }
  EXPECT_THAT(first.output(), Not(HasSubstr("launch 2")));
  expect_a_whole_result(first, file);
}

// A shell with a mount namespace of its own: only root may, elsewhere these tests are skipped.
std::vector<std::string> with_mount(const std::string& command) { return {"unshare", "-m", "sh", "-c", command + " && exec \"$@\"", "sh"}; }
bool may_mount() { return std::system("unshare -m mount -t tmpfs tmpfs /mnt >/dev/null 2>&1") == 0; }

TEST(Supervised, a_full_disk_ends_the_run_in_one_line_and_it_goes_on_where_there_is_room) {
  (void)unbroken();
  const Scratch scratch;
  const std::string folder = scratch.file("small"), file = folder + "/run.h5";
  std::filesystem::create_directory(folder);
  if (mount("faibench-test", folder.c_str(), "tmpfs", 0, "size=48k") != 0) GTEST_SKIP() << "no right to mount a small tmpfs";
  {
    SupervisedJob run(scratch, two_ranks, job(file, {"--quiet"}));
    EXPECT_EQ(run.wait(), 2) << run.output();
    EXPECT_TRUE(run.nothing_left(leftover_seconds));
    const std::string said = run.output();
    EXPECT_THAT(said, HasSubstr("No space left on device"));
    EXPECT_EQ(said.find("faibench: "), said.rfind("faibench: ")) << "more than one message: " << said;
  }
  if (mount("faibench-test", folder.c_str(), "tmpfs", MS_REMOUNT, "size=64m") == 0) {
    const bool begun = journal_state(file).lines > 0;
    SupervisedJob more(scratch, two_ranks, begun ? job("", {"--resume", file}) : job(file, {"--force"}));
    expect_a_whole_result(more, file);
  }
  umount2(folder.c_str(), MNT_DETACH);
}

TEST(Supervised, full_shared_memory_is_said_and_breaks_nothing) {
  (void)unbroken();
  if (!may_mount()) GTEST_SKIP() << "no right to mount in a namespace of its own";
  const Scratch scratch;
  const std::string file = scratch.file("run.h5");
  SupervisedJob run(scratch, two_ranks, job(file), with_mount("mount -t tmpfs -o size=256k tmpfs /dev/shm"));
  const int code = run.wait();
  EXPECT_TRUE(run.nothing_left(leftover_seconds));
  EXPECT_THAT(run.output(), HasSubstr("/dev/shm"));
  EXPECT_NE(code, -1) << "did not end: " << run.output();
  if (code != 0 && code != 1) return;  // MPI itself could not start there
  for (const auto& [label, record] : judged(file)) {
    const Verdict verdict = record_from_json(record).verdict;
    EXPECT_TRUE(verdict == Verdict::passed || (verdict == Verdict::skipped && label.find("registered") != std::string::npos)) << record;
  }
}

}  // namespace
}  // namespace faibench::testing_support
