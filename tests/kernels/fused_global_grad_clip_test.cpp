#include "kernels/execution_harness.h"

namespace faibench::testing_support {
namespace {

const Task& task() { return *find_task("fused_global_grad_clip"); }

class EachVariant : public testing::TestWithParam<const char*> {};

TEST_P(EachVariant, is_right_on_every_case) { check_all_cases(task(), GetParam()); }
TEST_P(EachVariant, is_right_on_random_cases) { check_random_cases(task(), GetParam(), 100); }
TEST_P(EachVariant, is_right_on_the_case_files) { check_case_files(task(), GetParam()); }
TEST_P(EachVariant, names_the_first_tensor_that_is_not_finite) {
  const Rejected rejected = rejection_by(task(), GetParam(), case_inputs(task(), "strict_nan_f32"));
  ASSERT_TRUE(rejected);
  EXPECT_NE(rejected->message.find("tensor 2"), std::string::npos) << rejected->message;
}
INSTANTIATE_TEST_SUITE_P(FusedGlobalGradClip, EachVariant, testing::Values("reference", "baseline", "cpu"));

/// Past the size from which stores are streamed and, unclipped, copies are made in the first pass.
TensorMap large(Dtype dtype, double max_norm, float outlier) {
  Random random(7);
  const std::int64_t G = (16 << 20) / size_of(dtype) + 12'345;
  std::vector<float> values(static_cast<std::size_t>(G));
  random.fill_normal(values, 0, 1e-3f);
  values[4'000'000] = outlier;
  TensorMap inputs;
  Tensor& grads = inputs.add("grads", Tensor(dtype, {G}));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == Dtype::f32) grads.flat<float>()[i] = values[i];
    else grads.flat<bf16>()[i] = to_bf16(values[i]);
  }
  inputs.add("offsets", Tensor::of<std::int64_t>({4}, {0, 1'000'003, 1'000'010, G}));
  inputs.add("max_norm", Tensor::scalar(max_norm));
  inputs.add("error_if_nonfinite", Tensor::boolean(false));
  return inputs;
}

TEST(FusedGlobalGradClip, is_right_where_outputs_pass_the_caches) {
  for (Dtype dtype : {Dtype::f32, Dtype::bf16})
    for (const auto& [max_norm, outlier] : {std::pair<double, float>{0.5, 0.f}, {100, 0.f}, {100, 1e4f}, {100, NAN}, {100, INFINITY}}) {  // the sample misses the outlier
      SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(max_norm) + " " + std::to_string(outlier));
      check_inputs(task(), variant_of(task(), "cpu"), large(dtype, max_norm, outlier));
    }
}

TEST(FusedGlobalGradClip, gives_the_same_bits_on_any_number_of_threads) {
  Random random(3);
  const TensorMap inputs = large(Dtype::f32, 0.5, 0);
  TensorMap first;
  check_on_threads(task(), [&](int threads) {
    TensorMap outputs = run_kernel(task().contract, variant_of(task(), "cpu").kernel, refs(inputs));
    if (threads == 1) first = clone(outputs);
    for (const auto& [name, tensor] : outputs) EXPECT_EQ(std::memcmp(tensor.data(), first.at(name).data(), static_cast<std::size_t>(tensor.bytes())), 0) << name;
  });
}

TEST(FusedGlobalGradClip, is_right_on_every_instruction_set) {
  check_on_instruction_sets(task(), [] {
    check_inputs(task(), variant_of(task(), "cpu"), large(Dtype::bf16, 100, 0));
    check_inputs(task(), variant_of(task(), "cpu"), large(Dtype::f32, 0.5, 0));
  });
}

TEST(FusedGlobalGradClip, refuses_a_scaling_by_almost_one) {
  TensorMap inputs = large(Dtype::f32, 100, 0);
  TensorMap outputs = run_kernel(task().contract, variant_of(task(), "baseline").kernel, refs(inputs));
  const TensorMap expected = clone(outputs);
  const std::vector<TensorMap> probes;
  EXPECT_FALSE(task().gate.check({refs(inputs), refs(outputs), refs(expected), probes}));
  for (float& x : outputs.at("clipped").flat<float>()) x *= 0.99999994f;
  EXPECT_TRUE(task().gate.check({refs(inputs), refs(outputs), refs(expected), probes}));
}

}  // namespace
}  // namespace faibench::testing_support
