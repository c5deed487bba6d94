// The two dense wire formats: a sign bit an element, and scales by block of 4096.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace faibench::grad_signsgd_error_feedback::dense {

/// All that is sent of c = grad + error, before it has a form.
struct Signs {
  std::unique_ptr<std::uint8_t[]> bits;  ///< of all elements, in order
  std::vector<double> means;             ///< of |c|, by block
  bool finite = true;                    ///< false: some c is Inf or NaN, and the rest of no use
};
Signs look(std::span<const float> grad, std::span<const float> error, int threads);
/// The payload of format 1, and its scales as sent.
std::int64_t write_format_1(const Signs& signs, std::int64_t n, std::uint8_t* payload, std::span<float> scales);

/// Wire format 129, for n > 0 (else empty): int16 little-endian, the largest scale in eighths of an octave; by block a byte, how many eighths below it that block's scale lies
/// (255: the scale is 0); then the bits of all elements, in their order, as in format 1. 16384/513 of the bucket's bytes, but for the first two.
inline constexpr std::int32_t short_format = 129;

std::int64_t short_bytes_of(std::int64_t n);
/// The head for these blocks' mean |c|: 2 bytes and one by block. `scales` gets what a receiver will read there.
std::vector<std::uint8_t> encode_scales(std::span<const double> means, std::span<float> scales);
/// The inverse, for any bytes; `head` has 2 bytes and one for each of `scales`.
void decode_scales(std::span<const std::uint8_t> head, std::span<float> scales);

}  // namespace faibench::grad_signsgd_error_feedback::dense
