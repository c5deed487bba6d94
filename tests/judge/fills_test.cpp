// What is gated of a workload besides its timed blocks.
#include "judge/fills.h"

#include <gtest/gtest.h>

#include "judge/judge_process.h"
#include "judge/processes.h"

namespace faibench {
namespace {

Generator filled_with(float value, std::int64_t M, std::int64_t N) {
  return [=](Random&) {
    TensorMap inputs;
    for (float& x : inputs.add("x", Tensor(Dtype::f32, {M, N})).flat<float>()) x = value;
    return inputs;
  };
}

/// The transpose with a gate of this test's own, judged here; the candidates run it as it is. The gate refuses every answer to inputs that hold 7.
class OtherFills : public testing::Test {
 protected:
  OtherFills() {
    adopt_orphans();
    task.gate.check = [](const GateCall& call) -> GateResult {
      ++gated;
      if (call.inputs.at("x").flat<const float>()[0] == 7) return Mismatch{"y", {0, 0}, "7", "8", 0, ""};
      return exact_outputs(call);
    };
    workload = {"standard", "", {filled_with(1, 3, 4)}, 0.001, {filled_with(2, 5, 3), filled_with(7, 2, 3)}};
    for (Candidate* one : {&baseline, &candidate}) EXPECT_FALSE(one->load());
    gated = 0;
  }

  Task task = *find_task("coalesced_matrix_transpose");
  Workload workload;
  JudgeJob job;
  Candidate baseline{worker_path(), task.name, "baseline", {}, {}}, candidate{worker_path(), task.name, "cpu", {}, {}};
  CallSite site{task};
  static inline int gated = 0;
};

TEST_F(OtherFills, are_gated_once_each_and_a_failure_names_its_fill) {
  const Finding finding = gate_other_fills(site, task, workload, job, baseline, candidate, false);
  ASSERT_TRUE(finding.failure);
  EXPECT_EQ(finding.where, "workload standard, other fill 2 of 2");
  EXPECT_EQ(finding.failure->detail, "y[0, 0]: got 7, wanted 8");
  EXPECT_EQ(finding.calls, 2);
  EXPECT_EQ(gated, 2);
}

TEST_F(OtherFills, hold_where_every_answer_is_right) {
  workload.also_gated.pop_back();
  const Finding finding = gate_other_fills(site, task, workload, job, baseline, candidate, false);
  EXPECT_FALSE(finding.failure);
  EXPECT_EQ(finding.calls, 1);
}

TEST_F(OtherFills, ask_the_baseline_too_where_its_answer_is_not_taken_for_the_right_one) {
  task.gate.baseline_is_expected = false;
  try {
    gate_other_fills(site, task, workload, job, baseline, candidate, false);
    ADD_FAILURE() << "the baseline's answer was not gated";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, Error::Kind::internal);
    EXPECT_NE(std::string(error.what()).find("the baseline failed on workload standard, other fill 2 of 2"), std::string::npos) << error.what();
  }
  EXPECT_EQ(gated, 3);  // both answers to the first fill, the baseline's to the second
}

// Time limits: a workload that is slower on one thread than the gate allows, whatever its answer.
class TimeLimits : public OtherFills {
 protected:
  TimeLimits() {
    task.workloads.push_back({"long", "", {filled_with(3, 2000, 1500), filled_with(4, 5, 5)}, 0.001, {}});
    gated = 0;
  }
};

TEST_F(TimeLimits, hold_for_a_call_that_is_in_time_and_right) {
  task.gate.time_limits = {{"long", 100}};
  const Finding finding = gate_time_limits(site, task, job, candidate, false);
  EXPECT_FALSE(finding.failure) << finding.failure->detail;
  EXPECT_EQ(finding.calls, 1);
  EXPECT_EQ(gated, 2) << "both input sets";
}

TEST_F(TimeLimits, refuse_what_is_too_slow_twice) {
  task.gate.time_limits = {{"long", 1e-7}};
  const Finding finding = gate_time_limits(site, task, job, candidate, false);
  ASSERT_TRUE(finding.failure);
  EXPECT_EQ(finding.failure->verdict, Verdict::wrong);
  EXPECT_EQ(finding.failure->reason, "too slow");
  EXPECT_EQ(finding.where, "workload long on 1 thread");
  EXPECT_EQ(finding.calls, 2);
}

TEST_F(TimeLimits, refuse_a_wrong_answer_that_is_in_time) {
  task.workloads.back().parts.push_back(filled_with(7, 2, 2));
  task.gate.time_limits = {{"long", 100}};
  const Finding finding = gate_time_limits(site, task, job, candidate, false);
  ASSERT_TRUE(finding.failure);
  EXPECT_EQ(finding.failure->detail, "y[0, 0]: got 7, wanted 8");
}

TEST_F(TimeLimits, name_a_workload_that_the_task_has_not) {
  task.gate.time_limits = {{"longest", 1}};
  EXPECT_THROW(gate_time_limits(site, task, job, candidate, false), Error);
}

TEST_F(OtherFills, are_fresh_for_every_seed_and_alike_for_one) {
  std::vector<std::uint32_t> seen;
  workload.also_gated = {[&](Random& random) {
    TensorMap inputs;
    auto x = inputs.add("x", Tensor(Dtype::u32, {2})).flat<std::uint32_t>();
    random.fill_bits(x);
    seen.push_back(x[0]);
    return filled_with(1, 2, 2)(random);
  }};
  for (const std::uint64_t seed : {1u, 1u, 2u}) {
    job.seed = seed;
    EXPECT_FALSE(gate_other_fills(site, task, workload, job, baseline, candidate, false).failure);
  }
  EXPECT_EQ(seen.at(0), seen.at(1));
  EXPECT_NE(seen.at(0), seen.at(2));
}

TEST_F(OtherFills, belong_to_a_workload_that_is_gated_without_timing) {
  const Finding finding = gate_workload(site, task, workload, job, candidate);
  ASSERT_TRUE(finding.failure);
  EXPECT_EQ(finding.where, "workload standard, other fill 2 of 2");
  EXPECT_EQ(finding.calls, 3);
}

}  // namespace
}  // namespace faibench
