#include "tensor/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tensor/random.h"

namespace faibench {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
const double nan64 = std::numeric_limits<double>::quiet_NaN();

/// Value of a 16-bit float by its definition: fields, not tricks.
double value_by_definition(std::uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1), mantissa = bits & ((1 << mantissa_bits) - 1), bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa ? nan64 : sign * inf;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

bool is_nan(std::uint16_t bits, int mantissa_bits) { return (bits & 0x7fffu) > ((0x7fffu >> mantissa_bits) << mantissa_bits); }

template <class T> struct Layout;
template <> struct Layout<f16> { static constexpr int exponent = 5, mantissa = 10; };
template <> struct Layout<bf16> { static constexpr int exponent = 8, mantissa = 7; };

template <class T> T narrow(float x);
template <> f16 narrow<f16>(float x) { return to_f16(x); }
template <> bf16 narrow<bf16>(float x) { return to_bf16(x); }

template <class T>
class Half : public testing::Test {
 public:
  static constexpr int mantissa = Layout<T>::mantissa;
  static double value(std::uint16_t bits) { return value_by_definition(bits, Layout<T>::exponent, mantissa); }
};
using Types = testing::Types<f16, bf16>;
TYPED_TEST_SUITE(Half, Types);

TYPED_TEST(Half, widens_every_bit_pattern_exactly) {
  for (int i = 0; i < 65536; ++i) {
    const TypeParam x{static_cast<std::uint16_t>(i)};
    const double wanted = this->value(x.bits);
    const float got = to_float(x);
    if (std::isnan(wanted)) EXPECT_TRUE(std::isnan(got)) << i;
    else EXPECT_EQ(static_cast<double>(got), wanted) << i;
    EXPECT_EQ(std::signbit(got), i >= 32768) << i;
  }
}

TYPED_TEST(Half, comes_back_from_every_bit_pattern) {
  for (int i = 0; i < 65536; ++i) {
    const std::uint16_t bits = static_cast<std::uint16_t>(i);
    const std::uint16_t from_float = narrow<TypeParam>(to_float(TypeParam{bits})).bits, from_double = round_to<TypeParam>(static_cast<double>(to_float(TypeParam{bits}))).bits;
    if (is_nan(bits, this->mantissa)) {
      EXPECT_TRUE(is_nan(from_float, this->mantissa)) << i;
      EXPECT_TRUE(is_nan(from_double, this->mantissa)) << i;
      EXPECT_EQ(from_float >> 15, bits >> 15) << i;
    } else {
      EXPECT_EQ(from_float, bits) << i;
      EXPECT_EQ(from_double, bits) << i;
    }
  }
}

// Between every two neighbours: below the middle goes down, above it up, the middle to the even one; from f64 that must hold for the smallest step off the middle.
TYPED_TEST(Half, rounds_to_nearest_even_between_all_neighbours) {
  for (int i = 0; i < 32767; ++i) {
    const std::uint16_t low = static_cast<std::uint16_t>(i), high = static_cast<std::uint16_t>(i + 1);
    if (is_nan(low, this->mantissa) || is_nan(high, this->mantissa) || std::isinf(this->value(low))) break;
    const double a = this->value(low);
    // Past the largest finite number the grid goes on: half a step further becomes infinity.
    const double b = std::isinf(this->value(high)) ? a + (a - this->value(static_cast<std::uint16_t>(i - 1))) : this->value(high);
    const double middle = a + (b - a) / 2;
    const std::uint16_t even = low % 2 == 0 ? low : high;
    EXPECT_EQ(round_to<TypeParam>(middle).bits, even) << i;
    EXPECT_EQ(round_to<TypeParam>(std::nextafter(middle, 0.0)).bits, low) << i;
    EXPECT_EQ(round_to<TypeParam>(std::nextafter(middle, 1e300)).bits, high) << i;
    EXPECT_EQ(round_to<TypeParam>(-middle).bits, even | 0x8000) << i;
    EXPECT_EQ(round_to<TypeParam>(std::nextafter(-middle, -1e300)).bits, high | 0x8000) << i;
    const float middle32 = static_cast<float>(middle);
    if (static_cast<double>(middle32) == middle) {
      EXPECT_EQ(narrow<TypeParam>(middle32).bits, even) << i;
      EXPECT_EQ(narrow<TypeParam>(std::nextafter(middle32, 0.0f)).bits, low) << i;
      EXPECT_EQ(narrow<TypeParam>(std::nextafter(middle32, inf)).bits, high) << i;
    }
  }
}

TYPED_TEST(Half, keeps_infinities_zeros_and_nan) {
  const std::uint16_t infinity = static_cast<std::uint16_t>((0x7fffu >> this->mantissa) << this->mantissa);
  for (double x : {static_cast<double>(inf), 1e300, std::numeric_limits<double>::max()}) {
    EXPECT_EQ(round_to<TypeParam>(x).bits, infinity) << x;
    EXPECT_EQ(round_to<TypeParam>(-x).bits, infinity | 0x8000) << x;
  }
  EXPECT_EQ(round_to<TypeParam>(0.0).bits, 0);
  EXPECT_EQ(round_to<TypeParam>(-0.0).bits, 0x8000);
  for (double x : {1e-300, 5e-324, 1e-46}) {
    EXPECT_EQ(round_to<TypeParam>(x).bits, 0) << x;
    EXPECT_EQ(round_to<TypeParam>(-x).bits, 0x8000) << x;
  }
  EXPECT_TRUE(std::isnan(to_float(round_to<TypeParam>(nan64))));
  EXPECT_TRUE(std::isnan(to_float(narrow<TypeParam>(std::bit_cast<float>(0x7f800001u)))));  // a signalling one, with nothing in the upper half
}

// Against an independent rounding: scale to units of the last place and round with the processor's own ties-to-even.
TYPED_TEST(Half, agrees_with_scaling_and_rounding_on_random_numbers) {
  Random random(2024);
  for (int i = 0; i < 300000; ++i) {
    const double x = std::bit_cast<double>((random.u64() & 0x800fffffffffffffu) | static_cast<std::uint64_t>(1023 + random.between(-160, 140)) << 52);
    const int bias = (1 << (Layout<TypeParam>::exponent - 1)) - 1;
    const int exponent = std::max(std::ilogb(x), 1 - bias);
    const double unit = std::ldexp(1.0, exponent - this->mantissa);
    double wanted = std::nearbyint(x / unit) * unit;
    if (std::abs(wanted) >= std::ldexp(1.0, bias + 1)) wanted = std::copysign(static_cast<double>(inf), x);
    ASSERT_EQ(static_cast<double>(to_float(round_to<TypeParam>(x))), wanted) << x;
  }
}

TEST(RoundToOdd, is_exact_or_odd_and_never_crosses) {
  Random random(7);
  for (int i = 0; i < 100000; ++i) {
    const double x = std::bit_cast<double>((random.u64() & 0x800fffffffffffffu) | static_cast<std::uint64_t>(1023 + random.between(-150, 130)) << 52);
    const float got = round_to_odd(x);
    if (static_cast<double>(got) == x) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got) & 1u, 1u) << x;
    const double below = static_cast<double>(std::nextafter(got, -inf)), above = static_cast<double>(std::nextafter(got, inf));
    ASSERT_TRUE(below < x && x < above) << x;
  }
}

}  // namespace
}  // namespace faibench
