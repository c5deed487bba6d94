// fp16_tensorcore_mma_gemm: every variant on cases, random cases and case files; what the gate lets through and what it does not.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "kernels/machine_setting.h"
#include "kernels/task_harness.h"

namespace faibench {
namespace tasks { const Task& fp16_tensorcore_mma_gemm(); }
namespace {

using namespace testing_support;

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

const Task& task() { return tasks::fp16_tensorcore_mma_gemm(); }

class Fp16Gemm : public MachineSetting {};

TEST_F(Fp16Gemm, every_variant_holds_on_all_cases) {
  for (const char* variant : {"reference", "baseline", "cpu"}) check_all_cases(task(), variant);
}

TEST_F(Fp16Gemm, every_variant_holds_on_random_cases) {
  check_random_cases(task(), "baseline", 60);
  check_random_cases(task(), "cpu", 200);
}

TEST_F(Fp16Gemm, every_variant_holds_on_case_files) {
  for (const char* variant : {"reference", "baseline", "cpu"}) check_case_files(task(), variant);
}

TEST_F(Fp16Gemm, peers_that_the_build_found_hold_too) {
  for (const Variant& variant : task().variants)
    if (variant.name.starts_with("peer:") && !variant.on_device) {
      check_all_cases(task(), variant.name);
      check_random_cases(task(), variant.name, 40);
    }
}

TEST_F(Fp16Gemm, the_answers_of_the_case_files_pass_the_gate) { check_gate_on_answers(task()); }

TEST_F(Fp16Gemm, holds_for_every_instruction_set) {
  under_every_instruction_set([](std::int64_t) {
    check_all_cases(task(), "cpu");
    check_random_cases(task(), "cpu", 60);
  });
}

TEST_F(Fp16Gemm, holds_for_any_number_of_threads) {
  for (const int threads : {1, 2, 3}) {
    SCOPED_TRACE(threads);
    omp_set_num_threads(threads);
    check_all_cases(task(), "cpu");
    check_random_cases(task(), "cpu", 40);
    Random random(task().name, "smoke", 1, 0);
    check_inputs(task(), variant_of(task(), "cpu"), task().find_workload("smoke")->parts[0](random));
  }
}

// ---- the gate ----

Tensor matrix(std::int64_t rows, std::int64_t columns, const std::vector<float>& values) {
  Tensor tensor(Dtype::f16, {rows, columns});
  auto out = tensor.flat<f16>();
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = to_f16(values.at(i));
  return tensor;
}

/// Does the gate take `c` for A[1, K] @ B[K, 1], B all ones where it is left out?
bool takes(const std::vector<float>& a, float c, std::vector<float> b = {}) {
  const auto K = static_cast<std::int64_t>(a.size());
  if (b.empty()) b.assign(a.size(), 1.0f);
  TensorMap inputs, outputs;
  inputs.add("A", matrix(1, K, a));
  inputs.add("B", matrix(K, 1, b));
  outputs.add("C", matrix(1, 1, {c}));
  return !task().gate.check({refs(inputs), refs(outputs), {}, {}, false});
}

TEST(Fp16GemmGate, wants_the_rounded_sum_where_f32_sums_are_exact) {
  EXPECT_TRUE(takes({2048, 1}, 2048));
  EXPECT_FALSE(takes({2048, 1}, 2050));
  EXPECT_TRUE(takes({2048, 3}, 2052));
  EXPECT_FALSE(takes({2048, 3}, 2050)) << "truncated";
  EXPECT_TRUE(takes({5, -5}, -0.0f));
  EXPECT_FALSE(takes({5, -5}, 0x1p-24f));
  EXPECT_FALSE(takes({65504, 15}, inf));
  EXPECT_TRUE(takes({65504, 16}, inf));
  EXPECT_FALSE(takes({65504, 16}, 65504)) << "saturated";
  EXPECT_FALSE(takes({65504, 16}, -inf));
  EXPECT_FALSE(takes({60000, 60000, -60000, -60000, 1}, nan)) << "f16 partial sums";
  EXPECT_FALSE(takes({60000, 60000, -60000, -60000, 1}, 0));
}

TEST(Fp16GemmGate, grows_its_tolerance_with_the_magnitudes_beyond) {
  // S = 4194816 > 2^22, and integers: (K+8) * 2^-24 * S = 19.5 for K = 70.
  std::vector<float> a(70, 0.0f), b(70, 0.0f);
  for (std::size_t k = 0; k < 64; ++k) a[k] = 256, b[k] = k % 2 ? 256 : -256;
  a[64] = b[64] = 16;
  a[65] = b[65] = 16;
  EXPECT_TRUE(takes(a, 512, b));
  EXPECT_TRUE(takes(a, 530, b));
  EXPECT_TRUE(takes(a, 494, b));
  EXPECT_FALSE(takes(a, 536, b));
  EXPECT_FALSE(takes(a, 488, b));
}

TEST(Fp16GemmGate, allows_rounding_the_other_way_where_sums_are_not_exact) {
  EXPECT_TRUE(takes({1.5f, 0.25f + 0x1p-12f}, 1.75f));
  EXPECT_TRUE(takes({1.5f, 0.25f + 0x1p-12f}, 1.75f + 0x1p-10f));
  EXPECT_FALSE(takes({1.5f, 0.25f + 0x1p-12f}, 1.75f + 3 * 0x1p-10f));
  EXPECT_FALSE(takes({1.5f, 0.25f + 0x1p-12f}, nan));
  EXPECT_FALSE(takes({1.5f, 0.25f + 0x1p-12f}, inf));
}

TEST(Fp16GemmGate, takes_infinity_or_not_within_the_accumulation_error_of_65520_alone) {
  // K = 2, S = 65520: acc_tol = 10 * 2^-24 * 65520 = 0.039.
  EXPECT_TRUE(takes({65504, 15.5f}, 65504));
  EXPECT_FALSE(takes({65504, 15.5f}, inf));
  for (const float near : {15.984375f, 16.015625f}) {
    EXPECT_TRUE(takes({65504, near}, 65504)) << near;
    EXPECT_TRUE(takes({65504, near}, inf)) << near;
    EXPECT_FALSE(takes({65504, near}, -inf)) << near;
    EXPECT_TRUE(takes({-65504, -near}, -inf)) << near;
    EXPECT_FALSE(takes({65504, near}, 65408)) << near;
  }
  EXPECT_TRUE(takes({65504, 16.5f}, inf));
  EXPECT_FALSE(takes({65504, 16.5f}, 65504));
}

TEST(Fp16GemmGate, matches_nan_and_infinity_where_and_only_where_they_belong) {
  EXPECT_TRUE(takes({nan, 1}, nan));
  EXPECT_TRUE(takes({nan, 1}, -nan));
  EXPECT_FALSE(takes({nan, 1}, 1));
  EXPECT_FALSE(takes({nan, 1}, inf));
  EXPECT_TRUE(takes({inf, 1}, inf));
  EXPECT_FALSE(takes({inf, 1}, -inf));
  EXPECT_FALSE(takes({inf, 1}, nan));
  EXPECT_FALSE(takes({inf, 1}, 65504));
  EXPECT_TRUE(takes({inf, 1}, nan, {0, 1}));
  EXPECT_FALSE(takes({inf, 1}, 1, {0, 1})) << "0 * Inf is NaN";
  EXPECT_TRUE(takes({inf, -inf}, nan));
}

TEST(Fp16GemmGate, counts_subnormals) {
  EXPECT_TRUE(takes({0x1p-24f, 0x1p-24f}, 0x1p-9f, {16384, 16384}));
  EXPECT_FALSE(takes({0x1p-24f, 0x1p-24f}, 0, {16384, 16384})) << "flushed inputs";
  EXPECT_TRUE(takes({0x1p-12f, 0x1p-12f}, 0x1p-20f, {0x1p-9f, 0x1p-9f}));
  EXPECT_FALSE(takes({0x1p-12f, 0x1p-12f}, 0, {0x1p-9f, 0x1p-9f})) << "flushed results";
}

TEST(Fp16GemmGate, names_the_first_wrong_element) {
  Random random(task().name, "smoke", 1, 0);
  const TensorMap inputs = task().find_workload("smoke")->parts[0](random);
  TensorMap outputs = run_kernel(task().contract, variant_of(task(), "reference").kernel, refs(inputs));
  outputs.at("C").view<f16, 2>()(7, 90) = to_f16(100);
  outputs.at("C").view<f16, 2>()(64, 3) = to_f16(100);
  const GateResult bad = task().gate.check({refs(inputs), refs(outputs), {}, {}, false});
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(bad->index, (Shape{7, 90}));
  EXPECT_EQ(bad->got, "100");
}

// ---- arithmetic that is allowed and that is not, on the smoke workload and its exact fill ----

/// The sum of one element from its exact products.
using Sum = std::function<f16(std::span<const float> products)>;

f16 in_order(std::span<const float> products, std::size_t first, std::size_t step) {
  float sum = 0;
  for (std::size_t k = first; k < products.size(); k += step) sum += products[k];
  return to_f16(sum);
}

f16 backwards(std::span<const float> products) {
  float sum = 0;
  for (std::size_t k = products.size(); k-- > 0;) sum += products[k];
  return to_f16(sum);
}

f16 in_f32_parts(std::span<const float> products) {
  float sums[8] = {};
  for (std::size_t k = 0; k < products.size(); ++k) sums[k % 8] += products[k];
  return to_f16(((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7])));
}

f16 in_f16(std::span<const float> products) {
  f16 sum{0};
  for (const float p : products) sum = to_f16(to_float(sum) + p);
  return sum;
}

f16 in_two_parts_of_f16(std::span<const float> products) { return to_f16(to_float(in_order(products, 0, 2)) + to_float(in_order(products, 1, 2))); }

f16 in_four_parts_of_bf16(std::span<const float> products) {
  float sum = 0;
  for (std::size_t part = 0; part < 4; ++part) {
    float of_part = 0;
    for (std::size_t k = part; k < products.size(); k += 4) of_part += products[k];
    sum += to_float(to_bf16(of_part));
  }
  return to_f16(sum);
}

f16 truncated(std::span<const float> products) {
  float sum = 0;
  for (const float p : products) sum += p;
  f16 rounded = to_f16(sum);
  if (std::abs(to_float(rounded)) > std::abs(sum)) --rounded.bits;
  return rounded;
}

TensorMap summed(const TensorMap& inputs, const Sum& sum, bool as_bf16 = false) {
  const auto A = inputs.at("A").view<const f16, 2>(), B = inputs.at("B").view<const f16, 2>();
  TensorMap outputs = allocate_outputs(task().contract, refs(inputs));
  const auto C = outputs.at("C").view<f16, 2>();
  const auto value = [as_bf16](f16 x) { return as_bf16 ? to_float(to_bf16(to_float(x))) : to_float(x); };
  std::vector<float> products(static_cast<std::size_t>(A.extent(1)));
  for (std::int64_t i = 0; i < C.extent(0); ++i)
    for (std::int64_t j = 0; j < C.extent(1); ++j) {
      for (std::int64_t k = 0; k < A.extent(1); ++k) products[static_cast<std::size_t>(k)] = value(A(i, k)) * value(B(k, j));
      C(i, j) = sum(products);
    }
  return outputs;
}

class Fp16GemmArithmetic : public testing::Test {
 protected:
  Fp16GemmArithmetic() {
    const Workload& smoke = *task().find_workload("smoke");
    Random random(task().name, "smoke", 1, 0);
    uniform = smoke.parts[0](random);
    exact = smoke.also_gated.at(0)(random);
  }
  static bool passes(const TensorMap& inputs, const Sum& sum, bool as_bf16 = false) {
    const TensorMap outputs = summed(inputs, sum, as_bf16);
    return !task().gate.check({refs(inputs), refs(outputs), {}, {}, false});
  }
  TensorMap uniform, exact;
};

TEST_F(Fp16GemmArithmetic, any_order_and_split_in_f32_passes) {
  for (const Sum& sum : {Sum([](std::span<const float> p) { return in_order(p, 0, 1); }), Sum(backwards), Sum(in_f32_parts)}) {
    EXPECT_TRUE(passes(uniform, sum));
    EXPECT_TRUE(passes(exact, sum));
  }
}

TEST_F(Fp16GemmArithmetic, an_f16_accumulator_fails_on_both_fills) {
  EXPECT_FALSE(passes(uniform, in_f16));
  EXPECT_FALSE(passes(exact, in_f16));
}

TEST_F(Fp16GemmArithmetic, parts_combined_in_16_bits_fail) {
  EXPECT_FALSE(passes(exact, in_two_parts_of_f16));
  EXPECT_FALSE(passes(exact, in_four_parts_of_bf16));
}

TEST_F(Fp16GemmArithmetic, truncation_at_the_end_fails_on_the_exact_fill) { EXPECT_FALSE(passes(exact, truncated)); }

TEST_F(Fp16GemmArithmetic, operands_cast_to_bf16_fail) {
  EXPECT_FALSE(passes(uniform, in_f32_parts, true));
  EXPECT_FALSE(passes(exact, in_f32_parts, true));
}

TEST_F(Fp16GemmArithmetic, the_exact_fill_needs_more_than_11_bits_and_no_more_than_22) {
  const auto A = exact.at("A").view<const f16, 2>(), B = exact.at("B").view<const f16, 2>();
  double largest = 0;
  for (std::int64_t i = 0; i < A.extent(0); ++i)
    for (std::int64_t j = 0; j < B.extent(1); ++j) {
      double S = 0;
      for (std::int64_t k = 0; k < A.extent(1); ++k) {
        ASSERT_EQ(to_float(A(i, k)), std::round(to_float(A(i, k))));
        ASSERT_LE(std::abs(to_float(A(i, k))), 2047);
        ASSERT_LE(std::abs(to_float(B(k, j))), 1);
        S += std::abs(static_cast<double>(to_float(A(i, k))) * static_cast<double>(to_float(B(k, j))));
      }
      largest = std::max(largest, S);
    }
  EXPECT_LE(largest, 0x1p22);
  EXPECT_GT(largest, 2048);
}

}  // namespace
}  // namespace faibench
