// The passes over up to one block of a bucket that the fast forms are made of, compiled for each instruction set and picked at run time. c is grad + error everywhere.
#pragma once
#include <cstdint>

#include "collectives/grad_signsgd_error_feedback/grad_signsgd_error_feedback.h"

namespace faibench::grad_signsgd_error_feedback::passes {

/// Signs of c, m elements: bit j % 8 of byte j / 8 is 1 where c < 0, the last byte's other bits 0; and the sum of |c|, in f64. False: some c is Inf or NaN, and neither is of use.
bool signs(const float* grad, const float* error, std::int64_t m, std::uint8_t* bits, double& sum);

/// From so many elements on a second thread is worth its start.
inline constexpr std::int64_t shared_elements = 1 << 17;

/// Where update and new_error go; `average`, where not null, gets update too (the mean of one rank). `streamed`: past the caches; all of them then lie on 64-byte borders.
struct Out {
  float* update;
  float* new_error;
  float* average;
  bool streamed;
  /// Of the block that starts at element `first`.
  Out from(std::int64_t first) const { return {update + first, new_error + first, average ? average + first : nullptr, streamed}; }
};
/// Streamed where the outputs are longer than what stays in a cache and none is read again for a mean.
Out outputs(View<float, 1> update, View<float, 1> new_error, float* average);
/// update = -scale where the bit is 1, else scale; new_error = c - update.
void apply_signs(const float* grad, const float* error, std::int64_t m, const std::uint8_t* bits, float scale, const Out& out);
/// update = 0; new_error = c.
void apply_nothing(const float* grad, const float* error, std::int64_t m, const Out& out);
/// update alone, as a receiver needs it.
void expand(const std::uint8_t* bits, float scale, std::int64_t m, float* update);

/// Of each group of 64 elements the largest |c|; and the sum of |grad|, in f64. False: some c is Inf or NaN.
inline constexpr std::int64_t group = 64;
bool scan(const float* grad, const float* error, std::int64_t m, float* largest, double& sum);
/// Which of up to 64 elements have |c| / unit >= limit, lowest bit first.
std::uint64_t at_least(const float* grad, const float* error, std::int64_t m, float unit, float limit);

/// One rank's update of a block: its values, or bits and scale.
struct Term {
  const float* values;  ///< null: see bits
  const std::uint8_t* bits;
  float scale;
};
/// The terms' sum in f64 in their order, divided by their number, rounded once.
void mean(const Term* terms, int count, std::int64_t m, float* average);

/// The same of a block that starts at element `first`: of the peers' payloads in wire format 1, and of this rank's update in its place.
void mean_with_peers(std::int32_t rank, Bytes peers, Offsets peer_offsets, std::int64_t first, std::int64_t m, const float* update, float* average);

}  // namespace faibench::grad_signsgd_error_feedback::passes
