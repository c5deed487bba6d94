// The straightforward multi-rank form: everybody gathers all source shards, and copies from each, row by row, what its own box needs.
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "collectives/all2all_tensor_redistribute/all2all_tensor_redistribute.h"
#include "communicator/communicator.h"

namespace faibench::all2all_tensor_redistribute {
namespace {

using Numbers = std::span<const std::int64_t>;

struct Box {
  std::vector<std::int64_t> low, high;
  bool operator==(const Box&) const = default;
  [[nodiscard]] std::int64_t elements() const {
    for (std::size_t d = 0; d < low.size(); ++d)
      if (high[d] <= low[d]) return 0;
    std::int64_t count = 1;
    for (std::size_t d = 0; d < low.size(); ++d) count *= high[d] - low[d];
    return count;
  }
};

Box box_of(int rank, Numbers shape, Numbers mesh, Numbers axes, Numbers offsets) {
  std::vector<std::int64_t> coordinate(mesh.size());
  std::int64_t rest = rank;
  for (std::size_t a = mesh.size(); a-- > 0;) {
    coordinate[a] = rest % mesh[a];
    rest /= mesh[a];
  }
  Box box;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t low = 0, high = shape[d];
    for (std::int64_t k = offsets[d]; k < offsets[d + 1]; ++k) {
      const auto a = static_cast<std::size_t>(axes[static_cast<std::size_t>(k)]);
      std::int64_t chunk = (high - low) / mesh[a];
      if ((high - low) % mesh[a] != 0) ++chunk;
      for (std::int64_t i = 0; i < coordinate[a]; ++i) low += std::min(chunk, high - low);
      high = low + std::min(chunk, high - low);
    }
    box.low.push_back(low);
    box.high.push_back(high);
  }
  return box;
}

Rejected differing_ranks(Communicator& communicator, const TensorRefMap& inputs) {
  const char* const names[] = {"shape", "mesh", "src_axes", "src_axes_offsets", "dst_axes", "dst_axes_offsets"};
  std::vector<std::uint64_t> own = {static_cast<std::uint64_t>(inputs.at("src_data").dtype)};
  for (const char* name : names) {
    const TensorRef& tensor = inputs.at(name);
    own.push_back(XXH3_64bits_withSeed(tensor.data, static_cast<std::size_t>(tensor.bytes()), static_cast<std::uint64_t>(tensor.size())));
  }
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(communicator.size()), static_cast<std::int64_t>(own.size()));
  std::vector<std::uint64_t> all(own.size() * counts.size());
  communicator.all_gather(own.data(), all.data(), counts, Dtype::u64);
  for (std::size_t i = own.size(); i < all.size(); ++i) {
    const std::size_t what = i % own.size();
    if (all[i] == all[what]) continue;
    return reject("rank_mismatch", what == 0 ? "src_data" : names[what - 1], -1, "not the same on all ranks", "that of rank " + std::to_string(i / own.size()) + (what == 0 ? " has another dtype" : " differs") + " from rank 0's");
  }
  return std::nullopt;
}

Rejected wrong_shard(Communicator& communicator, const std::vector<Box>& source, std::int64_t held) {
  const std::vector<std::int64_t> ones(source.size(), 1);
  std::vector<std::int64_t> all(source.size());
  communicator.all_gather(&held, all.data(), ones, Dtype::i64);
  for (std::size_t r = 0; r < source.size(); ++r)
    if (all[r] != source[r].elements()) return reject("shard_size_mismatch", "src_data", -1, std::to_string(all[r]) + " elements", "the box of rank " + std::to_string(r) + " has " + std::to_string(source[r].elements()));
  return std::nullopt;
}

/// Copies what lies in both boxes, a row of the last dim at a time.
void copy_overlap(const std::byte* from, const Box& source, std::byte* to, const Box& target, std::size_t element) {
  const std::size_t D = source.low.size();
  Box both = source;
  for (std::size_t d = 0; d < D; ++d) {
    both.low[d] = std::max(source.low[d], target.low[d]);
    both.high[d] = std::min(source.high[d], target.high[d]);
  }
  const std::int64_t elements = both.elements();
  if (elements == 0) return;
  const std::int64_t row = D > 0 ? both.high[D - 1] - both.low[D - 1] : 1;
  std::vector<std::int64_t> at = both.low;
  const auto index_in = [&](const Box& box) {
    std::int64_t index = 0;
    for (std::size_t d = 0; d < D; ++d) index = index * (box.high[d] - box.low[d]) + at[d] - box.low[d];
    return static_cast<std::size_t>(index);
  };
  for (std::int64_t done = 0; done < elements; done += row) {
    std::memcpy(to + index_in(target) * element, from + index_in(source) * element, static_cast<std::size_t>(row) * element);
    for (std::size_t d = D; d-- > 1;) {
      if (++at[d - 1] < both.high[d - 1]) break;
      at[d - 1] = both.low[d - 1];
    }
  }
}

}  // namespace

Rejected run_mpi_baseline(MultiRank::Call& call) {
  Communicator& communicator = call.communicator;
  const TensorRefMap& inputs = call.arguments.inputs;
  const auto numbers = [&](const char* name) { return inputs.at(name).flat<const std::int64_t>(); };
  if (auto rejection = differing_ranks(communicator, inputs)) return rejection;
  std::int64_t P = 1;
  for (const std::int64_t n : numbers("mesh")) P *= n;
  if (P != communicator.size()) return reject("rank_count_mismatch", "mesh", -1, std::to_string(P) + " ranks", "the group has " + std::to_string(communicator.size()));
  std::vector<Box> source;
  for (int r = 0; r < P; ++r) source.push_back(box_of(r, numbers("shape"), numbers("mesh"), numbers("src_axes"), numbers("src_axes_offsets")));
  const TensorRef& shard = inputs.at("src_data");
  if (auto rejection = wrong_shard(communicator, source, shard.size())) return rejection;

  const auto element = static_cast<std::size_t>(size_of(shard.dtype));
  std::vector<std::int64_t> counts;
  std::int64_t all = 0;
  for (const Box& box : source) {
    counts.push_back(box.elements());
    all += counts.back();
  }
  const auto gathered = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(all) * element);
  communicator.all_gather(shard.data, gathered.get(), counts, shard.dtype);
  const Box target = box_of(communicator.rank(), numbers("shape"), numbers("mesh"), numbers("dst_axes"), numbers("dst_axes_offsets"));
  call.arguments.lengths.set("T", target.elements());
  const std::byte* from = gathered.get();
  for (std::size_t r = 0; r < source.size(); ++r) {
    const bool copy_of_an_earlier = std::find(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(r), source[r]) != source.begin() + static_cast<std::ptrdiff_t>(r);
    if (!copy_of_an_earlier) copy_overlap(from, source[r], call.arguments.outputs.at("dst_data").data, target, element);
    from += static_cast<std::size_t>(counts[r]) * element;
  }
  return std::nullopt;
}

}  // namespace faibench::all2all_tensor_redistribute
