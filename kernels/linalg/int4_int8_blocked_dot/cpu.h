// The forms of the cpu variant: what they share, and which there are.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace faibench::int4_int8_blocked_dot::cpu {

/// The operands of one call.
struct Weights {
  const std::uint8_t* q;
  const std::int8_t* coef;
  const std::uint32_t* sign;
  std::int64_t R, nb;
};
struct Activations {
  const std::int8_t* q;
  const std::int16_t* coef;
  const std::uint32_t* sign;
};
struct Range {
  std::int64_t first, end;
};

inline constexpr std::int64_t most_blocks = 256;       ///< of a packed piece
inline constexpr std::size_t packed_room = 20 * 1024;  ///< for a packed piece in any form; about half of a first-level cache

inline constexpr std::int64_t ahead_blocks = 128;      ///< how far ahead of its use `a` is called into the second-level cache: 2 KiB of nibbles

/// One instruction set's way. `pack` brings blocks of b into the order that `add_rows` reads them in; at most most_blocks of them, into 64-byte aligned packed_room.
/// `add_rows` adds the terms of these blocks (the packed ones) to sums[r] for the rows r of `rows`.
struct Form {
  const char* name;
  bool (*runs_here)();
  void (*pack)(const Activations& b, Range blocks, std::byte* packed);
  void (*add_rows)(const Weights& a, Range rows, Range blocks, const std::byte* packed, std::uint64_t* sums);
};
extern const Form vnni_form, avx2_form, portable_form;

/// The three, the fastest first; the last runs everywhere.
std::span<const Form* const> forms();

/// dot[R] by one form, by as many threads as OpenMP gives.
void blocked_dot(const Form& form, const Weights& a, const Activations& b, std::int64_t* dot);

}  // namespace faibench::int4_int8_blocked_dot::cpu
