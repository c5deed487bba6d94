// Chunks of names hashed, inserted and looked up: the inner loops of the cpu variant, compiled for each instruction set and picked at run time.
#pragma once
#include <cstdint>

namespace faibench::safetensors_shard_route::cpu {

/// A list of names: name i is bytes[offsets[i] .. offsets[i+1]).
struct NameList {
  const std::uint8_t* bytes;
  const std::int64_t* offsets;
};

/// A declaration: 32 bits of hash above, its number + 1 below. 0 is no declaration.
using Slot = std::uint64_t;

/// Open addressing, in two halves by the top bit of the hash, so that two threads can fill it. A half wraps around in itself; it is never full.
struct Table {
  Slot* slots;
  std::uint32_t shift;   ///< a hash's home is hash >> shift
  std::uint32_t within;  ///< slots of a half - 1
};

/// Hashes names first .. first+count-1 and writes their slots apart by half, in order: half 0 to low[0], low[1], ..., half 1 to high[0], high[1], ...;
/// both need room for `count`. Returns how many went to `low`, or -1 - k if name k is "__metadata__" (the first such).
std::int64_t hash_names(const NameList& names, std::int64_t first, std::int64_t count, Slot* low, Slot* high);

/// Inserts declarations of one half, in order: a later one replaces an equal earlier one.
void insert(const Table& table, const NameList& names, const Slot* declarations, std::int64_t count);

/// Looks up queries first .. first+count-1; `owner` [N] is the file of each declaration.
void look_up(const Table& table, const NameList& names, const std::int32_t* owner, const NameList& queries, std::int64_t first, std::int64_t count, std::int32_t* file, std::int64_t* entry);

}  // namespace faibench::safetensors_shard_route::cpu
