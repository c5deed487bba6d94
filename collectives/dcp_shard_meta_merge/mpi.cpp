// Each rank merges its own records first, so that a name is one entry a rank. Then, with k entries a rank and U names of all:
//  - The same list everywhere (told by a 128-bit hash, a second hash and lengths, along with the rejections' all-reduce): one all-reduce of U sizes, no name travels.
//  - Little of it: one all-gather of blocks padded to the largest rank's, then every rank merges all.
//  - Else each entry goes as 32 bytes to the owner of its hash, on many ranks by halving, merged on the way. The owner answers with the merged size to the first holder and
//    "not yours" to others. First holders' names, in rank order and each rank's own order, are the order of first appearance: two all-gathers put names and sizes where they belong.
//    Bytes in: about 40 k (times log2 P / 2 by halving, less what merges) + |distinct names| + 12 U.
// Bound: ceil(log2 P) latencies and |distinct names| + 8 U bytes into every rank.
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "collectives/dcp_shard_meta_merge/dcp_shard_meta_merge.h"
#include "collectives/dcp_shard_meta_merge/owners.h"
#include "collectives/dcp_shard_meta_merge/ranks.h"
#include "communicator/communicator.h"

namespace faibench::dcp_shard_meta_merge {
namespace {

/// What this rank's records come to. Memory is not touched before it is written.
struct Local {
  std::unique_ptr<std::uint8_t[]> names;
  std::unique_ptr<std::int64_t[]> ends, total;
  std::int64_t bytes = 0, count = 0;
  [[nodiscard]] const std::uint8_t* name(std::int64_t t) const { return names.get() + ends[static_cast<std::size_t>(t)]; }
  [[nodiscard]] std::size_t size(std::int64_t t) const { return static_cast<std::size_t>(ends[static_cast<std::size_t>(t) + 1] - ends[static_cast<std::size_t>(t)]); }
};

struct Records {
  View<const std::uint8_t, 1> names;
  View<const std::int64_t, 1> ends, offset, length;
};
Rejected merge_into(const Records& own, std::uint8_t* names, std::int64_t* ends, std::int64_t* total, std::int64_t& bytes, std::int64_t& count) {
  const std::int64_t N = own.offset.extent(0), B = own.names.extent(0), rank_offsets[2] = {0, N};
  Length true_bytes, true_ends, tensors;
  Rejected rejected = cpu::merge_shard_extents({rank_offsets, {2}}, own.names, own.ends, own.offset, own.length, {names, {B}}, {ends, {N + 1}}, {total, {N}}, true_bytes, true_ends, tensors);
  bytes = true_bytes.value;
  count = tensors.value;
  return rejected;
}
Records records_of(const TensorRefMap& shard) {
  return {shard.at("names").view<const std::uint8_t, 1>(), shard.at("name_offsets").view<const std::int64_t, 1>(), shard.at("offset").view<const std::int64_t, 1>(),
          shard.at("length").view<const std::int64_t, 1>()};
}

Rejected merge(const Records& records, Local& local) {
  const auto N = static_cast<std::size_t>(records.offset.extent(0));
  local.names = std::make_unique_for_overwrite<std::uint8_t[]>(static_cast<std::size_t>(records.names.extent(0)));
  local.ends = std::make_unique_for_overwrite<std::int64_t[]>(N + 1);
  local.total = std::make_unique_for_overwrite<std::int64_t[]>(N);
  return merge_into(records, local.names.get(), local.ends.get(), local.total.get(), local.bytes, local.count);
}

constexpr std::size_t compared = 5;
/// Equal on two ranks exactly if their lists of distinct names are, but for a collision of 192 bits of two hashes. With each value goes its complement: the least of both tell.
std::vector<std::int64_t> fingerprint(const Local& local) {
  const auto list = static_cast<std::size_t>(local.count + 1) * sizeof(std::int64_t);
  const std::uint64_t form = XXH3_64bits(local.ends.get(), list);
  const XXH128_hash_t bytes = XXH3_128bits_withSeed(local.names.get(), static_cast<std::size_t>(local.bytes), form);
  std::vector<std::int64_t> values = {local.count, local.bytes, static_cast<std::int64_t>(bytes.low64), static_cast<std::int64_t>(bytes.high64),
                                      static_cast<std::int64_t>(XXH64(local.names.get(), static_cast<std::size_t>(local.bytes), form))};
  for (std::size_t k = 0; k < compared; ++k) values.push_back(~values[k]);
  return values;
}
bool all_alike(const std::vector<std::int64_t>& least) {
  for (std::size_t k = 0; k < compared; ++k)
    if (least[k] != ~least[compared + k]) return false;
  return true;
}

std::vector<std::int64_t> starts_of(const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), std::int64_t{0});
  return starts;
}

