#include "collectives/all2all_tensor_redistribute/agreement.h"

#include <xxhash.h>

#include <string>

#include "communicator/communicator.h"

namespace faibench::all2all_tensor_redistribute {
namespace {

const char* const compared[] = {"shape", "mesh", "src_axes", "src_axes_offsets", "dst_axes", "dst_axes_offsets", "src_data"};
constexpr std::int64_t kinds = std::size(compared);

std::int64_t product(std::span<const std::int64_t> numbers) {
  std::int64_t result = 1;
  for (const std::int64_t n : numbers) result *= n;
  return result;
}

// Of one rank alone: O(K*D), where the plan of all ranks takes O(P).
std::int64_t source_size(const Shard& shard, int rank) {
  const auto shape = shard.numbers("shape"), mesh = shard.numbers("mesh"), axes = shard.numbers("src_axes"), offsets = shard.numbers("src_axes_offsets");
  std::array<std::int64_t, 8> coordinate{};
  std::int64_t rest = rank;
  for (std::size_t a = mesh.size(); a-- > 0; rest /= mesh[a]) coordinate[a] = rest % mesh[a];
  std::int64_t size = 1;
  bool empty = false;
  for (std::size_t d = 0; d < shape.size() && !empty; ++d) empty = shape[d] == 0;
  for (std::size_t d = 0; d < shape.size() && !empty; ++d) {
    std::int64_t length = shape[d];
    for (std::int64_t i = offsets[d]; i < offsets[d + 1]; ++i) {
      const auto a = static_cast<std::size_t>(axes[static_cast<std::size_t>(i)]);
      const std::int64_t chunk = length / mesh[a] + (length % mesh[a] != 0 ? 1 : 0);
      const bool starts_past = chunk == 0 || coordinate[a] > (length - 1) / chunk;
      length = starts_past ? 0 : std::min(chunk, length - coordinate[a] * chunk);
    }
    empty = length == 0;
    size *= length;
  }
  return empty ? 0 : size;
}

}  // namespace

Shard::Shard(const MultiRank::Call& call)
    : inputs(call.arguments.inputs), source(inputs.at("src_data").data), held(inputs.at("src_data").size()), target(call.arguments.outputs.at("dst_data").data), dtype(inputs.at("src_data").dtype),
      element(size_of(dtype)) {}

Redistribution Shard::plan() const {
  return {numbers("shape"), numbers("mesh"), numbers("src_axes"), numbers("src_axes_offsets"), numbers("dst_axes"), numbers("dst_axes_offsets")};
}

// The maximum of each value and of its negative differ from one rank's own exactly where the ranks differ.
Rejected compare_ranks(Communicator& communicator, const Shard& shard, bool& everywhere) {
  const int rank = communicator.rank(), ranks = communicator.size();
  const bool counted = product(shard.numbers("mesh")) == ranks;
  std::int64_t values[2 * kinds + 2];
  for (std::int64_t k = 0; k + 1 < kinds; ++k) {
    const auto list = shard.numbers(compared[k]);
    values[k] = static_cast<std::int64_t>(XXH3_64bits_withSeed(list.data(), list.size_bytes(), list.size()) >> 1);  // so that it can be negated
  }
  values[kinds - 1] = static_cast<std::int64_t>(shard.dtype);
  for (std::int64_t k = 0; k < kinds; ++k) values[kinds + k] = -values[k];
  values[2 * kinds] = counted && source_size(shard, rank) != shard.held ? ranks - rank : 0;
  values[2 * kinds + 1] = everywhere ? 0 : 1;
  if (ranks > 1) communicator.all_reduce(values, values, std::size(values), Dtype::i64, Reduce::max);
  everywhere = values[2 * kinds + 1] == 0;
  for (std::int64_t k = 0; k < kinds; ++k)
    if (values[k] != -values[kinds + k]) return reject("rank_mismatch", compared[k], -1, "not the same on all ranks", k + 1 == kinds ? "dtype differs between ranks" : "its values differ between ranks");
  if (!counted) return reject("rank_count_mismatch", "mesh", -1, "of " + std::to_string(product(shard.numbers("mesh"))) + " ranks", "there are " + std::to_string(ranks));
  if (values[2 * kinds] == 0) return std::nullopt;
  const int wrong = ranks - static_cast<int>(values[2 * kinds]);
  std::int64_t held = shard.held;
  if (ranks > 1) communicator.broadcast(&held, 1, Dtype::i64, wrong);
  return reject("shard_size_mismatch", "src_data", -1, std::to_string(held) + " elements on rank " + std::to_string(wrong), "its box has " + std::to_string(source_size(shard, wrong)));
}

}  // namespace faibench::all2all_tensor_redistribute
