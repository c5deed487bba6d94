// splitk_tall_skinny_gemm: every variant on cases, random cases and case files; the cpu variant on every instruction set; what the gate refuses.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/fenced.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/gate.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/splitk_tall_skinny_gemm.h"
#include "kernels/machine_setting.h"
#include "kernels/task_harness.h"

namespace faibench {
namespace tasks { const Task& splitk_tall_skinny_gemm(); }
namespace {

using namespace testing_support;
using splitk_tall_skinny_gemm::exact;

const Task& task() { return tasks::splitk_tall_skinny_gemm(); }

GateResult judge(const TensorMap& inputs, const TensorMap& outputs) { return task().gate.check({refs(inputs), refs(outputs), {}, {}}); }
TensorMap run(std::string_view variant, const TensorMap& inputs) { return run_kernel(task().contract, variant_of(task(), variant).kernel, refs(inputs)); }

class SplitK : public MachineSetting {};

TEST_F(SplitK, every_variant_holds_on_all_cases) {
  for (const char* variant : {"reference", "baseline", "cpu"}) check_all_cases(task(), variant);
}

TEST_F(SplitK, every_variant_holds_on_random_cases) {
  for (const char* variant : {"baseline", "cpu"}) check_random_cases(task(), variant, 100);
}

TEST_F(SplitK, every_variant_holds_on_case_files) {
  for (const char* variant : {"reference", "baseline", "cpu"}) check_case_files(task(), variant);
}

TEST_F(SplitK, libraries_found_hold_on_all_cases_too) {
  for (const Variant& variant : task().variants)
    if (variant.name.starts_with("peer:") && !variant.on_device) {
      check_all_cases(task(), variant.name);
      check_case_files(task(), variant.name);
    }
}

TEST_F(SplitK, the_case_files_answers_pass_the_gate) { check_gate_on_answers(task()); }

TEST_F(SplitK, holds_for_every_instruction_set) {
  under_every_instruction_set([](std::int64_t) {
    check_all_cases(task(), "cpu");
    check_random_cases(task(), "cpu", 60);
  });
}

TEST_F(SplitK, is_right_for_any_thread_count) {
  for (const auto& [M, N, K] : {std::array<std::int64_t, 3>{16, 16, 40000}, {1, 1, 300001}, {5, 7, 20011}, {70, 130, 2000}, {3, 64, 5000}, {500, 400, 20}, {1, 1, 65536}})
    for (const int threads : {1, 2, 3, 7}) {
      omp_set_num_threads(threads);
      Random random(static_cast<std::uint64_t>(M));
      const TensorMap inputs = exact(random, M, N, K);
      const GateResult bad = judge(inputs, run("cpu", inputs));
      EXPECT_FALSE(bad.has_value()) << M << "x" << N << "x" << K << ", " << threads << " threads: " << to_string(*bad);
    }
}

// Every size of tile, and each number of rows and columns that tiles leave over, on every instruction set.
TEST_F(SplitK, is_exact_on_integers_of_every_small_shape) {
  under_every_instruction_set([&](std::int64_t) {
    for (std::int64_t M = 1; M <= 34; M += M < 6 ? 1 : 3)
      for (std::int64_t N = 1; N <= 70; N += N < 5 ? 1 : 4) {
        Random random(static_cast<std::uint64_t>(M * 100 + N));
        const TensorMap inputs = exact(random, M, N, 90 + M + N);
        const GateResult bad = judge(inputs, run("cpu", inputs));
        EXPECT_FALSE(bad.has_value()) << M << "x" << N << ": " << to_string(*bad);
      }
  });
}

TEST_F(SplitK, touches_nothing_past_the_end_on_any_instruction_set) {
  under_every_instruction_set([&](std::int64_t) {
    for (const std::int64_t M : {1, 3, 5, 16, 21})
      for (const std::int64_t N : {1, 2, 4, 7, 16, 19, 33, 64})
        for (const std::int64_t K : {1, 15, 63, 129, 1027}) {
          const Fenced fenced_A(4 * M * K), fenced_B(4 * K * N), fenced_C(4 * M * N);
          float *A = fenced_A.data<float>(), *B = fenced_B.data<float>(), *C = fenced_C.data<float>();
          std::fill_n(A, M * K, 1.0f);
          std::fill_n(B, K * N, 2.0f);
          splitk_tall_skinny_gemm::cpu::multiply({A, {M, K}}, {B, {K, N}}, {C, {M, N}});
          EXPECT_TRUE(std::all_of(C, C + M * N, [&](float c) { return c == 2.0f * static_cast<float>(K); })) << M << "x" << N << "x" << K;
        }
  });
}

// The bound of the gate is one that some inputs reach: a large first term of every chain, then terms that each round up by half a unit.
TEST_F(SplitK, keeps_the_bound_where_every_addition_rounds_the_same_way) {
  for (const auto& [M, N] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {16, 16}, {4, 2}, {2, 40}})
    for (const std::int64_t K : {64, 128, 1000, 5000}) {
      TensorMap inputs;
      inputs.add("A", Tensor(Dtype::f32, {M, K}));
      inputs.add("B", Tensor(Dtype::f32, {K, N}));
      std::ranges::fill(inputs.at("B").flat<float>(), 1.0f);
      for (std::int64_t i = 0; i < M; ++i)
        for (std::int64_t k = 0; k < K; ++k) inputs.at("A").view<float, 2>()(i, k) = k % 16 == 0 && k < 64 ? 1.0f : 0x1.01p-24f;
      const GateResult bad = judge(inputs, run("cpu", inputs));
      EXPECT_FALSE(bad.has_value()) << M << "x" << N << "x" << K << ": " << to_string(*bad);
    }
}

TEST_F(SplitK, the_gate_lets_no_wrong_answer_through) {
  for (const bool integers : {false, true}) {
    Random random(1), other(2);
    const auto& smoke = *task().find_workload("smoke");
    const Generator& make = integers ? smoke.also_gated.at(0) : smoke.parts[0];
    const TensorMap inputs = make(random), earlier = make(other), right = run("reference", inputs);
    EXPECT_FALSE(judge(inputs, right));
    const auto refused = [&](const char* what, auto change) {
      TensorMap outputs = clone(right);
      change(outputs.at("C").flat<float>());
      EXPECT_TRUE(judge(inputs, outputs)) << what << (integers ? ", integers" : "");
    };
    refused("zeros", [](std::span<float> c) { std::ranges::fill(c, 0.0f); });
    refused("a constant", [](std::span<float> c) { std::ranges::fill(c, 3.0f); });
    refused("a copy of the input", [&](std::span<float> c) { std::copy_n(inputs.at("A").flat<float>().begin(), c.size(), c.begin()); });
    refused("the rows reversed", [](std::span<float> c) { std::ranges::reverse(c); });
    refused("the answer to another call", [&](std::span<float> c) { std::ranges::copy(run("reference", earlier).at("C").flat<float>(), c.begin()); });
    refused("one NaN", [](std::span<float> c) { c.back() = NAN; });
    refused("a lost last term", [&](std::span<float> c) {
      const auto A = inputs.at("A").view<const float, 2>(), B = inputs.at("B").view<const float, 2>();
      std::int64_t i = 0, j = 0, k = 20010;
      if (!integers) {  // the largest of them: a small one is within what rounding may lose
        for (std::int64_t r = 0; r < 5; ++r) i = std::abs(A(r, k)) > std::abs(A(i, k)) ? r : i;
        for (std::int64_t s = 0; s < 7; ++s) j = std::abs(B(k, s)) > std::abs(B(k, j)) ? s : j;
      } else {
        while (A(i, k) == 0) ++i;
        while (B(k, j) == 0) ++j;
      }
      c[static_cast<std::size_t>(i * 7 + j)] -= A(i, k) * B(k, j);
    });
  }
}

TEST_F(SplitK, the_gate_wants_integers_to_the_last_bit_and_others_within_the_bound) {
  Random random(3);
  const TensorMap integers = exact(random, 4, 4, 1000);
  TensorMap outputs = run("reference", integers);
  float& c = outputs.at("C").flat<float>()[5];
  c += 1;
  EXPECT_TRUE(judge(integers, outputs));
  const TensorMap others = splitk_tall_skinny_gemm::uniform(random, 1, 1, 10000);
  double S = 0;
  for (std::int64_t k = 0; k < 10000; ++k) S += std::abs(static_cast<double>(others.at("A").flat<float>()[k]) * static_cast<double>(others.at("B").flat<float>()[k]));
  const double bound = 0x1p-24 * (64 + 2 * 100) * S;
  for (const double share : {-0.9, 0.9, 1.1, -1.1}) {
    TensorMap off = run("reference", others);
    off.at("C").flat<float>()[0] += static_cast<float>(share * bound);
    EXPECT_EQ(judge(others, off).has_value(), std::abs(share) > 1) << share;
  }
}

TEST_F(SplitK, the_exact_fill_rounds_in_no_order) {
  Random random(4);
  for (const std::int64_t K : {1, 100, 20011, 1 << 20}) {
    const TensorMap inputs = exact(random, 1, 1, K);
    const auto a = inputs.at("A").flat<float>(), b = inputs.at("B").flat<float>();
    const float most = std::max(1.0f, std::floor(std::sqrt(0x1p24f / static_cast<float>(K))));
    EXPECT_LE(static_cast<double>(most) * most * static_cast<double>(K), 0x1p24);
    for (const auto of : {a, b}) {
      EXPECT_TRUE(std::ranges::all_of(of, [&](float x) { return std::abs(x) <= most && x == std::nearbyint(x); }));
      if (K > 1000) { EXPECT_EQ(*std::ranges::max_element(of), most); }
    }
  }
}

TEST_F(SplitK, gates_every_workload_on_integers_too) {
  for (const Workload& workload : task().workloads) EXPECT_EQ(workload.also_gated.size(), 1u) << workload.name;
}

TEST_F(SplitK, counts_each_operand_once) {
  Random random(5);
  const TensorMap inputs = splitk_tall_skinny_gemm::uniform(random, 3, 5, 100);
  EXPECT_EQ(task().floor(refs(inputs)).bytes, 4.0 * (100 * 8 + 15));
  EXPECT_EQ(task().floor(refs(inputs)).operations, 2.0 * 3 * 5 * 100);
}

}  // namespace
}  // namespace faibench
