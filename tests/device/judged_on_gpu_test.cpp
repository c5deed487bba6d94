// A judge, candidates and device variants on a GPU that is a double: all of the path but the silicon. Kernels are loops of the host (kernels_on_double.cpp), and once the emulator's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "fake_gpu.h"
#include "judge/check.h"
#include "judge/device_library.h"
#include "judge/gpu_bench.h"
#include "judge/judge.h"
#include "judge/judge_process.h"
#include "judge/memory_gate.h"
#include "judge/processes.h"

namespace faibench {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing_support::fake_uuid;
using testing_support::FakeGpus;
using testing_support::FakeGpuState;

class JudgedOnGpu : public testing::Test {
 protected:
  JudgedOnGpu() {
    fake.reset(2);
    fake.state().total_bytes = std::int64_t{64} << 20;
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("DOUBLE_KERNEL");
  }
  ~JudgedOnGpu() override { unsetenv("DOUBLE_KERNEL"); }

  static JudgeJob job(const std::string& variant) {
    JudgeJob job;
    job.task = "coalesced_matrix_transpose";
    job.variant = variant;
    job.workload = "smoke";
    job.budget_seconds = 0.2;
    job.ref_speedup = 2;
    return job;
  }
  static Record judged(const JudgeJob& job) {
    return judge_task(job, worker_path(), [](const std::string&) {});
  }
  /// Through a judge process of its own, as a rank does it.
  static JudgeProcess::Outcome outcome(const JudgeJob& job) {
    JudgeProcess process(job);
    for (;;) {
      if (auto outcome = process.poll()) return *outcome;
      usleep(10'000);
    }
  }

  static inline FakeGpus fake{2};
};

TEST_F(JudgedOnGpu, a_variant_passes_and_is_timed_against_the_naive_form_on_the_same_gpu) {
  JudgeJob on_second = job("cuda");
  on_second.gpu = fake_uuid(1);
  fake.state().throttle_reasons = 0x4;
  const Record record = judged(on_second);
  EXPECT_EQ(record.verdict, Verdict::passed) << record.reason << ": " << record.detail;
  EXPECT_GT(record.blocks, 0);
  EXPECT_GT(record.seconds, 0);
  EXPECT_GT(record.floor_seconds, 0);
  EXPECT_EQ(record.gpu, fake_uuid(1));
  EXPECT_EQ(record.gpu_clock_hz, 1980e6);
  EXPECT_EQ(record.gpu_power_watts, 300);
  EXPECT_EQ(record.gpu_throttle, "power cap");
  EXPECT_THAT(record.flags, testing::Contains("throttled:" + std::to_string(record.blocks)));
  EXPECT_EQ(fake.state().used_bytes[0], 0);  // nothing was done on the first
  EXPECT_EQ(fake.state().wrong_calls, 0);
  const auto& live = fake.state().live;  // candidates are killed, and their contexts with them; the judge gave all of its own back
  EXPECT_EQ(live[FakeGpuState::allocations], 0);
  EXPECT_EQ(live[FakeGpuState::streams], 0);
  EXPECT_EQ(live[FakeGpuState::events], 0);
}

TEST_F(JudgedOnGpu, the_naive_form_is_its_own_baseline) {
  const Record record = judged(job("cuda_baseline"));
  EXPECT_EQ(record.verdict, Verdict::passed) << record.reason << ": " << record.detail;
  EXPECT_EQ(record.gpu, fake_uuid(0));
}

TEST_F(JudgedOnGpu, what_a_kernel_does_wrong_in_device_memory_is_found) {
  const std::pair<const char*, const char*> faults[] = {{"past the end", "out of bounds"}, {"wrong", "value"}, {"input", "input changed"}, {"fault", "device error"}};
  for (const auto& [fault, reason] : faults) {
    setenv("DOUBLE_KERNEL", fault, 1);
    const Record record = judged(job("cuda"));
    EXPECT_EQ(record.verdict, std::string(fault) == "fault" ? Verdict::crashed : Verdict::wrong) << fault;
    EXPECT_EQ(record.reason, reason) << fault << ": " << record.detail;
  }
}

TEST_F(JudgedOnGpu, work_that_runs_on_after_the_answer_is_counted) {
  JudgeJob quick = job("cuda");
  const Record honest = judged(quick);
  fake.state().late_ns = 3'000'000;  // at the end of each window
  const Record late = judged(quick);
  EXPECT_EQ(late.verdict, Verdict::passed) << late.detail;
  EXPECT_GT(late.seconds, honest.seconds + 1e-3);
}

TEST_F(JudgedOnGpu, device_memory_beyond_the_tensors_is_counted_and_limited) {
  Task task = *find_task("coalesced_matrix_transpose");
  const auto limit = [](const TensorRefMap&) { return std::int64_t{1} << 20; };
  task.memory = MemoryGate{limit, limit, {{"one call", [](Random&) { TensorMap in; in.add("x", Tensor(Dtype::f32, {300, 500})); return in; }}}};
  for (const char* fault : {"", "hoards"}) {
    setenv("DOUBLE_KERNEL", fault, 1);
    GpuBench gpu("");
    Candidate candidate(worker_path(), task.name, "cuda", allowed_cpus(), {}, &gpu);
    const Finding finding = check_device_memory(task, candidate, gpu);
    EXPECT_EQ(finding.calls, 1);
    if (!*fault) {
      EXPECT_FALSE(finding.failure) << finding.failure->detail;
      EXPECT_EQ(finding.note, "device memory held: 0.0 MiB of 1.0 MiB (one call)");
    } else {
      ASSERT_TRUE(finding.failure);
      EXPECT_EQ(finding.failure->reason, "memory");
      EXPECT_THAT(finding.failure->detail, HasSubstr("held 4.0 MiB of device memory"));
    }
  }
}

TEST_F(JudgedOnGpu, a_sticky_error_is_the_verdict_of_that_candidate_alone) {
  fake.fail("cudaDeviceSynchronize", 700, true, 3, "candidate");
  const Record record = judged(job("cuda"));
  EXPECT_EQ(record.verdict, Verdict::crashed);
  EXPECT_EQ(record.reason, "device error");
  EXPECT_THAT(record.detail, HasSubstr("cudaDeviceSynchronize: cudaErrorIllegalAddress: "));
  EXPECT_THAT(record.detail, HasSubstr("(the context is lost)"));
  EXPECT_EQ(fake.state().live[FakeGpuState::allocations], 0);
  const Record next = judged(job("cuda"));
  EXPECT_EQ(next.verdict, Verdict::passed) << next.reason << ": " << next.detail;
}

TEST_F(JudgedOnGpu, a_device_without_room_is_out_of_memory) {
  fake.fail("cudaDeviceSynchronize", 2, false, 2, "candidate");
  const Record record = judged(job("cuda"));
  EXPECT_EQ(record.verdict, Verdict::out_of_memory);
  EXPECT_EQ(record.reason, "out of device memory");
}

TEST_F(JudgedOnGpu, a_gpu_that_fails_the_judge_is_nobodys_verdict) {
  fake.fail("cudaMemcpyAsync", 700, true, 5, "judge");
  const JudgeProcess::Outcome broken = outcome(job("cuda"));
  EXPECT_FALSE(broken.record);
  EXPECT_THAT(broken.failure, HasSubstr("cudaMemcpyAsync: cudaErrorIllegalAddress: "));
  const JudgeProcess::Outcome next = outcome(job("cuda"));  // a fresh judge has a fresh context
  ASSERT_TRUE(next.record) << next.failure;
  EXPECT_EQ(next.record->verdict, Verdict::passed) << next.record->detail;
}

TEST_F(JudgedOnGpu, a_judge_sees_the_gpu_of_its_rank_alone) {
  setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
  JudgeJob second = job("cuda");
  second.gpu = fake_uuid(0);
  second.gpu_position = 1;
  second.gate_only = true;
  const JudgeProcess::Outcome there = outcome(second);
  ASSERT_TRUE(there.record) << there.failure;
  EXPECT_EQ(there.record->gpu, fake_uuid(0));
  second.gpu_position = 0;  // that is the other one
  EXPECT_THAT(outcome(second).failure, HasSubstr("the GPU " + fake_uuid(0) + " is not visible to this process"));
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(JudgedOnGpu, without_a_gpu_it_says_so) {
  fake.reset(0);
  EXPECT_THAT(outcome(job("cuda")).failure, HasSubstr("no GPU: cudaErrorNoDevice"));
}

TEST_F(JudgedOnGpu, cases_are_checked_there_too_with_the_emulators_kernels) {
  const testing_support::TemporaryFolder libraries;
  std::filesystem::create_symlink(std::getenv("EMULATED_LIBRARY"), libraries / "libfaibench_cuda.so");
  const std::string before = std::getenv("FAIBENCH_DEVICE_LIBRARIES");
  setenv("FAIBENCH_DEVICE_LIBRARIES", libraries.path().c_str(), 1);
  const Task& task = *find_task("coalesced_matrix_transpose");
  CaseChecker checker(task, "cuda");
  setenv("FAIBENCH_DEVICE_LIBRARIES", before.c_str(), 1);
  int checked = 0;
  for (const Case& c : task.cases) {
    Random random(task.name, c.name, 1, 0);
    const TensorMap inputs = c.inputs(random);
    if (const Tensor* x = inputs.find("x"); x && x->bytes() > 100'000) continue;  // the emulator is slow
    const Rejected rejected = task.contract.validate(refs(inputs));
    const TensorMap outputs = rejected ? TensorMap() : expected_outputs(task, refs(inputs));
    const auto failure = checker.check({inputs, outputs, rejected ? rejected->code : ""});
    EXPECT_FALSE(failure) << c.name << ": " << failure->detail;
    ++checked;
  }
  EXPECT_GT(checked, 5);
  EXPECT_EQ(fake.state().wrong_calls, 0);
}

}  // namespace
}  // namespace faibench
