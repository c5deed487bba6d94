// The naive algorithm as the contract words it: reads in order, writes with stride M.
#include "kernels/linalg/coalesced_matrix_transpose/coalesced_matrix_transpose.h"

namespace faibench::coalesced_matrix_transpose::baseline {

void transpose(View<const float, 2> x, View<float, 2> y) {
  const std::int64_t M = x.extent(0), N = x.extent(1);
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t j = 0; j < N; ++j) y.data()[j * M + i] = x.data()[i * N + j];
}

}  // namespace faibench::coalesced_matrix_transpose::baseline
