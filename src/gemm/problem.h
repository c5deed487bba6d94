// What the planning, which knows no instruction set, tells the loops of one.
#pragma once
#include "gemm/gemm.h"

namespace faibench::gemm {

constexpr std::int64_t most_k = 256;            // of a block: a row block of a (14 x 256) stays in L1 while b's panel (256 x 32) streams from L2
constexpr std::int64_t a_pitch = most_k + 16;   // of a packed row: no power of two, so that rows do not meet in one set of L1

/// Register tile of an instruction set.
struct TileShape {
  std::int64_t rows, columns;
};

/// A product cut into row_cuts x column_cuts items, each computed by one thread from packing to finishing.
struct Problem {
  std::int64_t M, N, K;
  std::span<const Term> terms;
  const Finish& finish;
  std::int64_t row_cuts, column_cuts;
  std::int64_t item_rows, item_columns;  // of the largest item; columns in whole panels
  std::int64_t stream_k = 0;             // not 0: few rows, and so many inner positions of a in scratch at a time
};

constexpr std::int64_t most_stream_rows = 32;  // above, what packing b costs is less than what the larger register tile brings

/// Floats of scratch of an item of few rows: the unfinished sums, a's rows.
inline std::int64_t stream_scratch_floats(std::int64_t rows, std::int64_t item_columns, std::int64_t stream_k) {
  return rows * (item_columns + 16) + rows * (stream_k + 48);
}

/// Floats of scratch an item needs: a's packed rows, one panel of b, the unfinished sums.
inline std::int64_t scratch_floats(std::int64_t item_rows, std::int64_t item_columns, const TileShape& tile) {
  return (item_rows + 1) * a_pitch + most_k * tile.columns + (item_rows * item_columns + 16);
}

}  // namespace faibench::gemm
