// The naive algorithm as the contract words it: greedy by size, best-fit gap found by walking all placed buffers.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/memory/runtime_arena_memplan/runtime_arena_memplan.h"

namespace faibench::runtime_arena_memplan::baseline {

void plan(std::int64_t align, View<const std::int64_t, 1> size, View<const std::int64_t, 1> alloc, View<const std::int64_t, 1> free, View<std::int64_t, 1> offset) {
  const std::int64_t N = size.extent(0);
  const auto up = [align](std::int64_t x) { return (x + align - 1) & -align; };

  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(N));
  for (std::int64_t i = 0; i < N; ++i) {
    if (size[i] > 0) order.push_back(i);
    else offset[i] = 0;
  }
  std::sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    if (size[i] != size[j]) return size[i] > size[j];
    if (alloc[i] != alloc[j]) return alloc[i] < alloc[j];
    return i < j;
  });

  std::vector<std::int64_t> placed;  // sorted by offset
  placed.reserve(order.size());
  for (const std::int64_t i : order) {
    std::int64_t end = 0, best_start = -1, best_gap = std::numeric_limits<std::int64_t>::max();
    for (const std::int64_t j : placed) {
      if (alloc[i] >= free[j] || alloc[j] >= free[i]) continue;
      const std::int64_t start = up(end), gap = offset[j] - start;
      if (gap >= size[i] && gap < best_gap) {
        best_gap = gap;
        best_start = start;
      }
      end = std::max(end, offset[j] + size[j]);
    }
    offset[i] = best_start >= 0 ? best_start : up(end);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset[i], [&](std::int64_t at, std::int64_t j) { return at < offset[j]; }), i);
  }
}

}  // namespace faibench::runtime_arena_memplan::baseline
