// A plan in O(N log N) whatever the lifetimes: what the skyline planner falls back on where its searches ran out.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/memory/runtime_arena_memplan/cpu_timeline.h"

namespace faibench::runtime_arena_memplan::cpu {

struct SweepPlan {
  std::int64_t peak = 0;             ///< units
  std::vector<std::int64_t> bottom;  ///< units, by position
};

/// Allocates and frees in the order of time, each birth in the smallest free range that takes it. Legal; on graphs of mixed lifetimes some 10 % less compact than placing by size.
SweepPlan plan_by_sweep(const Timeline& line);

}  // namespace faibench::runtime_arena_memplan::cpu
