// What the gate of a multi-rank form sees, gathered on every rank.
#pragma once
#include <cstring>
#include <numeric>
#include <vector>

#include "communicator/communicator.h"
#include "tensor/tensor.h"

namespace faibench::testing_support {

/// Outputs of all ranks, by rank. Their first extents may differ from rank to rank. Collective.
inline std::vector<TensorMap> gather_outputs(Communicator& communicator, const TensorMap& own) {
  std::vector<TensorMap> all(static_cast<std::size_t>(communicator.size()));
  const std::vector<std::int64_t> ones(all.size(), 1);
  for (const auto& [name, tensor] : own) {
    const std::int64_t count = tensor.size();
    std::vector<std::int64_t> counts(all.size());
    communicator.all_gather(&count, counts.data(), ones, Dtype::i64);
    // In elements, not bytes: a group may cut what it moves after a few of them.
    Tensor joined(tensor.dtype(), {std::reduce(counts.begin(), counts.end())});
    communicator.all_gather(tensor.data(), joined.data(), counts, tensor.dtype());
    Shape shape = tensor.shape();
    std::int64_t row = 1;
    for (std::size_t d = 1; d < shape.size(); ++d) row *= shape[d];
    const std::byte* from = joined.data();
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (!shape.empty() && row > 0) shape[0] = counts[rank] / row;
      Tensor& copy = all[rank].add(name, Tensor(tensor.dtype(), shape));
      if (copy.bytes() > 0) std::memcpy(copy.data(), from, static_cast<std::size_t>(copy.bytes()));
      from += copy.bytes();
    }
  }
  return all;
}

}  // namespace faibench::testing_support
