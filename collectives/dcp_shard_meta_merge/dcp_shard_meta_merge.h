// Merges the shard records of all ranks of a checkpoint into global tensor sizes: the one signature of all variants.
#pragma once
#include <string>
#include <vector>

#include "task/task.h"
#include "tensor/view.h"

namespace faibench::dcp_shard_meta_merge {

/// For each distinct name the largest byte boundary that any of its shards covers.
///   rank_offsets [R+1]         records of rank r are rank_offsets[r] .. rank_offsets[r+1]-1
///   names [B], name_offsets [N+1]  the tensor's name in each record; any bytes, never empty
///   offset [N], length [N]     first byte and bytes of the shard in the flattened tensor
///   out_names [C], out_name_offsets [T+1]  the T distinct names in order of first appearance; room for B bytes and N+1 offsets
///   total [T]                  max of offset + length over records with length > 0; 0 if there is none; room for N
///   bytes, ends, tensors       C, T+1, T
/// Offsets were checked before the call; each variant itself rejects empty_name, negative_offset, negative_length, extent_overflow, each over all records before the next,
/// before it writes. Thread-safe; outputs may not alias inputs.
namespace reference {
Rejected merge_shard_extents(View<const std::int64_t, 1> rank_offsets, View<const std::uint8_t, 1> names, View<const std::int64_t, 1> name_offsets, View<const std::int64_t, 1> offset,
                             View<const std::int64_t, 1> length, View<std::uint8_t, 1> out_names, View<std::int64_t, 1> out_name_offsets, View<std::int64_t, 1> total, Length& bytes, Length& ends, Length& tensors);
}
namespace baseline {
Rejected merge_shard_extents(View<const std::int64_t, 1> rank_offsets, View<const std::uint8_t, 1> names, View<const std::int64_t, 1> name_offsets, View<const std::int64_t, 1> offset,
                             View<const std::int64_t, 1> length, View<std::uint8_t, 1> out_names, View<std::int64_t, 1> out_name_offsets, View<std::int64_t, 1> total, Length& bytes, Length& ends, Length& tensors);
}
namespace cpu {
Rejected merge_shard_extents(View<const std::int64_t, 1> rank_offsets, View<const std::uint8_t, 1> names, View<const std::int64_t, 1> name_offsets, View<const std::int64_t, 1> offset,
                             View<const std::int64_t, 1> length, View<std::uint8_t, 1> out_names, View<std::int64_t, 1> out_name_offsets, View<std::int64_t, 1> total, Length& bytes, Length& ends, Length& tensors);
}

struct Record {
  std::string name;
  std::int64_t offset = 0, length = 0;
};
/// Inputs of one call, rank by rank.
TensorMap merge_input(const std::vector<std::vector<Record>>& ranks);
/// The fixed cases of the gate (all; those that are no rejection), and a small valid input of random shape and content.
std::vector<Case> cases();
std::vector<Case> valid_cases();
TensorMap random_input(Random& random);

}  // namespace faibench::dcp_shard_meta_merge
