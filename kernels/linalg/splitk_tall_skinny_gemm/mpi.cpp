// The product of the own terms by the cpu variant's kernel, kept in f64, and one sum over ranks: C is rounded once, whatever the number of ranks.
// Bound: the own bytes through memory, then ceil(log2 P) messages of 8*M*N bytes. Whether all ranks have the same M and N travels ahead of the product, in one small reduction: messages of two
// lengths would not meet.
#include <cmath>
#include <limits>

#include "communicator/communicator.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/cpu.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/ranks.h"
#include "schedule/executor.h"

namespace faibench::splitk_tall_skinny_gemm {
namespace {

/// The largest of an extent and of its negative differ from one rank's own exactly where ranks differ.
Rejected agree(Communicator& communicator, std::int64_t M, std::int64_t N) {
  if (communicator.size() == 1) return std::nullopt;
  std::int64_t extents[4] = {M, -M, N, -N};
  communicator.all_reduce(extents, extents, 4, Dtype::i64, Reduce::max);
  const std::string here = " on rank " + std::to_string(communicator.rank());
  if (extents[0] != -extents[1]) return reject("rank_mismatch", "A", -1, std::to_string(M) + " rows" + here, "M differs between ranks");
  if (extents[2] != -extents[3]) return reject("rank_mismatch", "B", -1, std::to_string(N) + " columns" + here, "N differs between ranks");
  return std::nullopt;
}

void sum_over_ranks(Communicator& communicator, std::int64_t outputs, double* partial, double* sums) {
  const auto schedule = product_schedule(outputs, communicator.nodes());
  BufferBases bases{};
  bases[static_cast<std::size_t>(Buffer::input)] = partial;
  bases[static_cast<std::size_t>(Buffer::output)] = sums;
  execute(*schedule, communicator, bases, [](const SumCall& call) {
    const auto into = static_cast<double*>(call.into);
    for (std::int64_t i = 0; i < call.count; ++i) {
      double sum = static_cast<const double*>(call.terms[0].data)[i];
      for (std::size_t t = 1; t < call.terms.size(); ++t) sum += static_cast<const double*>(call.terms[t].data)[i];
      into[i] = sum;
    }
  });
}

}  // namespace

// Whole products to all take one round, and (P-1) times the bytes; partial sums take log2 P rounds. Beyond, pieces are summed by one rank each and copied.
std::unique_ptr<Schedule> product_schedule(std::int64_t outputs, const NodeMap& nodes) {
  const std::int64_t bytes = 8 * outputs;
  const AllReduce algorithm = nodes.ranks() <= 8 && bytes * (nodes.ranks() - 1) <= (16 << 10) ? AllReduce::one_shot : bytes <= (256 << 10) ? AllReduce::recursive_doubling : AllReduce::halving_doubling;
  return all_reduce_schedule(algorithm, outputs, nodes, sizeof(double), sizeof(double));
}

Rejected run_mpi(MultiRank::Call& call) {
  const auto A = call.arguments.inputs.at("A").view<const float, 2>(), B = call.arguments.inputs.at("B").view<const float, 2>();
  const auto C = call.arguments.outputs.at("C").view<float, 2>();
  const std::int64_t M = A.extent(0), N = B.extent(1);
  if (Rejected rejected = agree(call.communicator, M, N)) return rejected;
  if (M * N == 0) return std::nullopt;
  std::vector<double> partial(static_cast<std::size_t>(M * N)), sums(partial.size());
  cpu::multiply(A, B, View<double, 2>(partial.data(), {M, N}));
  if (call.communicator.size() > 1) sum_over_ranks(call.communicator, M * N, partial.data(), sums.data());
  else sums.swap(partial);
  for (std::int64_t e = 0; e < M * N; ++e) {
    const double sum = sums[static_cast<std::size_t>(e)];
    C.data()[e] = std::isnan(sum) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(sum);  // one NaN, whatever the operands'
  }
  return std::nullopt;
}

}  // namespace faibench::splitk_tall_skinny_gemm
