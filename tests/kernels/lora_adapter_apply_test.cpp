#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/linalg/lora_adapter_apply/inputs.h"
#include "kernels/linalg/lora_adapter_apply/lora_adapter_apply.h"
#include "kernels/machine_setting.h"
#include "kernels/task_harness.h"

namespace faibench {
namespace {

using namespace testing_support;
namespace lora = lora_adapter_apply;

const Task& task() { return *find_task("lora_adapter_apply"); }

class EveryVariant : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(lora_adapter_apply, EveryVariant, testing::Values("reference", "baseline", "cpu", "peer:five_pass"), [](const auto& i) {
  std::string name = i.param;
  std::ranges::replace(name, ':', '_');
  return name;
});

TEST_P(EveryVariant, holds_on_all_cases) { check_all_cases(task(), GetParam()); }
TEST_P(EveryVariant, holds_on_random_cases) { check_random_cases(task(), GetParam(), 100); }
TEST_P(EveryVariant, holds_on_case_files) { check_case_files(task(), GetParam()); }

TEST_P(EveryVariant, names_the_first_bad_element_of_a_then_of_b) {
  const auto named = [](const char* tensor, std::int64_t index, std::initializer_list<std::pair<const char*, std::size_t>> bad) {
    Random random(3);
    TensorMap inputs = lora::uniform_inputs(random, {4, 37, 11, 7});
    for (const auto& [name, at] : bad) inputs.at(name).flat<float>()[at] = NAN;
    const Rejected got = rejection_by(task(), GetParam(), inputs);
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->code, "bad_adapter");
    EXPECT_EQ(got->tensor, tensor);
    EXPECT_EQ(got->index, index);
  };
  named("A", 0, {{"A", 0}});
  named("A", 101, {{"A", 258}, {"A", 101}, {"B", 3}});
  named("B", 76, {{"B", 76}});
}

TEST_P(EveryVariant, is_right_and_exact_at_an_odd_size_of_several_tiles) {
  Random random(7);
  for (const lora::Sizes sizes : {lora::Sizes{131, 515, 203, 21}, lora::Sizes{3, 1030, 530, 70}}) {
    check_inputs(task(), variant_of(task(), GetParam()), lora::layer_inputs(random, sizes));
    check_inputs(task(), variant_of(task(), GetParam()), lora::exact_inputs(random, sizes));
  }
}

TEST(LoraAdapterApply, is_right_on_every_instruction_set) {
  under_every_instruction_set([](std::int64_t) {
    check_all_cases(task(), "cpu");
    check_random_cases(task(), "cpu", 30);
  });
}

TEST(LoraAdapterApply, is_right_for_any_thread_count) {
  const int before = omp_get_max_threads();
  for (int threads : {1, 2, 3, 5}) {
    SCOPED_TRACE(threads);
    omp_set_num_threads(threads);
    check_random_cases(task(), "cpu", 30);
    Random random(8);
    check_inputs(task(), variant_of(task(), "cpu"), lora::exact_inputs(random, {70, 300, 150, 9}));
  }
  omp_set_num_threads(before);
}

// What f32 loses between the factors of the correction must not be lost for y.
TensorMap extreme(float x, float A, float B, float scale) {
  Random random(9);
  TensorMap inputs = lora::uniform_inputs(random, {5, 12, 21, 3}, scale);
  for (float& v : inputs.at("x").flat<float>()) v *= x;
  for (float& v : inputs.at("A").flat<float>()) v *= A;
  for (float& v : inputs.at("B").flat<float>()) v *= B;
  for (float& v : inputs.at("W").flat<float>()) v *= 1e-20f;
  return inputs;
}
TEST(LoraAdapterApply, brings_back_what_overflows_or_underflows_between_the_factors) {
  for (const char* variant : {"reference", "cpu"}) {
    SCOPED_TRACE(variant);
    check_inputs(task(), variant_of(task(), variant), extreme(1e20f, 1e20f, 1e-30f, 1));      // x@A^T is 1e40
    check_inputs(task(), variant_of(task(), variant), extreme(1, 1, 1e-30f, 1e38f));          // so is scale*x@A^T, nearly
    check_inputs(task(), variant_of(task(), variant), extreme(1e-25f, 1e-25f, 1e38f, 1e20f)); // x@A^T is 1e-50
    check_inputs(task(), variant_of(task(), variant), extreme(1, 1, 1e30f, 1e-44f));          // scale is subnormal
  }
}

TEST(LoraAdapterApply, keeps_nothing_of_one_call_for_the_next) {
  Random random(4);
  TensorMap inputs = lora::layer_inputs(random, {9, 40, 30, 4});
  for (int call = 0; call < 3; ++call) {  // the same addresses, other values
    check_inputs(task(), variant_of(task(), "cpu"), inputs);
    for (const char* name : {"W", "A", "B"}) random.fill_normal(inputs.at(name).flat<float>());
  }
}

class Gate : public testing::Test {
 protected:
  bool passes(const TensorMap& inputs, const TensorMap& outputs) const { return !task().gate.check({refs(inputs), refs(outputs), {}, {}}); }
  TensorMap answer(const TensorMap& inputs) const { return run_kernel(task().contract, variant_of(task(), "reference").kernel, refs(inputs)); }
  Random random_{11};
};

TEST_F(Gate, refuses_an_error_of_a_few_times_the_bound) {
  const TensorMap inputs = lora::layer_inputs(random_, {20, 100, 30, 8});
  TensorMap outputs = answer(inputs);
  EXPECT_TRUE(passes(inputs, outputs));
  outputs.at("y").view<float, 2>()(7, 29) += 0x1p-24f * 116 * 100;  // S is about 10 here
  EXPECT_FALSE(passes(inputs, outputs));
}

TEST_F(Gate, wants_integers_exactly) {
  const TensorMap inputs = lora::exact_inputs(random_, {20, 1000, 30, 8});
  TensorMap outputs = answer(inputs);
  EXPECT_TRUE(passes(inputs, outputs));
  outputs.at("y").view<float, 2>()(19, 3) += 1;
  EXPECT_FALSE(passes(inputs, outputs)) << "one unit, far below the bound of rounded sums";
}

TEST_F(Gate, refuses_a_scale_applied_twice_and_a_dropped_correction) {
  TensorMap inputs = lora::uniform_inputs(random_, {20, 100, 30, 8});
  TensorMap twice = clone(inputs), none = clone(inputs);
  twice.at("scale") = Tensor::scalar(4.0f);
  none.at("scale") = Tensor::scalar(0.0f);
  EXPECT_FALSE(passes(inputs, answer(twice)));
  EXPECT_FALSE(passes(inputs, answer(none)));
}

TEST_F(Gate, matches_nan_and_the_sign_of_infinity) {
  TensorMap inputs = lora::uniform_inputs(random_, {20, 10, 30, 0});
  inputs.at("x").view<float, 2>()(3, 3) = HUGE_VALF;
  inputs.at("x").view<float, 2>()(8, 3) = NAN;
  const TensorMap outputs = answer(inputs);
  EXPECT_TRUE(passes(inputs, outputs));
  const auto changed = [&](std::int64_t t, float value) {
    TensorMap copy = clone(outputs);
    copy.at("y").view<float, 2>()(t, 5) = value;
    return copy;
  };
  EXPECT_FALSE(passes(inputs, changed(3, -outputs.at("y").view<float, 2>()(3, 5))));
  EXPECT_FALSE(passes(inputs, changed(3, NAN)));
  EXPECT_FALSE(passes(inputs, changed(8, 0)));
  EXPECT_FALSE(passes(inputs, changed(9, NAN)));
  EXPECT_FALSE(passes(inputs, changed(9, HUGE_VALF)));
}

TEST_F(Gate, takes_the_answers_of_the_case_files) { check_gate_on_answers(task()); }

TEST_F(Gate, is_as_large_as_the_exact_fill_allows) {
  const TensorMap inputs = lora::exact_inputs(random_, {4, 4096, 4, 16});
  float largest = 0;
  for (float v : inputs.at("x").flat<float>()) largest = std::max(largest, std::abs(v));
  EXPECT_EQ(largest, 4064) << "a*(I + 2R) <= 2^24";
  std::int64_t nonzero = 0;
  for (float v : inputs.at("A").flat<float>()) nonzero += v != 0;
  EXPECT_EQ(nonzero, 16);
}

}  // namespace
}  // namespace faibench
