// int4_int8_blocked_dot: every variant and every form of the cpu variant on cases, random cases and case files; what they read; what the gate refuses.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "kernels/fenced.h"
#include "kernels/linalg/int4_int8_blocked_dot/cpu.h"
#include "kernels/machine_setting.h"
#include "kernels/task_harness.h"

namespace faibench {
namespace tasks { const Task& int4_int8_blocked_dot(); }
namespace {

using namespace testing_support;
namespace cpu = int4_int8_blocked_dot::cpu;

const Task& task() { return tasks::int4_int8_blocked_dot(); }

class EveryVariant : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(int4_int8_blocked_dot, EveryVariant, testing::Values("reference", "baseline", "cpu"), [](const auto& i) { return std::string(i.param); });

TEST_P(EveryVariant, holds_on_all_cases) { check_all_cases(task(), GetParam()); }
TEST_P(EveryVariant, holds_on_random_cases) { check_random_cases(task(), GetParam(), 100); }
TEST_P(EveryVariant, holds_on_case_files) { check_case_files(task(), GetParam()); }

std::vector<std::int64_t> run(const cpu::Form& form, const TensorMap& inputs) {
  const Fenced a_q(inputs.at("a_q")), a_coef(inputs.at("a_coef")), a_sign(inputs.at("a_sign")), b_q(inputs.at("b_q")), b_coef(inputs.at("b_coef")), b_sign(inputs.at("b_sign"));
  const Shape& shape = inputs.at("a_coef").shape();
  std::vector<std::int64_t> dot(static_cast<std::size_t>(shape[0]), 77);
  cpu::blocked_dot(form, {a_q.data<std::uint8_t>(), a_coef.data<std::int8_t>(), a_sign.data<std::uint32_t>(), shape[0], shape[1]},
                   {b_q.data<std::int8_t>(), b_coef.data<std::int16_t>(), b_sign.data<std::uint32_t>()}, dot.data());
  return dot;
}

std::vector<std::int64_t> right(const TensorMap& inputs) {
  const TensorMap outputs = expected_outputs(task(), refs(inputs));
  const auto dot = outputs.at("dot").flat<std::int64_t>();
  return {dot.begin(), dot.end()};
}

class EveryForm : public MachineSetting, public testing::WithParamInterface<const cpu::Form*> {
 protected:
  void SetUp() override {
    if (!GetParam()->runs_here()) GTEST_SKIP() << "this processor has no " << GetParam()->name;
  }
};
INSTANTIATE_TEST_SUITE_P(int4_int8_blocked_dot, EveryForm, testing::ValuesIn(cpu::forms().begin(), cpu::forms().end()), [](const auto& i) { return std::string(i.param->name); });

TEST_P(EveryForm, is_right_on_every_valid_case_and_reads_nothing_past_the_end) {
  for (const Case& c : task().cases) {
    SCOPED_TRACE(c.name);
    Random random(task().name, c.name, 1, 0);
    const TensorMap inputs = c.inputs(random);
    if (task().contract.validate(refs(inputs))) continue;
    EXPECT_EQ(run(*GetParam(), inputs), right(inputs));
  }
}

TEST_P(EveryForm, is_right_for_every_number_of_blocks_and_threads) {
  for (const std::int64_t R : {1, 2, 7, 64})
    for (std::int64_t nb = 0; nb <= 70; ++nb) {
      TensorMap inputs;
      inputs.add("a_q", Tensor(Dtype::u8, {R, nb, 16}));
      inputs.add("a_coef", Tensor(Dtype::i8, {R, nb}));
      inputs.add("a_sign", Tensor(Dtype::u32, {R, nb}));
      inputs.add("b_q", Tensor(Dtype::i8, {nb, 32}));
      inputs.add("b_coef", Tensor(Dtype::i16, {nb}));
      inputs.add("b_sign", Tensor(Dtype::u32, {nb}));
      Random random(static_cast<std::uint64_t>(R * 1000 + nb));
      for (auto& [name, tensor] : inputs) std::generate_n(tensor.data(), tensor.bytes(), [&] { return static_cast<std::byte>(random.u32()); });
      omp_set_num_threads(static_cast<int>(1 + nb % 5));
      EXPECT_EQ(run(*GetParam(), inputs), right(inputs)) << R << " x " << nb;
    }
}

TEST_P(EveryForm, is_right_for_any_thread_count) {
  for (const char* name : {"one_long_stream", "few_long_rows", "many_rows", "rows_of_257"}) {
    const Case& c = *std::ranges::find(task().cases, name, &Case::name);
    Random random(task().name, c.name, 1, 0);
    const TensorMap inputs = c.inputs(random);
    const auto wanted = right(inputs);
    for (int threads : {1, 2, 3, 7}) {
      omp_set_num_threads(threads);
      EXPECT_EQ(run(*GetParam(), inputs), wanted) << name << ", " << threads << " threads";
    }
  }
}

TEST(Int4Int8BlockedDot, has_a_form_for_every_machine) { EXPECT_TRUE(cpu::forms().back()->runs_here()); }

TEST(Int4Int8BlockedDot, the_gate_lets_no_wrong_answer_through) {
  Random random(1), other(2);
  const Generator& smoke = task().find_workload("smoke")->parts[0];
  const TensorMap inputs = smoke(random), earlier = smoke(other);
  const auto answer = [](const TensorMap& in) { return run_kernel(task().contract, variant_of(task(), "cpu").kernel, refs(in)); };
  const TensorMap expected = expected_outputs(task(), refs(inputs));
  const auto wrong = [&](const TensorMap& outputs) { return task().gate.check({refs(inputs), refs(outputs), refs(expected), {}}).has_value(); };
  EXPECT_FALSE(wrong(answer(inputs)));
  EXPECT_TRUE(wrong(allocate_outputs(task().contract, refs(inputs)))) << "zeros";
  EXPECT_TRUE(wrong(answer(earlier))) << "the answer to another call";
  TensorMap reversed = answer(inputs), off_by_one = answer(inputs);
  std::ranges::reverse(reversed.at("dot").flat<std::int64_t>());
  EXPECT_TRUE(wrong(reversed)) << "the rows in another order";
  off_by_one.at("dot").flat<std::int64_t>().back() += 1;
  EXPECT_TRUE(wrong(off_by_one)) << "off by one";
}

TEST(Int4Int8BlockedDot, sums_past_what_doubles_hold) {
  const Case& c = *std::ranges::find(task().cases, "beyond_2_53", &Case::name);
  Random random(1);
  // 2^17 blocks of 127 * -32768 * (32 * -8 * -128)
  EXPECT_EQ(right(c.inputs(random)), std::vector<std::int64_t>{(std::int64_t{1} << 17) * 127 * -32768 * 32768});
}

TEST(Int4Int8BlockedDot, counts_the_bytes_of_a_call) {
  Random random(1);
  const TensorMap inputs = task().find_workload("smoke")->parts[0](random);
  EXPECT_EQ(task().floor(refs(inputs)).bytes, 21.0 * 33 * 13 + 38 * 13 + 8 * 33);
}

}  // namespace
}  // namespace faibench
