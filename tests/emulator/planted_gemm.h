// A small tensor-core product, right or with one bug of a kind that is easily made.
#pragma once
#include "tensor/half.h"
#include "tensor/view.h"

namespace faibench::planted {

enum class GemmBug {
  none,
  // tails
  last_step_lost,          ///< K is divided by the step, rounded down
  row_past_the_end,        ///< <= for < where rows of A are loaded
  column_past_the_end,     ///< <= for < where columns of C are stored
  tail_not_cleared,        ///< rows of B past K keep what an earlier step left there
  chunk_past_the_row,      ///< 16 bytes are taken where fewer are left of a row
  // barriers
  no_barrier_after_copies,
  no_barrier_before_next_copies,
  waits_for_the_wrong_copies,
  // fragment indices
  registers_of_a_swapped,
  rows_of_a_from_the_other_warp,
  b_not_transposed,
  columns_of_b_swapped,
  rows_of_sums_mixed,
  // vector accesses
  multiple_of_4_for_8,     ///< 16 bytes are loaded where rows start at multiples of 8
  pairs_in_odd_rows,       ///< 4 bytes are stored where rows start at multiples of 2
  // arithmetic
  sums_in_f16,
  truncates,
};

/// C = A @ B in tiles of 32x16, with the whole contract of fp16_tensorcore_mma_gemm as long as `bug` is none.
void multiply_f16(View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C, GemmBug bug);

}  // namespace faibench::planted
