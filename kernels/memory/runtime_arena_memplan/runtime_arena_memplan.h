// An offset in one arena for every buffer, such that buffers alive together do not overlap: the one signature of all variants.
#pragma once
#include "tensor/view.h"

namespace faibench::runtime_arena_memplan {

/// Plans an arena. Two buffers of more than 0 bytes conflict if their half-open lifetimes [alloc, free) meet; their bytes then never do.
///   align          every offset is a multiple of it; a power of two, 1 .. 2^21
///   size [N]       bytes, 0 .. 2^40; buffers of 0 bytes get offset 0 and conflict with nothing
///   alloc, free [N]  0 <= alloc < free <= 2^40, as sparse as they come
///   offset [N]     the plan: legal, and no buffer ends beyond the sum of all sizes rounded up to `align`
/// Checked before the call: all ranges. N <= 2^21 keeps every sum within i64. Thread-safe; the output may not alias inputs.
namespace reference {
void plan(std::int64_t align, View<const std::int64_t, 1> size, View<const std::int64_t, 1> alloc, View<const std::int64_t, 1> free, View<std::int64_t, 1> offset);
}
namespace baseline {
void plan(std::int64_t align, View<const std::int64_t, 1> size, View<const std::int64_t, 1> alloc, View<const std::int64_t, 1> free, View<std::int64_t, 1> offset);
}
namespace cpu {
void plan(std::int64_t align, View<const std::int64_t, 1> size, View<const std::int64_t, 1> alloc, View<const std::int64_t, 1> free, View<std::int64_t, 1> offset);
}

}  // namespace faibench::runtime_arena_memplan
