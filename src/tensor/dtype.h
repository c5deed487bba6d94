// Element types of tensors, and their C++ storage types.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/half.h"

namespace faibench {

enum class Dtype : std::uint8_t { f16, bf16, f32, f64, i8, u8, i16, i32, u32, i64, u64, bool_ };
inline constexpr int dtype_count = 12;

/// Bytes of one element.
std::int64_t size_of(Dtype dtype);
/// "f16", ..., "bool".
std::string_view name_of(Dtype dtype);
/// The inverse of name_of; empty for anything else.
std::optional<Dtype> parse_dtype(std::string_view name);
bool is_float(Dtype dtype);

template <class T> struct DtypeOf;
template <> struct DtypeOf<f16> { static constexpr Dtype value = Dtype::f16; };
template <> struct DtypeOf<bf16> { static constexpr Dtype value = Dtype::bf16; };
template <> struct DtypeOf<float> { static constexpr Dtype value = Dtype::f32; };
template <> struct DtypeOf<double> { static constexpr Dtype value = Dtype::f64; };
template <> struct DtypeOf<std::int8_t> { static constexpr Dtype value = Dtype::i8; };
template <> struct DtypeOf<std::uint8_t> { static constexpr Dtype value = Dtype::u8; };
template <> struct DtypeOf<std::int16_t> { static constexpr Dtype value = Dtype::i16; };
template <> struct DtypeOf<std::int32_t> { static constexpr Dtype value = Dtype::i32; };
template <> struct DtypeOf<std::uint32_t> { static constexpr Dtype value = Dtype::u32; };
template <> struct DtypeOf<std::int64_t> { static constexpr Dtype value = Dtype::i64; };
template <> struct DtypeOf<std::uint64_t> { static constexpr Dtype value = Dtype::u64; };
template <> struct DtypeOf<Bool8> { static constexpr Dtype value = Dtype::bool_; };
template <class T> inline constexpr Dtype dtype_of = DtypeOf<T>::value;

/// Calls `f` with a value-initialised element of the dtype's storage type: `visit_dtype(d, [&]<class T>(T) { ... })`.
template <class F>
decltype(auto) visit_dtype(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::f16: return f(f16{});
    case Dtype::bf16: return f(bf16{});
    case Dtype::f32: return f(float{});
    case Dtype::f64: return f(double{});
    case Dtype::i8: return f(std::int8_t{});
    case Dtype::u8: return f(std::uint8_t{});
    case Dtype::i16: return f(std::int16_t{});
    case Dtype::i32: return f(std::int32_t{});
    case Dtype::u32: return f(std::uint32_t{});
    case Dtype::i64: return f(std::int64_t{});
    case Dtype::u64: return f(std::uint64_t{});
    case Dtype::bool_: break;
  }
  return f(Bool8{});
}

}  // namespace faibench
