// One hash a record at most, and little memory touched for each:
//  - Consecutive ranks list the same names in the same order: a record is first compared with the name that followed its predecessor's last time. Where that holds no name is hashed.
//  - Otherwise 16 bytes a step are hashed by folded products; the table is open addressing over slots of 8 bytes (32 bits of hash, 32 of number), at most half full, fetched ahead in batches.
//  - Bytes are compared wherever 32 bits of hash agree, so the answer never rests on the hash.
// Bound: names, offsets and extents read once, distinct names and 16 T written.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "collectives/dcp_shard_meta_merge/dcp_shard_meta_merge.h"

namespace faibench::dcp_shard_meta_merge::cpu {
namespace {

std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}
template <class T>
std::uint64_t load(const std::uint8_t* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

/// The last step overlaps the one before, so that no byte beyond the name is read. length >= 1.
std::uint32_t hash_of(const std::uint8_t* p, std::size_t length) {
  constexpr std::uint64_t key0 = 0xA0761D6478BD642Fu, key1 = 0xE7037ED1A0B428DBu, key2 = 0x8EBC6AF09C88C6E3u;
  std::uint64_t h = length * key0, a, b = 0;
  if (length > 16) {
    std::size_t left = length;
    for (; left > 16; left -= 16, p += 16) h = fold(load<std::uint64_t>(p) ^ key1, load<std::uint64_t>(p + 8) ^ h);
    a = load<std::uint64_t>(p + left - 16);
    b = load<std::uint64_t>(p + left - 8);
  } else if (length >= 8) {
    a = load<std::uint64_t>(p);
    b = load<std::uint64_t>(p + length - 8);
  } else if (length >= 4) {
    a = load<std::uint32_t>(p);
    b = load<std::uint32_t>(p + length - 4);
  } else {
    a = std::uint64_t{p[0]} << 16 | std::uint64_t{p[length / 2]} << 8 | p[length - 1];
  }
  return static_cast<std::uint32_t>(fold(fold(a ^ key1, b ^ h), key2));
}

/// Looks at everything at once; only where something is wrong, for the first row of the table that is.
Rejected check(View<const std::int64_t, 1> name_offsets, View<const std::int64_t, 1> offset, View<const std::int64_t, 1> length) {
  const std::int64_t N = offset.extent(0);
  const auto overflows = [&](std::int64_t i) { return static_cast<std::int64_t>(static_cast<std::uint64_t>(offset[i]) + static_cast<std::uint64_t>(length[i])) < 0; };
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < N; ++i) wrong |= (name_offsets[i + 1] - name_offsets[i] - 1) | offset[i] | length[i] | static_cast<std::int64_t>(static_cast<std::uint64_t>(offset[i]) + static_cast<std::uint64_t>(length[i]));
  if (wrong >= 0) return std::nullopt;
  const auto first = [&](auto at_fault) {
    std::int64_t i = 0;
    while (i < N && !at_fault(i)) ++i;
    return i;
  };
  if (const auto i = first([&](std::int64_t k) { return name_offsets[k] == name_offsets[k + 1]; }); i < N)
    return reject("empty_name", "name_offsets", i, std::to_string(name_offsets[i]), "the name of record " + std::to_string(i) + " has no bytes");
  if (const auto i = first([&](std::int64_t k) { return offset[k] < 0; }); i < N) return reject("negative_offset", "offset", i, std::to_string(offset[i]), "offsets are 0 or more");
  if (const auto i = first([&](std::int64_t k) { return length[k] < 0; }); i < N) return reject("negative_length", "length", i, std::to_string(length[i]), "lengths are 0 or more");
  const auto i = first(overflows);
  return reject("extent_overflow", "length", i, std::to_string(length[i]), "from offset " + std::to_string(offset[i]) + " on it ends past 2^63-1");
}

}  // namespace

Rejected merge_shard_extents(View<const std::int64_t, 1> /*rank_offsets*/, View<const std::uint8_t, 1> names, View<const std::int64_t, 1> name_offsets, View<const std::int64_t, 1> offset,
                             View<const std::int64_t, 1> length, View<std::uint8_t, 1> out_names, View<std::int64_t, 1> out_name_offsets, View<std::int64_t, 1> total, Length& bytes, Length& ends, Length& tensors) {
  if (Rejected rejected = check(name_offsets, offset, length)) return rejected;
  const std::int64_t N = offset.extent(0);
  if (N >= std::numeric_limits<std::int32_t>::max()) throw Error(Error::Kind::internal, "dcp_shard_meta_merge: the cpu variant takes fewer than 2^31 records, there are " + std::to_string(N));

  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(N, 1)))) + 1;
  const std::size_t slot_count = std::size_t{1} << bits, mask = slot_count - 1;
  std::vector<std::uint64_t> slots(slot_count);         // hash above, number + 1 below; 0 is empty
  std::vector<std::int32_t> follower;                   // of each distinct name: the one that came after it last
  follower.reserve(static_cast<std::size_t>(N));
  std::int64_t T = 0;
  out_name_offsets[0] = 0;

  const auto name_at = [&](std::int64_t i) { return names.data() + name_offsets[i]; };
  const auto size_at = [&](std::int64_t i) { return static_cast<std::size_t>(name_offsets[i + 1] - name_offsets[i]); };
  const auto is = [&](std::int64_t t, std::int64_t i) {
    const std::size_t size = size_at(i);
    return static_cast<std::size_t>(out_name_offsets[t + 1] - out_name_offsets[t]) == size && std::memcmp(out_names.data() + out_name_offsets[t], name_at(i), size) == 0;
  };
  const auto take = [&](std::int64_t t, std::int64_t i) {
    if (length[i] > 0) total[t] = std::max(total[t], offset[i] + length[i]);
  };
  const auto find_or_add = [&](std::int64_t i, std::uint32_t hash) {
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
      const std::uint64_t slot = slots[at];
      if (slot == 0) {
        slots[at] = std::uint64_t{hash} << 32 | static_cast<std::uint32_t>(T + 1);
        std::memcpy(out_names.data() + out_name_offsets[T], name_at(i), size_at(i));
        out_name_offsets[T + 1] = out_name_offsets[T] + static_cast<std::int64_t>(size_at(i));
        total[T] = 0;
        follower.push_back(-1);
        return T++;
      }
      const auto t = static_cast<std::int64_t>(static_cast<std::uint32_t>(slot)) - 1;
      if (slot >> 32 == hash && is(t, i)) return t;
    }
  };

  constexpr std::int64_t batch = 32;
  std::uint32_t hashes[batch];
  std::int64_t before = -1;  // distinct name of the record before
  for (std::int64_t begin = 0; begin < N;) {
    std::int64_t i = begin;
    while (i < N && before >= 0) {
      const std::int32_t t = follower[static_cast<std::size_t>(before)];
      if (t < 0 || !is(t, i)) break;
      take(t, i++);
      before = t;
    }
    const std::int64_t n = std::min(batch, N - i);
    for (std::int64_t k = 0; k < n; ++k) {
      hashes[k] = hash_of(name_at(i + k), size_at(i + k));
      __builtin_prefetch(slots.data() + (hashes[k] & mask));
    }
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t t = find_or_add(i + k, hashes[k]);
      take(t, i + k);
      if (before >= 0) follower[static_cast<std::size_t>(before)] = static_cast<std::int32_t>(t);
      before = t;
    }
    begin = i + n;
  }
  tensors.value = T;
  ends.value = T + 1;
  bytes.value = out_name_offsets[T];
  return std::nullopt;
}

}  // namespace faibench::dcp_shard_meta_merge::cpu
