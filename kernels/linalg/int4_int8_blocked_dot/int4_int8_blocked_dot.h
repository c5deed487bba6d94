// Integer inner products of block-encoded 4-bit rows with one block-encoded 8-bit stream: the one signature of all variants.
#pragma once
#include "tensor/view.h"

namespace faibench::int4_int8_blocked_dot {

/// dot[r] = sum_b a_coef[r,b] * b_coef[b] * sum_j a[r,b,j] * v[b,j], modulo 2^64, where
///   a[r,b,j] = s(a_sign[r,b], j) * (nibble j of a_q[r,b] - 8)    v[b,j] = s(b_sign[b], j) * b_q[b,j]    s(m, j) = -1 if bit j of m is set, else 1
///   a_q    [R, nb, 16]  32 nibbles a block: byte j holds element j in its low half, element j + 16 in its high half
///   a_coef [R, nb], a_sign [R, nb]
///   b_q    [nb, 32], b_coef [nb], b_sign [nb]
///   dot    [R]
/// Every bit pattern is valid, R and nb may be 0. Reads 21*R*nb + 38*nb bytes. Thread-safe. Block format: Q4_0 x Q8_0 of ggml with the integer scales and sign masks of its IQ formats.
namespace reference {
void blocked_dot(View<const std::uint8_t, 3> a_q, View<const std::int8_t, 2> a_coef, View<const std::uint32_t, 2> a_sign, View<const std::int8_t, 2> b_q, View<const std::int16_t, 1> b_coef,
                 View<const std::uint32_t, 1> b_sign, View<std::int64_t, 1> dot);
}
namespace baseline {
void blocked_dot(View<const std::uint8_t, 3> a_q, View<const std::int8_t, 2> a_coef, View<const std::uint32_t, 2> a_sign, View<const std::int8_t, 2> b_q, View<const std::int16_t, 1> b_coef,
                 View<const std::uint32_t, 1> b_sign, View<std::int64_t, 1> dot);
}
namespace cpu {
void blocked_dot(View<const std::uint8_t, 3> a_q, View<const std::int8_t, 2> a_coef, View<const std::uint32_t, 2> a_sign, View<const std::int8_t, 2> b_q, View<const std::int16_t, 1> b_coef,
                 View<const std::uint32_t, 1> b_sign, View<std::int64_t, 1> dot);
}

}  // namespace faibench::int4_int8_blocked_dot
