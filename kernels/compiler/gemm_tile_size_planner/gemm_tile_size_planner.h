// Tile sizes of a blocked GEMM that move the fewest bytes under a buffer cap: the one signature of all variants.
#pragma once
#include "tensor/view.h"

namespace faibench::gemm_tile_size_planner {

using Ints = View<const std::int64_t, 1>;

/// Plans C = A*B with the nest `for m-tile: for n-tile: for k-tile`, for each of n tasks.
///   problem [n, 3]      M, N, K, each 1 .. 2^18
///   elem_bytes [n]      1, 2, 4 or 8, the same for A, B and C
///   t?_cand, t?_offsets [n+1]  sizes allowed for an axis of task i: t?_cand[t?_offsets[i] .. t?_offsets[i+1]-1], at least one, each 1 .. 2^18, in any order, with repeats
///   buffer_bytes        a plan fits when elem_bytes*(Tm*Tk + Tk*Tn + Tm*Tn) <= buffer_bytes, whatever the dimension
///   tiles [n, 3]        Tm, Tn, Tk
/// Bytes moved, with nM = ceil(M/Tm) and so on: elem_bytes * (M*K*(nN if nK > 1 else 1) + K*N*(nM if nK > 1 or nN > 1 else 1) + M*N).
/// `reference` and `cpu` give the least traffic, then the least footprint, then the smallest Tm, Tn, Tk; others any plan that is legal.
/// Checked before the call: all ranges, and that something fits. Thread-safe; the output may not alias inputs.
namespace reference {
void plan_tiling(View<const std::int64_t, 2> problem, View<const std::int32_t, 1> elem_bytes, Ints tm_cand, Ints tm_offsets, Ints tn_cand, Ints tn_offsets, Ints tk_cand, Ints tk_offsets,
                 std::int64_t buffer_bytes, View<std::int64_t, 2> tiles);
}
namespace baseline {
void plan_tiling(View<const std::int64_t, 2> problem, View<const std::int32_t, 1> elem_bytes, Ints tm_cand, Ints tm_offsets, Ints tn_cand, Ints tn_offsets, Ints tk_cand, Ints tk_offsets,
                 std::int64_t buffer_bytes, View<std::int64_t, 2> tiles);
}
namespace cpu {
void plan_tiling(View<const std::int64_t, 2> problem, View<const std::int32_t, 1> elem_bytes, Ints tm_cand, Ints tm_offsets, Ints tn_cand, Ints tn_offsets, Ints tk_cand, Ints tk_offsets,
                 std::int64_t buffer_bytes, View<std::int64_t, 2> tiles);
}

}  // namespace faibench::gemm_tile_size_planner
