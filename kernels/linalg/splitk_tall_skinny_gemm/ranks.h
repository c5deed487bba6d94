// The multi-rank form: k lies in contiguous ranges over the ranks, partial products are summed over them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "schedule/schedule.h"
#include "task/task.h"

namespace faibench::splitk_tall_skinny_gemm {

/// The terms that a rank holds: K / ranks, the first K % ranks ranks one more; perhaps none.
struct Terms {
  std::int64_t first, count;
};
inline Terms terms_of(std::int64_t K, int rank, int ranks) {
  const std::int64_t base = K / ranks, longer = K % ranks;
  return {base * rank + std::min<std::int64_t>(rank, longer), base + (rank < longer ? 1 : 0)};
}

/// Inputs of a rank: A [M, K], B [K, N], its own terms. Output on every rank: C [M, N] of all terms, equal in every bit.
/// All ranks report rank_mismatch where M or N differ between them.
/// Straightforward: the product in f64, rounded, then an f32 all-reduce of the transport.
Rejected run_mpi_baseline(MultiRank::Call& call);
/// The fast product, unrounded, and a sum in f64 along product_schedule().
Rejected run_mpi(MultiRank::Call& call);

/// How run_mpi sums `outputs` f64 over ranks: by an algorithm that leaves equal bits on all ranks, chosen by size.
std::unique_ptr<Schedule> product_schedule(std::int64_t outputs, const NodeMap& nodes);

/// Everything of the multi-rank form; its cases are in rank_cases.cpp.
MultiRank multi_rank();
std::vector<MultiRank::RankCase> rank_cases();

}  // namespace faibench::splitk_tall_skinny_gemm
