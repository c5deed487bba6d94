// What the elements of a generated tensor are: a function of their place, so that any rank can make its own part and check it without the rest.
#pragma once
#include <cstdint>

#include "collectives/all2all_tensor_redistribute/layout.h"

namespace faibench::all2all_tensor_redistribute {

/// Elements first .. first + count - 1 (row-major) of the global tensor: the high bits of (start + index) * 2^64/phi, so that bytes of all values occur, NaN payloads among them, and a misplaced
/// element shows. Another `start` gives another tensor. A bool is 0 or 1.
void write_counters(std::byte* to, Dtype dtype, std::uint64_t start, std::int64_t first, std::int64_t count);

/// The shard of `rank` under the layout's source sharding, row-major.
Tensor source_shard(const Layout& layout, std::uint64_t start, std::int64_t rank);

/// Whether `shard` is what `rank` holds under the target sharding, byte for byte. Makes no more of the tensor than that.
GateResult check_target_shard(const Layout& layout, std::uint64_t start, std::int64_t rank, const TensorRef& shard);

/// The one-process form's input: the source shards of all ranks.
TensorMap whole_input(Random& random, const Layout& layout);

}  // namespace faibench::all2all_tensor_redistribute
