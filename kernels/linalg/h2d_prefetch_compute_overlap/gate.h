// The gate of h2d_prefetch_compute_overlap: the f64 result and its bound, computed anew from the inputs.
#pragma once
#include <vector>

#include "task/gate.h"

namespace faibench::h2d_prefetch_compute_overlap {

Gate gate();

/// Inputs of this many elements are followed by 19 more calls with other data: twenty in a row.
inline constexpr std::int64_t twenty_calls_from = 140'000, twenty_calls_to = 150'000;

}  // namespace faibench::h2d_prefetch_compute_overlap
