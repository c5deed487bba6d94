#include "task/gate.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace faibench {
namespace {

using testing::HasSubstr;
constexpr float inf = std::numeric_limits<float>::infinity();

TensorMap out(Tensor tensor) {
  TensorMap map;
  map.add("out", std::move(tensor));
  return map;
}
GateResult judge(const Gate& gate, const TensorMap& got, const TensorMap& wanted) {
  const TensorMap none;
  return gate.check({refs(none), refs(got), refs(wanted), {}});
}
TensorMap f32(std::vector<float> values) { return out(Tensor::of<float>({static_cast<std::int64_t>(values.size())}, values)); }
TensorMap f64(std::vector<double> values) { return out(Tensor::of<double>({static_cast<std::int64_t>(values.size())}, values)); }
Gate close() { return close_gate({{"", Dtype::f32, 1e-3, 1e-6}}); }

TEST(ExactGate, holds_for_equal_bits) {
  EXPECT_FALSE(judge(exact_gate(), f32({1, NAN, -0.0f}), f32({1, NAN, -0.0f})));
}

TEST(ExactGate, tells_zero_from_negative_zero) { EXPECT_TRUE(judge(exact_gate(), f32({0.0f}), f32({-0.0f}))); }

TEST(ExactGate, names_the_first_wrong_element) {
  const GateResult bad = judge(exact_gate(), out(Tensor::of<std::int32_t>({2, 3}, {1, 2, 3, 4, 9, 9})), out(Tensor::of<std::int32_t>({2, 3}, {1, 2, 3, 4, 5, 6})));
  ASSERT_TRUE(bad);
  EXPECT_EQ(to_string(*bad), "out[1, 1]: got 9, wanted 5");
}

TEST(ExactGate, a_missing_output_fails) { EXPECT_THAT(to_string(*judge(exact_gate(), TensorMap(), f32({1}))), HasSubstr("missing")); }

TEST(ExactGate, another_shape_or_dtype_fails_before_values_are_read) {
  EXPECT_THAT(to_string(*judge(exact_gate(), f32({1, 2}), f32({1}))), HasSubstr("shape"));
  EXPECT_THAT(to_string(*judge(exact_gate(), out(Tensor(Dtype::i32, {1})), f32({0}))), HasSubstr("dtype"));
}

TEST(ExactGate, an_empty_output_equals_an_empty_one) { EXPECT_FALSE(judge(exact_gate(), f32({}), f32({}))); }

TEST(CloseGate, takes_what_lies_within_and_refuses_what_lies_beyond) {
  EXPECT_FALSE(judge(close(), f32({1.0009f}), f64({1})));
  const GateResult bad = judge(close(), f32({1, 1.01f}), f64({1, 1}));
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->index, (Shape{1}));
  EXPECT_NEAR(bad->error_over_tolerance, 10, 0.1);
}

struct Special { const char* name; float got; double wanted; bool holds; };
void PrintTo(const Special& s, std::ostream* os) { *os << s.name; }
class SpecialValues : public testing::TestWithParam<Special> {};
TEST_P(SpecialValues, follow_the_rule) { EXPECT_EQ(!judge(close(), f32({GetParam().got}), f64({GetParam().wanted})), GetParam().holds); }
INSTANTIATE_TEST_SUITE_P(close_gate, SpecialValues,
                         testing::Values(Special{"nan_for_nan", NAN, NAN, true}, Special{"nan_for_a_number", NAN, 1, false}, Special{"a_number_for_nan", 1, NAN, false},
                                         Special{"infinity_for_the_same", inf, inf, true}, Special{"infinity_of_the_other_sign", -inf, inf, false},
                                         Special{"infinity_for_a_number", inf, 3e38, false}, Special{"a_number_for_infinity", 3e38f, inf, false},
                                         Special{"negative_zero_for_zero", -0.0f, 0, true}),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(CloseGate, compares_integers_exactly) {
  const Gate gate = close_gate({{"", Dtype::f32, 1, 1}});
  EXPECT_TRUE(judge(gate, out(Tensor::of<std::int32_t>({1}, {100})), out(Tensor::of<std::int32_t>({1}, {101}))));
}

TEST(CloseGate, a_named_tolerance_wins_over_the_general_one_in_any_order) {
  const Tolerance loose{"", Dtype::f32, 0, 1}, strict{"out", Dtype::f32, 0, 1e-6};
  EXPECT_TRUE(judge(close_gate({loose, strict}), f32({1.5f}), f64({1})));
  EXPECT_TRUE(judge(close_gate({strict, loose}), f32({1.5f}), f64({1})));
}

TEST(CloseGate, says_its_tolerances_in_words) { EXPECT_EQ(close().text, "f32 close(0.001, 1e-06)"); }

TEST(ElementText, shows_the_bits_of_what_is_not_finite) {
  EXPECT_EQ(element_text(f32({NAN}).at("out").ref(), 0), "nan (0x7fc00000)");
  EXPECT_EQ(element_text(f32({-1.5f}).at("out").ref(), 0), "-1.5");
}

TEST(Unflatten, counts_the_last_dimension_fastest) {
  EXPECT_EQ(unflatten({2, 3, 4}, 23), (Shape{1, 2, 3}));
  EXPECT_EQ(unflatten({}, 0), Shape());
}

}  // namespace
}  // namespace faibench
