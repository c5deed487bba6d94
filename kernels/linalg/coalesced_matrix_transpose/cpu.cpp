// PLACEHOLDER until the fast kernel lands in this commit series.
#include "kernels/linalg/coalesced_matrix_transpose/coalesced_matrix_transpose.h"

namespace faibench::coalesced_matrix_transpose::cpu {

void transpose(View<const float, 2> x, View<float, 2> y) {
  const std::int64_t M = x.extent(0), N = x.extent(1);
  for (std::int64_t j = 0; j < N; ++j)
    for (std::int64_t i = 0; i < M; ++i) y(j, i) = x(i, j);
}

}  // namespace faibench::coalesced_matrix_transpose::cpu
