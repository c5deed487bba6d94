// What variants hold is counted by the judge, however they hold it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "judge/judge.h"
#include "judge/judge_process.h"
#include "judge/memory_gate.h"
#include "judge/memory_meter.h"
#include "judge/processes.h"
#include "kernels/linalg/chunked_swiglu_recompute/inputs.h"

namespace faibench {
namespace {

constexpr std::int64_t mebibyte = 1 << 20, limit = 8 * mebibyte;

/// The transpose with a limit of 8 MiB, judged here; the submission runs it as it is.
Task limited_transpose() {
  Task task = *find_task("coalesced_matrix_transpose");
  const Generator inputs = [](Random& random) {
    TensorMap set;
    random.fill_uniform(set.add("x", Tensor(Dtype::f32, {700, 300})).flat<float>(), -1, 1);
    return set;
  };
  task.memory = MemoryGate{[](const TensorRefMap&) { return limit; }, {}, {{"first", inputs}, {"second", inputs}, {"third", inputs}}};
  return task;
}

Finding judged(const std::string& library) {
  adopt_orphans();
  const Task task = limited_transpose();
  Candidate candidate(worker_path(), task.name, "library:" + std::string(std::getenv("FAIBENCH_MEMORY_FAULTS")) + "/" + library + ".so", allowed_cpus(), {});
  return check_memory(task, candidate);
}

class Within : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Memory, Within, testing::Values("within_limit", "idle_threads", "passing_threads"), [](const auto& info) { return std::string(info.param); });
TEST_P(Within, the_limit_passes_with_its_peaks_in_the_note) {
  const Finding finding = judged(GetParam());
  ASSERT_FALSE(finding.failure) << finding.where << ": " << finding.failure->detail;
  EXPECT_EQ(finding.calls, 3);
  EXPECT_NE(finding.note.find("of 8.0 MiB (third)"), std::string::npos) << finding.note;
}

TEST(Memory, what_a_call_holds_is_measured_and_not_only_compared) {
  const std::string note = judged("within_limit").note;
  const double peak = std::atof(note.c_str() + std::strlen("memory held: "));
  EXPECT_GE(peak, 4) << note;
  EXPECT_LE(peak, 6) << note;  // and what loading the library took
}

class TooMuch : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Memory, TooMuch,
                         testing::Values("freed_again", "many_small_blocks", "mapped_and_unmapped", "shared_mapping", "behind_the_outputs", "only_mapped", "static_buffer", "taken_when_loaded",
                                         "kept_from_call_to_call", "a_share_in_each_thread", "deep_stack", "in_a_child", "between_children", "other_pages_given_back", "shared_tensors_given_back",
                                         "open_and_not_mapped"),
                         [](const auto& info) { return std::string(info.param); });
TEST_P(TooMuch, is_found_however_it_is_held) {
  const Finding finding = judged(GetParam());
  ASSERT_TRUE(finding.failure) << finding.note;
  EXPECT_EQ(name_of(finding.failure->verdict), "wrong");
  EXPECT_EQ(finding.failure->reason, "memory") << finding.failure->detail;
  EXPECT_NE(finding.failure->detail.find("the limit is 8.0 MiB"), std::string::npos) << finding.failure->detail;
}

TEST(Memory, what_is_kept_counts_for_later_calls) {
  const Finding finding = judged("kept_from_call_to_call");
  ASSERT_TRUE(finding.failure);
  EXPECT_EQ(finding.where, "memory gate, second");
  EXPECT_EQ(finding.calls, 2);
}

TEST(Memory, the_verdict_names_limit_and_peak) {
  EXPECT_FALSE(over_limit("host", limit, limit));
  const auto failure = over_limit("device", limit + mebibyte, limit);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->detail, "held 9.0 MiB of device memory at one time beyond inputs and outputs, the limit is 8.0 MiB");
}

// A process of this test's own that holds memory when told to.
class Meter : public testing::Test {
 protected:
  Meter() {
    EXPECT_EQ(pipe(to_), 0);
    EXPECT_EQ(pipe(from_), 0);
    child_ = fork();
    if (child_ == 0) {
      for (char order; read(to_[0], &order, 1) == 1;) {
        const std::size_t bytes = static_cast<std::size_t>(order) << 20;
        void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        munmap(memory, bytes);
        if (write(from_[1], &order, 1) != 1) break;
      }
      _exit(0);
    }
    hold(1);
  }
  ~Meter() override {
    for (int end : {to_[0], to_[1], from_[0], from_[1]}) close(end);
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  void hold(char mebibytes) {
    EXPECT_EQ(write(to_[1], &mebibytes, 1), 1);
    EXPECT_EQ(read(from_[0], &mebibytes, 1), 1);
  }

  int to_[2], from_[2];
  pid_t child_ = -1;
};

TEST_F(Meter, sees_what_was_held_for_a_moment_and_starts_anew_with_each_call) {
  MemoryMeter meter(child_);
  const auto peak = [&](char mebibytes) {
    meter.start_call();
    hold(mebibytes);
    return static_cast<double>(meter.end_call()) / mebibyte;
  };
  EXPECT_NEAR(peak(40), 40, 0.5);
  EXPECT_NEAR(peak(10), 10, 0.5);
  EXPECT_NEAR(peak(20), 20, 0.5);
}

TEST_F(Meter, sees_nothing_of_what_was_held_before) {
  hold(50);
  MemoryMeter meter(child_);
  meter.start_call();
  EXPECT_LT(meter.end_call(), mebibyte / 2);
}

TEST(MemoryMeter, needs_a_process) { EXPECT_THROW(MemoryMeter(0x3ffffffe), Error); }

// The task whose gate it is part of, through the judge.
Record judged_swiglu(const std::string& variant) {
  adopt_orphans();
  JudgeJob job;
  job.task = "chunked_swiglu_recompute";
  job.variant = variant;
  job.workload = "smoke";
  job.gate_only = true;
  return judge_task(job, worker_path(), [](const std::string&) {});
}

TEST(MemoryOfSwiglu, is_within_the_limit_and_stands_in_the_note) {
  const Record record = judged_swiglu("cpu");
  EXPECT_EQ(name_of(record.verdict), "passed") << record.detail;
  EXPECT_NE(record.note.find("of 16.8 MiB (chunks of 64)"), std::string::npos) << record.note;
  EXPECT_NE(record.note.find("of 29.0 MiB (chunks of 1024)"), std::string::npos) << record.note;
}

TEST(MemoryOfSwiglu, does_not_bind_the_baseline) {
  const Record record = judged_swiglu("baseline");
  EXPECT_EQ(name_of(record.verdict), "passed") << record.detail;
  EXPECT_EQ(record.note, "");
}

// The baseline's algorithm under another name: right values, 28 MiB.
TEST(MemoryOfSwiglu, refuses_a_variant_that_keeps_everything) {
  adopt_orphans();
  Task task = *find_task("chunked_swiglu_recompute");
  task.memory->calls = {{"2048 tokens", [](Random& random) { return chunked_swiglu_recompute::layer_inputs(random, {2048, 64, 512, 64}); }}};
  Candidate candidate(worker_path(), task.name, "baseline", allowed_cpus(), {});
  const Finding finding = check_memory(task, candidate);
  ASSERT_TRUE(finding.failure);
  EXPECT_EQ(finding.failure->reason, "memory");
  EXPECT_NE(finding.failure->detail.find("the limit is 16.8 MiB"), std::string::npos) << finding.failure->detail;
  EXPECT_EQ(finding.where, "memory gate, 2048 tokens");
}

}  // namespace
}  // namespace faibench
