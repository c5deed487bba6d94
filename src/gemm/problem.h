// What the planning, which knows no instruction set, tells the loops of one.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "gemm/gemm.h"

namespace faibench::gemm {

constexpr std::int64_t most_k = 352;            // of a block: a row block of a (14 x 352) stays in L1 while b's panel (352 x 32) streams from L2
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

/// Columns of b that are packed together: of every row of b, which is often a page of memory away from the next one, 384 bytes at a visit.
constexpr std::int64_t group_columns = 96;

/// Calls `piece(term, first k in it, count, k in the block)` for what [k, k + n) of all terms' inner dimensions, one after another, is made of.
template <class Piece>
void for_each_piece(std::span<const Term> terms, std::int64_t k, std::int64_t n, Piece piece) {
  std::int64_t done = 0;
  for (const Term& term : terms) {
    if (n == 0) return;
    if (k >= term.k) {
      k -= term.k;
      continue;
    }
    const std::int64_t count = std::min(n, term.k - k);
    piece(term, k, count, done);
    done += count;
    n -= count;
    k = 0;
  }
}

constexpr std::int64_t most_stream_rows = 40;  // above, what packing b costs is less than what it saves

/// Floats of scratch of an item of few rows: the unfinished sums, a's rows.
inline std::int64_t stream_scratch_floats(std::int64_t rows, std::int64_t item_columns, std::int64_t stream_k) {
  return rows * (item_columns + 16) + rows * (stream_k + 48);
}

/// Floats of scratch an item needs: a's packed rows, two groups of b's columns, the unfinished sums.
inline std::int64_t scratch_floats(std::int64_t item_rows, std::int64_t item_columns) {
  return item_rows * a_pitch + 2 * most_k * std::min(item_columns, group_columns) + item_rows * item_columns + 32;
}

}  // namespace faibench::gemm