std::vector<Entry> entries_of(const Local& local) {
  std::vector<Entry> entries;
  entries.reserve(static_cast<std::size_t>(local.count));
  for (std::int64_t t = 0; t < local.count; ++t) entries.push_back(entry_of(local.name(t), local.size(t), local.total[static_cast<std::size_t>(t)]));
  return entries;
}

struct Outputs {
  explicit Outputs(MultiRank::Call& call)
      : arguments(call.arguments), names(call.arguments.outputs.at("out_names").flat<std::uint8_t>().data()), ends(call.arguments.outputs.at("out_name_offsets").flat<std::int64_t>().data()),
        total(call.arguments.outputs.at("total").flat<std::int64_t>().data()) {}
  void set_lengths(std::int64_t bytes, std::int64_t count) {
    arguments.lengths.set("C", bytes);
    arguments.lengths.set("E", count + 1);
    arguments.lengths.set("T", count);
  }
  Arguments& arguments;
  std::uint8_t* names;
  std::int64_t *ends, *total;
};

/// With the names that this rank has; `reduce`: sizes are the largest of all ranks.
Rejected finish_alike(MultiRank::Call& call, const Local& local, bool reduce) {
  if (Rejected rejected = check_room(call.arguments.inputs, local.bytes, local.count)) return rejected;
  Outputs outputs(call);
  if (reduce) call.communicator.all_reduce(local.total.get(), outputs.total, local.count, Dtype::i64, Reduce::max);
  else std::copy_n(local.total.get(), local.count, outputs.total);
  std::copy_n(local.names.get(), local.bytes, outputs.names);
  std::copy_n(local.ends.get(), local.count + 1, outputs.ends);
  outputs.set_lengths(local.bytes, local.count);
  return std::nullopt;
}

Rejected finish_unlike(MultiRank::Call& call, const Local& local, int few) {
  Communicator& communicator = call.communicator;
  const auto P = static_cast<std::size_t>(communicator.size()), rank = static_cast<std::size_t>(communicator.rank());
  const std::vector<std::int64_t> merged = ask_owners(communicator, entries_of(local), few);

  std::int64_t own[2] = {0, 0};  // names that this rank is the first to have, their bytes
  for (std::int64_t t = 0; t < local.count; ++t) {
    if (merged[static_cast<std::size_t>(t)] < 0) continue;
    ++own[0];
    own[1] += static_cast<std::int64_t>(local.size(t));
  }
  std::vector<std::int64_t> shares(2 * P), counts(P), bytes(P);
  gather(communicator, own, shares.data(), std::vector<std::int64_t>(P, 2), sizeof own[0]);
  for (std::size_t r = 0; r < P; ++r) {
    counts[r] = shares[2 * r];
    bytes[r] = shares[2 * r + 1];
  }
  const std::vector<std::int64_t> count_starts = starts_of(counts), byte_starts = starts_of(bytes);
  const std::int64_t T = count_starts.back() + counts.back(), B = byte_starts.back() + bytes.back();
  if (Rejected rejected = check_room(call.arguments.inputs, B, T)) return rejected;

  Outputs outputs(call);
  constexpr std::size_t facts = 3;  // name length, size low, size high: 12 bytes a name
  const auto described = std::make_unique_for_overwrite<std::uint32_t[]>(facts * static_cast<std::size_t>(T));
  std::uint8_t* name = outputs.names + byte_starts[rank];
  std::uint32_t* fact = described.get() + facts * static_cast<std::size_t>(count_starts[rank]);
  for (std::int64_t t = 0; t < local.count; ++t) {
    const std::int64_t total = merged[static_cast<std::size_t>(t)];
    if (total < 0) continue;
    name = std::copy_n(local.name(t), local.size(t), name);
    *fact++ = static_cast<std::uint32_t>(local.size(t));
    *fact++ = static_cast<std::uint32_t>(total);
    *fact++ = static_cast<std::uint32_t>(total >> 32);
  }
  gather(communicator, outputs.names + byte_starts[rank], outputs.names, bytes, 1);
  gather(communicator, described.get() + facts * static_cast<std::size_t>(count_starts[rank]), described.get(), counts, facts * sizeof(std::uint32_t));
  outputs.ends[0] = 0;
  const std::uint32_t* from = described.get();
  for (std::int64_t t = 0; t < T; ++t, from += facts) {
    outputs.ends[t + 1] = outputs.ends[t] + from[0];
    outputs.total[t] = static_cast<std::int64_t>(std::uint64_t{from[2]} << 32 | from[1]);
  }
  outputs.set_lengths(B, T);
  return std::nullopt;
}

