// Wire format 130: segments of a bucket, each in format 128 as a bucket of its own, so that they can be coded side by side.
#pragma once
#include <cstdint>

#include "task/contract.h"
#include "tensor/view.h"

namespace faibench::grad_signsgd_error_feedback::segments {

inline constexpr std::int32_t format = 130;
inline constexpr std::int64_t length = 1 << 16;

/// The receiver of `cuda`'s payloads: of each segment of 2^16 elements but the last the number of its bytes, 16 bits little-endian; then the segments' payloads.
/// For any bytes: where they end early, the rest is +0.
Rejected decompress(std::int32_t format, View<const std::uint8_t, 1> payload, std::int64_t n, std::int64_t step, View<const std::int64_t, 2> layout,
                    View<float, 1> update);

}  // namespace faibench::grad_signsgd_error_feedback::segments
