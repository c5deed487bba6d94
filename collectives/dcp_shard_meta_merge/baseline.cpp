// A list of distinct names searched from the front for each record, then a pass over all records for each distinct name.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "collectives/dcp_shard_meta_merge/dcp_shard_meta_merge.h"

namespace faibench::dcp_shard_meta_merge::baseline {
namespace {

Rejected check(View<const std::int64_t, 1> name_offsets, View<const std::int64_t, 1> offset, View<const std::int64_t, 1> length) {
  const std::int64_t N = offset.extent(0);
  for (std::int64_t i = 0; i < N; ++i)
    if (name_offsets[i] == name_offsets[i + 1]) return reject("empty_name", "name_offsets", i, std::to_string(name_offsets[i]), "record " + std::to_string(i) + " has a name of zero bytes");
  for (std::int64_t i = 0; i < N; ++i)
    if (offset[i] < 0) return reject("negative_offset", "offset", i, std::to_string(offset[i]), "a shard cannot start before its tensor");
  for (std::int64_t i = 0; i < N; ++i)
    if (length[i] < 0) return reject("negative_length", "length", i, std::to_string(length[i]), "a shard cannot have fewer than no bytes");
  for (std::int64_t i = 0; i < N; ++i)
    if (length[i] > std::numeric_limits<std::int64_t>::max() - offset[i])
      return reject("extent_overflow", "length", i, std::to_string(length[i]), "with offset " + std::to_string(offset[i]) + " the shard ends past 2^63-1");
  return std::nullopt;
}

}  // namespace

Rejected merge_shard_extents(View<const std::int64_t, 1> /*rank_offsets*/, View<const std::uint8_t, 1> names, View<const std::int64_t, 1> name_offsets, View<const std::int64_t, 1> offset,
                             View<const std::int64_t, 1> length, View<std::uint8_t, 1> out_names, View<std::int64_t, 1> out_name_offsets, View<std::int64_t, 1> total, Length& bytes, Length& ends, Length& tensors) {
  if (Rejected rejected = check(name_offsets, offset, length)) return rejected;
  const std::int64_t N = offset.extent(0);
  std::vector<std::string> record_names;
  for (std::int64_t i = 0; i < N; ++i)
    record_names.emplace_back(reinterpret_cast<const char*>(names.data()) + name_offsets[i], static_cast<std::size_t>(name_offsets[i + 1] - name_offsets[i]));
  std::vector<std::string> distinct;
  for (const std::string& name : record_names)
    if (std::find(distinct.begin(), distinct.end(), name) == distinct.end()) distinct.push_back(name);

  out_name_offsets[0] = 0;
  for (std::size_t t = 0; t < distinct.size(); ++t) {
    std::int64_t largest = 0;
    for (std::int64_t i = 0; i < N; ++i)
      if (record_names[static_cast<std::size_t>(i)] == distinct[t] && length[i] > 0) largest = std::max(largest, offset[i] + length[i]);
    const auto place = static_cast<std::int64_t>(t);
    total[place] = largest;
    std::copy(distinct[t].begin(), distinct[t].end(), out_names.data() + out_name_offsets[place]);
    out_name_offsets[place + 1] = out_name_offsets[place] + static_cast<std::int64_t>(distinct[t].size());
  }
  tensors.value = static_cast<std::int64_t>(distinct.size());
  ends.value = tensors.value + 1;
  bytes.value = out_name_offsets[tensors.value];
  return std::nullopt;
}

}  // namespace faibench::dcp_shard_meta_merge::baseline
