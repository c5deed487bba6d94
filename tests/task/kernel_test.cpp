#include "task/kernel.h"

#include <gtest/gtest.h>

#include "task/fake_task.h"

namespace faibench {
namespace {

void twice_f32(View<const float, 1> x, View<float, 1> y) {
  for (std::int64_t i = 0; i < x.extent(0); ++i) y[i] = 2 * x[i];
}
void twice_i32(View<const std::int32_t, 1> x, View<std::int32_t, 1> y) {
  for (std::int64_t i = 0; i < x.extent(0); ++i) y[i] = 2 * x[i];
}
void flag_and_text(bool flag, std::string_view text, std::int64_t shift, View<std::int64_t, 1> y) { y[0] = flag ? static_cast<std::int64_t>(text.size()) + shift : -1; }

Kernel twice() { return Kernel({bind(twice_f32, {"x", "y"}), bind(twice_i32, {"x", "y"})}); }

TensorMap one(const char* name, Tensor tensor) {
  TensorMap map;
  map.add(name, std::move(tensor));
  return map;
}

TEST(Kernel, runs_the_overload_whose_dtypes_fit) {
  const TensorMap inputs = one("x", Tensor::of<std::int32_t>({2}, {3, 4}));
  TensorMap outputs = one("y", Tensor(Dtype::i32, {2}));
  const TensorRefMap in = refs(inputs);
  TensorRefMap out = refs(outputs);
  Arguments arguments{in, out, {}};
  EXPECT_FALSE(twice()(arguments));
  EXPECT_EQ(outputs.at("y").flat<std::int32_t>()[1], 8);
}

TEST(Kernel, without_a_fitting_overload_is_an_internal_error) {
  const TensorMap inputs = one("x", Tensor(Dtype::f64, {2}));
  TensorMap outputs = one("y", Tensor(Dtype::f64, {2}));
  const TensorRefMap in = refs(inputs);
  TensorRefMap out = refs(outputs);
  Arguments arguments{in, out, {}};
  EXPECT_THROW((void)twice()(arguments), Error);
}

TEST(Kernel, scalars_booleans_and_text_arrive_by_value) {
  TensorMap inputs;
  inputs.add("flag", Tensor::boolean(true));
  inputs.add("text", Tensor::text("five!"));
  inputs.add("shift", Tensor::scalar(std::int64_t{10}));
  TensorMap outputs = one("y", Tensor(Dtype::i64, {1}));
  const TensorRefMap in = refs(inputs);
  TensorRefMap out = refs(outputs);
  Arguments arguments{in, out, {}};
  EXPECT_FALSE(Kernel({bind(flag_and_text, {"flag", "text", "shift", "y"})})(arguments));
  EXPECT_EQ(outputs.at("y").flat<std::int64_t>()[0], 15);
}

TEST(Kernel, a_default_one_is_empty) {
  EXPECT_FALSE(static_cast<bool>(Kernel()));
  EXPECT_TRUE(static_cast<bool>(twice()));
}

TEST(Bind, wants_one_name_a_parameter) { EXPECT_THROW((void)bind(twice_f32, {"x"}), Error); }

}  // namespace
}  // namespace faibench
