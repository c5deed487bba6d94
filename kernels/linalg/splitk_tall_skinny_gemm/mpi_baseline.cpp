// The product of the own terms, element by element in f64; rounded; one f32 all-reduce.
#include <cmath>
#include <limits>
#include <vector>

#include "communicator/communicator.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/ranks.h"

namespace faibench::splitk_tall_skinny_gemm {

Rejected run_mpi_baseline(MultiRank::Call& call) {
  const auto A = call.arguments.inputs.at("A").view<const float, 2>(), B = call.arguments.inputs.at("B").view<const float, 2>();
  const auto C = call.arguments.outputs.at("C").view<float, 2>();
  const std::int64_t M = A.extent(0), N = B.extent(1);
  std::int64_t low[2] = {M, N}, high[2] = {M, N};
  call.communicator.all_reduce(low, low, 2, Dtype::i64, Reduce::min);
  call.communicator.all_reduce(high, high, 2, Dtype::i64, Reduce::max);
  if (low[0] != high[0]) return reject("rank_mismatch", "A", -1, std::to_string(M) + " rows on rank " + std::to_string(call.communicator.rank()), "the number of rows differs between ranks");
  if (low[1] != high[1]) return reject("rank_mismatch", "B", -1, std::to_string(N) + " columns on rank " + std::to_string(call.communicator.rank()), "the number of columns differs between ranks");

  std::vector<float> partial;
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t j = 0; j < N; ++j) {
      double acc = 0;
      for (std::int64_t k = 0; k < A.extent(1); ++k) acc += static_cast<double>(A(i, k)) * static_cast<double>(B(k, j));
      partial.push_back(static_cast<float>(acc));
    }
  call.communicator.all_reduce(partial.data(), C.data(), M * N, Dtype::f32, Reduce::sum);
  for (float& c : C.flat())
    if (std::isnan(c)) c = std::numeric_limits<float>::quiet_NaN();  // whose NaN it was must not show in its bits
  return std::nullopt;
}

}  // namespace faibench::splitk_tall_skinny_gemm
