#include <gtest/gtest.h>
#include <omp.h>

#include <cstring>
#include <span>

#include "kernels/fenced.h"
#include "kernels/linalg/coalesced_matrix_transpose/coalesced_matrix_transpose.h"
#include "kernels/machine_setting.h"
#include "kernels/task_harness.h"

namespace faibench {
namespace {

using namespace testing_support;

const Task& task() { return *find_task("coalesced_matrix_transpose"); }

class EveryVariant : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(coalesced_matrix_transpose, EveryVariant, testing::Values("reference", "baseline", "cpu"), [](const auto& i) { return std::string(i.param); });

TEST_P(EveryVariant, holds_on_all_cases) { check_all_cases(task(), GetParam()); }
TEST_P(EveryVariant, holds_on_random_cases) { check_random_cases(task(), GetParam(), 100); }
TEST_P(EveryVariant, holds_on_case_files) { check_case_files(task(), GetParam()); }

// Edges around one and several lines, registers and blocks, and long sides that several threads share.
constexpr std::pair<std::int64_t, std::int64_t> sizes[] = {{1, 1},     {1, 17},   {17, 1},    {15, 16},  {16, 15},    {16, 16},   {17, 17},     {31, 33},   {7, 129},    {130, 9},
                                                           {128, 128}, {129, 65}, {257, 300}, {64, 513}, {1025, 130}, {131, 1025}, {1100, 1100}, {5, 40000}, {40000, 6},
                                                           // large enough to be streamed: whole lines, ragged ones, few rows, few columns
                                                           {2048, 512}, {1040, 1030}, {2055, 600}, {65, 17000}, {63, 17000}, {16, 70000}, {64, 16400}, {70001, 15}};

void expect_transposed(std::int64_t M, std::int64_t N, Fenced::At at, std::int64_t shift = 0) {
  const Fenced in(M * N * 4, at), wide((M * N + shift) * 4, at);
  const std::span<float> x(in.data<float>(), static_cast<std::size_t>(M * N)), y(wide.data<float>() + shift, x.size());
  for (std::int64_t k = 0; k < M * N; ++k) {
    const std::uint32_t bits = static_cast<std::uint32_t>(k) * 2654435761u;  // all kinds of floats
    std::memcpy(x.data() + k, &bits, 4);
  }
  coalesced_matrix_transpose::cpu::transpose({x.data(), {M, N}}, {y.data(), {N, M}});
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t j = 0; j < N; ++j) wrong += std::memcmp(x.data() + i * N + j, y.data() + j * M + i, 4) != 0;
  EXPECT_EQ(wrong, 0) << M << " x " << N;
}

class CoalescedMatrixTranspose : public MachineSetting {};

TEST_F(CoalescedMatrixTranspose, touches_nothing_past_either_end_on_any_instruction_set) {
  under_every_instruction_set([](std::int64_t) {
    for (const auto& [M, N] : sizes)
      for (Fenced::At at : {Fenced::At::start, Fenced::At::end}) expect_transposed(M, N, at);
  });
}

TEST_F(CoalescedMatrixTranspose, results_may_start_anywhere_in_a_line) {
  under_every_instruction_set([](std::int64_t) {
    for (std::int64_t shift : {1, 4, 8, 15})
      for (const auto& [M, N] : {std::pair<std::int64_t, std::int64_t>{1040, 1030}, {64, 16400}, {1100, 1100}}) expect_transposed(M, N, Fenced::At::end, shift);
  });
}

TEST_F(CoalescedMatrixTranspose, is_right_for_any_thread_count) {
  for (int threads : {1, 2, 3, 7}) {
    SCOPED_TRACE(threads);
    omp_set_num_threads(threads);
    for (const auto& [M, N] : sizes) expect_transposed(M, N, Fenced::At::end);
  }
}

TEST_F(CoalescedMatrixTranspose, the_gate_lets_no_wrong_answer_through) {
  Random random(1), other(2);
  const TensorMap inputs = task().find_workload("smoke")->parts[0](random), earlier = task().find_workload("smoke")->parts[0](other);
  const auto answer = [](const TensorMap& in) { return run_kernel(task().contract, variant_of(task(), "cpu").kernel, refs(in)); };
  const TensorMap expected = expected_outputs(task(), refs(inputs));
  const auto wrong = [&](const TensorMap& outputs) { return task().gate.check({refs(inputs), refs(outputs), refs(expected), {}}).has_value(); };
  EXPECT_FALSE(wrong(answer(inputs)));
  EXPECT_TRUE(wrong(allocate_outputs(task().contract, refs(inputs)))) << "zeros";
  EXPECT_TRUE(wrong(answer(earlier))) << "the answer to another call";
  TensorMap copy = answer(inputs);
  std::memcpy(copy.at("y").data(), inputs.at("x").data(), static_cast<std::size_t>(copy.at("y").bytes()));
  EXPECT_TRUE(wrong(copy)) << "a copy of the input";
  TensorMap one_bit = answer(inputs);
  one_bit.at("y").data()[one_bit.at("y").bytes() - 1] ^= std::byte{0x80};
  EXPECT_TRUE(wrong(one_bit)) << "one sign";
}

}  // namespace
}  // namespace faibench