// {count, bytes, sizes, ends of names, names} of each rank, padded to the largest `count` and `bytes`.
Rejected finish_small(MultiRank::Call& call, const Local& local, std::int64_t most_names, std::int64_t most_bytes) {
  const auto P = static_cast<std::size_t>(call.communicator.size());
  const std::size_t block = static_cast<std::size_t>(block_bytes(most_names, most_bytes)) / 8;
  std::vector<std::int64_t> own(block), all(block * P);
  own[0] = local.count;
  own[1] = local.bytes;
  std::copy_n(local.total.get(), local.count, own.data() + 2);
  std::copy_n(local.ends.get() + 1, local.count, own.data() + 2 + most_names);
  std::copy_n(local.names.get(), local.bytes, reinterpret_cast<std::uint8_t*>(own.data() + 2 + 2 * most_names));
  gather(call.communicator, own.data(), all.data(), std::vector<std::int64_t>(P, static_cast<std::int64_t>(block)), sizeof own[0]);

  std::vector<std::uint8_t> names;
  std::vector<std::int64_t> ends = {0}, length;
  for (std::size_t r = 0; r < P; ++r) {
    const std::int64_t* const from = all.data() + r * block;
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(from + 2 + 2 * most_names);
    const auto before = static_cast<std::int64_t>(names.size());
    names.insert(names.end(), bytes, bytes + from[1]);
    length.insert(length.end(), from + 2, from + 2 + from[0]);
    for (std::int64_t t = 0; t < from[0]; ++t) ends.push_back(before + from[2 + most_names + t]);
  }
  const auto N = static_cast<std::int64_t>(length.size());
  const std::vector<std::int64_t> offset(length.size(), 0);
  Local merged;
  if (Rejected rejected = merge({{names.data(), {static_cast<std::int64_t>(names.size())}}, {ends.data(), {N + 1}}, {offset.data(), {N}}, {length.data(), {N}}}, merged)) return rejected;
  return finish_alike(call, merged, false);
}

}  // namespace

Rejected run_mpi_above(MultiRank::Call& call, std::int64_t small, int few) {
  const TensorRefMap& shard = call.arguments.inputs;
  if (call.communicator.size() == 1 && !check_room(shard, shard.at("names").size(), shard.at("offset").size())) {  // straight into place
    Outputs outputs(call);
    std::int64_t bytes = 0, count = 0;
    if (const Rejected own = merge_into(records_of(shard), outputs.names, outputs.ends, outputs.total, bytes, count)) return agree(call.communicator, shard, own);
    outputs.set_lengths(bytes, count);
    return std::nullopt;
  }
  Local local;
  const Rejected own = merge(records_of(shard), local);
  std::vector<std::int64_t> least = own ? std::vector<std::int64_t>(2 * compared) : fingerprint(local);
  if (Rejected rejected = agree(call.communicator, shard, own, least)) return rejected;
  if (all_alike(least)) return finish_alike(call, local, true);
  const std::int64_t most_names = ~least[compared], most_bytes = ~least[compared + 1];
  if (block_bytes(most_names, most_bytes) <= small / call.communicator.size()) return finish_small(call, local, most_names, most_bytes);
  return finish_unlike(call, local, few);
}

Rejected run_mpi(MultiRank::Call& call) { return run_mpi_above(call, small_bytes(call.communicator.size()), few_ranks); }

std::int64_t block_bytes(std::int64_t count, std::int64_t bytes) { return 8 * (2 + 2 * count) + (bytes + 7) / 8 * 8; }

std::int64_t small_bytes(int ranks) {
  constexpr std::int64_t round = 32 << 10;  // bytes that pass while a round is waited for
  return round * std::max(1, static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1))));
}

}  // namespace faibench::dcp_shard_meta_merge
