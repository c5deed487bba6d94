// Records {u32 name length, name, i64 offset, i64 length}, little-endian, of all ranks on every rank; then the plain merge with a hash map: what is slow here is the wire form,
// not the quadratic search of the one-process baseline, which would hide it.
#include <cstring>
#include <numeric>
#include <vector>

#include "collectives/dcp_shard_meta_merge/dcp_shard_meta_merge.h"
#include "collectives/dcp_shard_meta_merge/ranks.h"
#include "communicator/communicator.h"

namespace faibench::dcp_shard_meta_merge {
namespace {

template <class T>
void put(std::vector<std::uint8_t>& to, T value) {
  for (std::size_t b = 0; b < sizeof value; ++b) to.push_back(static_cast<std::uint8_t>(static_cast<std::make_unsigned_t<T>>(value) >> (8 * b)));
}
template <class T>
T get(const std::uint8_t*& from) {
  std::make_unsigned_t<T> value = 0;
  for (std::size_t b = 0; b < sizeof value; ++b) value |= static_cast<std::make_unsigned_t<T>>(*from++) << (8 * b);
  return static_cast<T>(value);
}

}  // namespace

Rejected run_mpi_baseline(MultiRank::Call& call) {
  Communicator& communicator = call.communicator;
  const TensorRefMap& shard = call.arguments.inputs;
  if (Rejected rejected = agree(communicator, shard, first_fault(shard))) return rejected;

  const auto names = shard.at("names").view<const std::uint8_t, 1>();
  const auto own_ends = shard.at("name_offsets").view<const std::int64_t, 1>(), own_offset = shard.at("offset").view<const std::int64_t, 1>(),
             own_length = shard.at("length").view<const std::int64_t, 1>();
  std::vector<std::uint8_t> records;
  for (std::int64_t i = 0; i < own_offset.extent(0); ++i) {
    put(records, static_cast<std::uint32_t>(own_ends[i + 1] - own_ends[i]));
    records.insert(records.end(), names.data() + own_ends[i], names.data() + own_ends[i + 1]);
    put(records, own_offset[i]);
    put(records, own_length[i]);
  }
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(communicator.size()));
  const std::vector<std::int64_t> one_each(sizes.size(), 1);
  const auto size = static_cast<std::int64_t>(records.size());
  communicator.all_gather(&size, sizes.data(), one_each, Dtype::i64);
  std::vector<std::uint8_t> all(static_cast<std::size_t>(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0})));
  communicator.all_gather(records.data(), all.data(), sizes, Dtype::u8);

  std::vector<std::uint8_t> all_names;
  std::vector<std::int64_t> ends = {0}, offset, length;
  for (const std::uint8_t* at = all.data(); at != all.data() + all.size();) {
    const auto bytes = get<std::uint32_t>(at);
    all_names.insert(all_names.end(), at, at + bytes);
    at += bytes;
    ends.push_back(static_cast<std::int64_t>(all_names.size()));
    offset.push_back(get<std::int64_t>(at));
    length.push_back(get<std::int64_t>(at));
  }
  const auto N = static_cast<std::int64_t>(offset.size()), B = static_cast<std::int64_t>(all_names.size());
  std::vector<std::uint8_t> out_names(all_names.size());
  std::vector<std::int64_t> out_ends(ends.size()), total(offset.size());
  const std::int64_t rank_offsets[2] = {0, N};
  Length bytes, entries, tensors;
  if (Rejected rejected = reference::merge_shard_extents({rank_offsets, {2}}, {all_names.data(), {B}}, {ends.data(), {N + 1}}, {offset.data(), {N}}, {length.data(), {N}}, {out_names.data(), {B}},
                                                        {out_ends.data(), {N + 1}}, {total.data(), {N}}, bytes, entries, tensors))
    return rejected;
  if (Rejected rejected = check_room(shard, bytes.value, tensors.value)) return rejected;
  std::copy_n(out_names.data(), bytes.value, call.arguments.outputs.at("out_names").flat<std::uint8_t>().data());
  std::copy_n(out_ends.data(), entries.value, call.arguments.outputs.at("out_name_offsets").flat<std::int64_t>().data());
  std::copy_n(total.data(), tensors.value, call.arguments.outputs.at("total").flat<std::int64_t>().data());
  call.arguments.lengths.set("C", bytes.value);
  call.arguments.lengths.set("E", entries.value);
  call.arguments.lengths.set("T", tensors.value);
  return std::nullopt;
}

}  // namespace faibench::dcp_shard_meta_merge
