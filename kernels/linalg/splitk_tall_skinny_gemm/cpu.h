// What the parts of the cpu variant share: a panel of C and the sizes that it is walked in.
#pragma once
#include <cstdint>

#include "tensor/view.h"

namespace faibench::splitk_tall_skinny_gemm::cpu {

inline constexpr std::int64_t panel_rows = 64, panel_columns = 64;  ///< of C at a time: the whole of it in the shapes that this is for
inline constexpr std::int64_t block_terms = 1024;                   ///< of k: a page of each row of A

/// Rows and columns of one panel: A[i][k] = a[i*K + k], B[k][j] = b[k*N + j].
struct Panel {
  const float *a, *b;
  std::int64_t K, N;
  std::int64_t rows, columns;  ///< at most panel_rows, panel_columns
};

/// C = A * B before its last rounding.
void multiply(View<const float, 2> A, View<const float, 2> B, View<double, 2> C);

}  // namespace faibench::splitk_tall_skinny_gemm::cpu
