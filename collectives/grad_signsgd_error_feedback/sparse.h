// Wire format 128: signs of the few largest elements, positions and classes of magnitude by a range coder.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace faibench::grad_signsgd_error_feedback::sparse {

inline constexpr std::int32_t format = 128;

/// The largest elements of c, and what they become. A block is 4096 elements; its weight says how far below the others' its threshold lies.
struct Picked {
  std::uint32_t threshold = 0;            ///< code of the global threshold; 0: nothing is sent
  std::vector<std::uint8_t> levels;       ///< by block
  std::vector<std::int64_t> positions;    ///< ascending
  std::vector<std::uint8_t> negative;     ///< by position
  std::vector<std::uint8_t> classes;      ///< by position: |c| in units of the block's threshold, rounded down to a power of two
};

/// Elements sent of n, where so many are not zero.
std::int64_t budget(std::int64_t n);
/// Chooses from c = grad + error; grad alone sets the weights of the blocks. Nothing where some c is Inf or NaN.
std::optional<Picked> pick(std::span<const float> grad, std::span<const float> error, int threads);
/// The payload, at most 4n + 64 bytes; empty where nothing is sent.
std::vector<std::uint8_t> encode(const Picked& picked, std::int64_t n);
/// The inverse, for any bytes: what is no payload of this format gives some picks within bounds.
Picked decode(std::span<const std::uint8_t> payload, std::int64_t n);
/// The picked elements' values, by position in `positions`.
std::vector<float> values_of(const Picked& picked);
/// The same where they belong; every other element +0.
void expand(const Picked& picked, std::span<float> update);

}  // namespace faibench::grad_signsgd_error_feedback::sparse
