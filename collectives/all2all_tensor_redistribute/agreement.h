// What ranks compare before they move anything.
#pragma once
#include <cstdint>

#include "collectives/all2all_tensor_redistribute/all2all_tensor_redistribute.h"
#include "collectives/all2all_tensor_redistribute/box_plan.h"

namespace faibench::all2all_tensor_redistribute {

/// This rank's tensors.
struct Shard {
  explicit Shard(const MultiRank::Call& call);
  const TensorRefMap& inputs;
  const std::byte* source;
  std::int64_t held;     ///< elements of `source`
  std::byte* target;
  Dtype dtype;
  std::int64_t element;  ///< bytes
  [[nodiscard]] std::span<const std::int64_t> numbers(const char* name) const { return inputs.at(name).flat<const std::int64_t>(); }
  [[nodiscard]] Redistribution plan() const;
};

/// The rules that take all ranks: rank_mismatch, rank_count_mismatch, shard_size_mismatch of the lowest rank. One all-reduce; all ranks come to the same answer.
/// `everywhere`: in, what this rank says; out, whether all say so.
Rejected compare_ranks(Communicator& communicator, const Shard& shard, bool& everywhere);

}  // namespace faibench::all2all_tensor_redistribute
