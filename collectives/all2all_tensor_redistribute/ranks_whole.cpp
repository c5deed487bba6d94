// What is the same for all ranks of a call, and what follows from it for each.
#include <algorithm>
#include <string>

#include "collectives/all2all_tensor_redistribute/counters.h"
#include "collectives/all2all_tensor_redistribute/ranks.h"

namespace faibench::all2all_tensor_redistribute {
namespace {

std::uint64_t start_of(const TensorRefMap& described) { return described.at("start").flat<const std::uint64_t>()[0]; }

}  // namespace

TensorMap described_input(Random& random, const Layout& layout) {
  TensorMap described;
  add_layout(described, layout);
  described.add("src_data", Tensor(layout.dtype, {0}));
  described.add("start", Tensor::scalar<std::uint64_t>(random.u64()));
  return described;
}

TensorMap shard_of(const TensorMap& described, int rank, int) {
  TensorMap inputs;
  for (const char* name : {"shape", "mesh", "src_axes", "src_axes_offsets", "dst_axes", "dst_axes_offsets"}) inputs.add(name, described.at(name).clone());
  inputs.add("src_data", source_shard(layout_of(refs(described)), start_of(refs(described)), rank));
  return inputs;
}

GateResult check_all_ranks(const TensorRefMap& described, const std::vector<TensorMap>& outputs) {
  const Layout layout = layout_of(described);
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(layout.ranks()); ++rank) {
    const Tensor* const out = rank < outputs.size() ? outputs[rank].find("dst_data") : nullptr;
    if (!out) return Mismatch{"dst_data", {}, "", "", 0, "output of rank " + std::to_string(rank) + " is missing"};
    if (auto wrong = check_target_shard(layout, start_of(described), static_cast<std::int64_t>(rank), out->ref())) return wrong;
  }
  return std::nullopt;
}

Floor wire_floor(const TensorMap& described, int ranks) {
  const Layout layout = layout_of(refs(described));
  std::int64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const Box has = box_of(layout, layout.source, rank), wants = box_of(layout, layout.target, rank);
    if (wants.elements() == 0) continue;
    std::int64_t overlap = 1;
    for (std::size_t d = 0; d < wants.dims; ++d) overlap *= std::max<std::int64_t>(0, std::min(has.high[d], wants.high[d]) - std::max(has.low[d], wants.low[d]));
    most = std::max(most, wants.elements() - overlap);
  }
  return {static_cast<double>(most * size_of(layout.dtype)), 0};
}

}  // namespace faibench::all2all_tensor_redistribute
