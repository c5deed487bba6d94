// The many-step judgement: what passes from sender to receiver, and what becomes of those that crash, hang, lie or pass something else.
#include "judge/stream.h"

#include <gtest/gtest.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "judge/judge.h"
#include "judge/judge_process.h"
#include "judge/processes.h"

namespace faibench {
namespace {

JudgeJob job_for(const std::string& variant) {
  adopt_orphans();
  prctl(PR_SET_DUMPABLE, 0);  // as in a judge's process
  JudgeJob job;
  job.task = "grad_signsgd_error_feedback";
  job.variant = variant;
  job.workload = "smoke";
  job.call_limit_seconds = variant.ends_with("receiver_hang.so") ? 1 : 60;
  job.ref_speedup = 2;
  return job;
}
std::string library(const std::string& name) { return "library:" + std::string(std::getenv("FAIBENCH_STREAM_FAULTS")) + "/" + name + ".so"; }

/// The stream alone, without the cases before it. `sent_by`: another variant that sends in its place.
Record streamed(const std::string& variant, const std::string& sent_by = "") {
  const JudgeJob job = job_for(variant);
  CandidateLimits limits;
  limits.call_seconds = job.call_limit_seconds;
  Candidate sender(worker_path(), job.task, sent_by.empty() ? job.variant : sent_by, allowed_cpus(), limits);
  Record record;
  if (const auto failure = sender.load()) {
    record.verdict = failure->verdict;
    record.detail = failure->detail;
    return record;
  }
  judge_stream(job, *find_task(job.task), worker_path(), sender, limits, record, [](const std::string&) {});
  return record;
}

TEST(Stream, a_submission_with_a_receiver_of_its_own_passes_from_the_first_case_to_the_score) {
  const Record record = judge_task(job_for(library("own_decode")), worker_path(), [](const std::string&) {});
  EXPECT_EQ(name_of(record.verdict), "passed") << record.reason << ": " << record.detail << "\n" << record.stderr_tail;
  EXPECT_DOUBLE_EQ(record.speedup, 16);
  EXPECT_EQ(record.score, 1);  // twice the anchor of 2, squared and more
  EXPECT_EQ(record.stop_reason, "stream");
  EXPECT_GT(record.cases, 40);
  EXPECT_GT(record.seconds, 0);
  EXPECT_NE(record.note.find("stream seed "), std::string::npos) << record.note;
}

TEST(Stream, draws_another_seed_each_time) { EXPECT_NE(streamed("baseline").note.substr(0, 24), streamed("baseline").note.substr(0, 24)); }

// Of one segment, `cpu` and `cuda` send the same bytes.
TEST(Stream, has_receivers_on_a_cpu_for_variants_of_gpus) {
  for (const auto& [variant, sender] : {std::pair{"cuda", "cpu"}, std::pair{"cuda_dense", "cpu_dense"}}) {
    const Record record = streamed(variant, sender);
    EXPECT_EQ(name_of(record.verdict), "passed") << variant << ": " << record.detail;
  }
}

struct Fault {
  const char* library;
  Verdict verdict;
  const char* reason;
  const char* detail_part;
};
void PrintTo(const Fault& fault, std::ostream* os) { *os << fault.library; }
class Faulty : public testing::TestWithParam<Fault> {};

TEST_P(Faulty, gets_the_right_verdict_and_the_next_one_is_unharmed) {
  const Record record = streamed(library(GetParam().library));
  EXPECT_EQ(name_of(record.verdict), name_of(GetParam().verdict)) << record.detail;
  EXPECT_EQ(record.reason, GetParam().reason) << record.detail;
  EXPECT_NE(record.detail.find(GetParam().detail_part), std::string::npos) << record.detail;
  const Record next = streamed(library("own_decode"));
  EXPECT_EQ(name_of(next.verdict), "passed") << next.detail;
}

INSTANTIATE_TEST_SUITE_P(
    Stream, Faulty,
    testing::Values(Fault{"receiver_crash", Verdict::crashed, "SIGSEGV", "receiver: "}, Fault{"receiver_exit", Verdict::crashed, "exit 0", "receiver: "},
                    Fault{"receiver_hang", Verdict::timed_out, "time limit", "receiver: no answer within 1 s"}, Fault{"receiver_rejects", Verdict::wrong, "rejected", "receiver: rejected with not_mine"},
                    Fault{"sender_crash", Verdict::crashed, "SIGSEGV", "sender: "}, Fault{"receiver_changes_payload", Verdict::wrong, "input changed", "receiver: input payload was changed"},
                    Fault{"receiver_writes_past", Verdict::wrong, "out of bounds", "receiver: "}, Fault{"receiver_counts", Verdict::wrong, "value", "decodes something else"},
                    Fault{"receiver_remembers", Verdict::wrong, "value", "depends on more than one call"}, Fault{"receiver_in_order", Verdict::wrong, "rejected", "rejected with out_of_order"},
                    Fault{"payload_beyond_limit", Verdict::crashed, "exception", "room for 40064"}, Fault{"payload_cut", Verdict::wrong, "value", "decodes something else"},
                    Fault{"no_decode", Verdict::wrong, "rejected", "receiver: rejected with peer_size"}, Fault{"format_in_use", Verdict::wrong, "value", "format changed from 200 to 201"},
                    Fault{"lossy_error", Verdict::wrong, "value", "new_error is not c - update"}),
    [](const auto& info) { return std::string(info.param.library); });

/// A folder with a file that sender and receiver may both know, and no trace of other channels.
struct Channels : testing::TestWithParam<const char*> {
  Channels() {
    const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("faibench-stream-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "update") << std::string(40000, '\0');
    setenv("FAIBENCH_TEST_CHANNEL", GetParam(), 1);
    setenv("FAIBENCH_TEST_CHANNEL_DIR", folder.c_str(), 1);
  }
  ~Channels() override {
    std::filesystem::remove_all(std::getenv("FAIBENCH_TEST_CHANNEL_DIR"));
    shm_unlink("/faibench-test-update");
    if (const int id = shmget(0x5eed, 0, 0); id >= 0) shmctl(id, IPC_RMID, nullptr);
    unsetenv("FAIBENCH_TEST_CHANNEL");
    unsetenv("FAIBENCH_TEST_CHANNEL_DIR");
  }
};

TEST_P(Channels, carry_nothing_from_sender_to_receiver) {
  const Record record = streamed(library("side_channel"));
  if (std::string(GetParam()) == "shared_mapping") {
    EXPECT_EQ(name_of(record.verdict), "build_failed") << record.detail;
    EXPECT_NE(record.detail.find("a receiver must not share memory"), std::string::npos) << record.detail;
  } else {
    EXPECT_EQ(name_of(record.verdict), "wrong") << record.detail;
    EXPECT_NE(record.detail.find("decodes something else"), std::string::npos) << record.detail;
  }
}

INSTANTIATE_TEST_SUITE_P(Stream, Channels,
                         testing::Values("file", "opened_file", "descriptor_0", "private_mapping", "shared_mapping", "posix_memory", "system_v_memory", "socket", "environment", "process_name"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace faibench
