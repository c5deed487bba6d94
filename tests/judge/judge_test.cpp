// The judge on well-behaved variants: verdict, samples and score come out as promised.
#include "judge/judge.h"

#include <gtest/gtest.h>

#include "judge/blocks.h"
#include "judge/candidate.h"
#include "judge/check.h"
#include "judge/judge_process.h"
#include "judge/noise_probe.h"
#include "judge/peaks.h"
#include "patience.h"

namespace faibench {
namespace {

JudgeJob job_for(std::string task, std::string variant) {
  adopt_orphans();
  JudgeJob job;
  job.task = std::move(task);
  job.variant = std::move(variant);
  job.workload = "smoke";
  job.budget_seconds = 0.2;
  job.ref_speedup = 2;
  return job;
}

/// On a busy machine times may come out too noisy to be scored, whatever is judged: then once more.
Record judged(const JudgeJob& job) {
  Record record;
  for (int tries = 0; tries < 5; ++tries) {
    record = judge_task(job, worker_path(), [](const std::string&) {});
    if (record.verdict != Verdict::noisy) break;
  }
  return record;
}

class EveryTask : public testing::TestWithParam<std::tuple<const Task*, std::string>> {};

TEST_P(EveryTask, passes_its_own_gate_and_blocks) {
  const auto& [task, variant] = GetParam();
  const Record record = judged(job_for(task->name, variant));
  EXPECT_EQ(name_of(record.verdict), "passed") << record.reason << ": " << record.detail << "\n" << record.stderr_tail;
  EXPECT_GT(record.cases, 0);
  EXPECT_GT(record.seconds, 0);
  if (task->stream) {  // one stream, no blocks
    EXPECT_GE(record.blocks, 1);
  } else {
    EXPECT_GE(record.blocks, 6);
    EXPECT_GT(record.baseline_seconds, 0);
  }
  EXPECT_LE(record.speedup_low, record.speedup);
  EXPECT_GE(record.speedup_high, record.speedup);
  EXPECT_FALSE(record.stop_reason.empty());
}

std::vector<const Task*> tasks() { return {all_tasks().begin(), all_tasks().end()}; }
INSTANTIATE_TEST_SUITE_P(Smoke, EveryTask, testing::Combine(testing::ValuesIn(tasks()), testing::Values("reference", "baseline", "cpu")),
                         [](const auto& info) { return std::get<0>(info.param)->name + "_" + std::get<1>(info.param); });

TEST(Judge, counts_the_baseline_against_itself_as_no_speedup) {
  JudgeJob job = job_for(std::string(noise_probe_name), "baseline");
  job.budget_seconds = 0.5;
  EXPECT_TRUE(testing_support::wait_until([&] {  // a machine that does something else in between can bend one measurement
    const Record record = judged(job);
    EXPECT_EQ(record.verdict, Verdict::passed) << record.detail;
    EXPECT_EQ(record.score, 0);
    return record.verdict != Verdict::passed || (record.speedup_high > 0.9 && record.speedup_low < 1.1);
  }, 10));
}

TEST(Judge, keeps_warm_up_samples_with_negative_numbers) {
  const Record record = judged(job_for(std::string(noise_probe_name), "baseline"));
  ASSERT_FALSE(record.samples.empty());
  EXPECT_LT(record.samples.front().block, 0);
  EXPECT_EQ(record.samples.back().block, record.blocks - 1);
}

TEST(Judge, only_gates_when_told_so) {
  JudgeJob job = job_for("coalesced_matrix_transpose", "cpu");
  job.gate_only = true;
  const Record record = judged(job);
  EXPECT_EQ(name_of(record.verdict), "passed");
  EXPECT_EQ(record.blocks, 0);
}

TEST(Judge, times_a_peer_and_never_scores_it) {
  for (const Task* task : all_tasks())
    for (const Variant& variant : task->variants) {
      if (!variant.name.starts_with("peer:") || variant.on_device) continue;
      JudgeJob job = job_for(task->name, variant.name);
      job.ref_speedup = 1e-3;  // any speed would score
      const Record record = judged(job);
      EXPECT_EQ(name_of(record.verdict), "passed") << task->name << " " << variant.name << ": " << record.detail;
      EXPECT_GT(record.speedup, 0);
      EXPECT_EQ(record.score, 0);
      return;  // one speaks for all
    }
  GTEST_SKIP() << "this build has no peers";
}

TEST(Judge, calls_a_variant_that_does_not_exist_build_failed) {
  const Record record = judged(job_for("coalesced_matrix_transpose", "quantum"));
  EXPECT_EQ(name_of(record.verdict), "build_failed");
  EXPECT_NE(record.detail.find("quantum"), std::string::npos);
}

TEST(Judge, measures_the_machine_again_before_it_calls_a_time_impossible) {
  JudgeJob job = job_for("coalesced_matrix_transpose", "cpu");
  job.peaks.cache_copy_bytes_per_second = job.peaks.copy_bytes_per_second = 1e6;  // a calibration disturbed beyond recognition: 258 ms for these 258 kB
  EXPECT_EQ(name_of(judged(job).verdict), "passed");
}

TEST(Judge, measures_the_machine_again_before_it_reports_a_time_below_the_floor) {
  JudgeJob job = job_for("coalesced_matrix_transpose", "cpu");
  const Record before = judged(job);
  const double bytes_per_second = before.floor_bytes / (1.5 * before.seconds);  // a calibration on a machine that was somewhat slower then: no time is impossible
  job.peaks.cache_copy_bytes_per_second = job.peaks.copy_bytes_per_second = bytes_per_second;
  const Record record = judged(job);
  const double old_floor = record.floor_bytes / bytes_per_second;
  EXPECT_TRUE(record.floor_seconds < 0.9 * old_floor || record.seconds >= old_floor) << record.floor_seconds << " s, " << record.seconds << " s of " << old_floor << " s";  // by then the calls may be slower
}

TEST(JudgeTimes, flags_blocks_below_half_the_floor) {
  Measurement m;
  m.block_floors = {{1e6, 0}, {1e6, 0}, {1e6, 0}};
  m.floor = m.block_floors[0];
  for (double seconds : {0.9, 0.6, 0.4}) {
    Sample sample;
    sample.block = static_cast<int>(m.samples.size());
    sample.seconds = seconds;
    m.samples.push_back(sample);
  }
  MachinePeaks peaks;
  peaks.copy_bytes_per_second = 1e6;  // the floor is one second
  judge_times(m, peaks);
  EXPECT_EQ(m.impossible_blocks, 1);
  EXPECT_EQ(m.samples[2].flags & Sample::impossible, Sample::impossible);
  EXPECT_DOUBLE_EQ(m.floor_seconds, 1);
  peaks.copy_bytes_per_second = 2e6;  // measured again, on a quieter machine
  judge_times(m, peaks);
  EXPECT_EQ(m.impossible_blocks, 0);
}

TEST(JudgeTimes, calls_nothing_impossible_that_another_number_format_could_do) {
  Measurement m;
  m.block_floors = {{0, 1e6}};
  m.floor = m.block_floors[0];
  Sample sample;
  sample.seconds = 0.2;
  m.samples.push_back(sample);
  MachinePeaks peaks;
  peaks.operations_per_second = 1e6;  // in the task's format the floor is one second
  judge_times(m, peaks);
  EXPECT_EQ(m.impossible_blocks, 1);
  peaks.most_operations_per_second = 8e6;
  judge_times(m, peaks);
  EXPECT_EQ(m.impossible_blocks, 0);
  EXPECT_DOUBLE_EQ(m.floor_seconds, 1);
}

TEST(Judge, forbids_a_variant_that_is_faster_than_its_data_can_move) {
  Record record;
  record.blocks = 4;
  Measurement m;
  m.impossible_blocks = 3;
  set_verdict(record, m);
  EXPECT_EQ(name_of(record.verdict), "forbidden");
  EXPECT_EQ(record.reason, "impossible time");
}

TEST(Check, names_the_element_that_differs_from_the_case) {
  const Task& task = *find_task("coalesced_matrix_transpose");
  TensorMap inputs, outputs;
  inputs.add("x", Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  outputs.add("y", Tensor::of<float>({3, 2}, {1, 4, 2, 5, 3, 7}));
  CaseChecker checker(task, "cpu");
  const auto failure = checker.check({inputs, outputs, ""});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->detail, "y[2, 1]: got 6, wanted 7");
  outputs.at("y").flat<float>()[5] = 6;
  EXPECT_FALSE(checker.check({inputs, outputs, ""}));
}

TEST(Check, lets_a_property_decide_on_outputs_of_another_length_than_the_case_has) {
  const Task& task = *find_task("grad_signsgd_error_feedback");
  Random random(5);
  const TensorMap inputs = task.random_case(random);
  const TensorMap outputs = run_kernel(task.contract, task.find_variant("reference")->kernel, refs(inputs));
  const auto failure = CaseChecker(task, "cpu").check({inputs, outputs, ""});  // its private format is shorter than the reference's
  EXPECT_FALSE(failure) << failure->detail;
}

TEST(Check, wants_the_rejection_that_the_case_names) {
  const Task& task = *find_task("coalesced_matrix_transpose");
  TensorMap inputs;
  inputs.add("x", Tensor(Dtype::f32, {6}));
  CaseChecker checker(task, "cpu");
  EXPECT_FALSE(checker.check({inputs, {}, "wrong_rank"}));
  const auto failure = checker.check({inputs, {}, "wrong_dtype"});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->reason, "wrong code");
}

TEST(Check, refuses_a_variant_that_does_not_exist) { EXPECT_THROW(CaseChecker(*find_task("coalesced_matrix_transpose"), "quantum"), Error); }

TEST(Peaks, are_positive_and_a_cache_is_no_slower_than_memory) {
  adopt_orphans();
  EXPECT_TRUE(testing_support::wait_until([] { return measure_copy(1, std::size_t{1} << 16) > measure_copy(1, std::size_t{64} << 20) * 0.8; }, 10));
  EXPECT_GT(measure_operations(1), 1e8);
  const double handshake = measure_handshake(worker_path(), {}, 200);
  EXPECT_GT(handshake, 0);
  EXPECT_LT(handshake, 0.01 * testing_support::patience());
}

}  // namespace
}  // namespace faibench
