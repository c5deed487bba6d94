// The two 16-bit floating-point types, as storage with correct conversions.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace faibench {

/// IEEE binary16 in storage. Arithmetic happens after to_float().
struct f16 {
  std::uint16_t bits;
  friend bool operator==(f16, f16) = default;
};

/// bfloat16 in storage: the upper half of an IEEE binary32.
struct bf16 {
  std::uint16_t bits;
  friend bool operator==(bf16, bf16) = default;
};

/// One byte, 0 or 1; any other value reads as true.
struct Bool8 {
  std::uint8_t bits;
  explicit operator bool() const { return bits != 0; }
  friend bool operator==(Bool8, Bool8) = default;
};

/// Exact.
inline float to_float(bf16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }

/// Exact, subnormals and NaN payloads included (a signalling NaN becomes quiet).
inline float to_float(f16 x) {
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000u} << 16;
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13) | (magnitude > 0x7c00u ? 0x400000u : 0u));
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(subnormal));
}
inline float to_float(float x) { return x; }

/// Rounds to nearest even; overflow gives infinity, NaN stays NaN (quiet, upper payload kept).
inline bf16 to_bf16(float x) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return {static_cast<std::uint16_t>(bits >> 16)};
}

/// Rounds to nearest even; at and above 65520 gives infinity, below 2^-14 subnormals, NaN stays NaN (quiet).
inline f16 to_f16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint16_t sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu))};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // 65520 and more
  if (magnitude < 0x38800000u) {                                                       // below 2^-14: adding 0.5 leaves units of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u))};
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

/// f64 to f32 by rounding to odd: the step before a second rounding to 16 bits, which is then as if done once.
inline float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || std::isnan(x)) return nearest;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(x)) --bits;  // towards zero (also from infinity to the largest finite)
  return std::bit_cast<float>(bits | 1u);
}

/// Correctly rounded from f64 (once, to nearest even) to any storage float.
template <class T>
T round_to(double x);
template <> inline double round_to<double>(double x) { return x; }
template <> inline float round_to<float>(double x) { return static_cast<float>(x); }
template <> inline f16 round_to<f16>(double x) { return to_f16(round_to_odd(x)); }
template <> inline bf16 round_to<bf16>(double x) { return to_bf16(round_to_odd(x)); }

/// Correctly rounded from f32 to any storage float.
template <class T>
T round_to(float x);
template <> inline float round_to<float>(float x) { return x; }
template <> inline f16 round_to<f16>(float x) { return to_f16(x); }
template <> inline bf16 round_to<bf16>(float x) { return to_bf16(x); }

}  // namespace faibench
