// The plan that is legal whenever any is: the smallest candidate of each axis.
#include <algorithm>

#include "kernels/compiler/gemm_tile_size_planner/gemm_tile_size_planner.h"

namespace faibench::gemm_tile_size_planner::baseline {

void plan_tiling(View<const std::int64_t, 2> problem, View<const std::int32_t, 1>, Ints tm_cand, Ints tm_offsets, Ints tn_cand, Ints tn_offsets, Ints tk_cand, Ints tk_offsets, std::int64_t,
                 View<std::int64_t, 2> tiles) {
  const auto smallest = [](Ints candidates, Ints offsets, std::int64_t task) { return *std::min_element(candidates.data() + offsets[task], candidates.data() + offsets[task + 1]); };
  for (std::int64_t i = 0; i < problem.extent(0); ++i) {
    tiles(i, 0) = smallest(tm_cand, tm_offsets, i);
    tiles(i, 1) = smallest(tn_cand, tn_offsets, i);
    tiles(i, 2) = smallest(tk_cand, tk_offsets, i);
  }
}

}  // namespace faibench::gemm_tile_size_planner::baseline
