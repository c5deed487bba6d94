// First form: a 64-bit hash by folded multiplications, an open-addressing table of (tag, number), bytes compared on equal tags.
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

#include "kernels/serving/safetensors_shard_route/safetensors_shard_route.h"

namespace faibench::safetensors_shard_route::cpu {
namespace {

std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t load64(const char* p) {
  std::uint64_t x;
  std::memcpy(&x, p, 8);
  return x;
}

std::uint64_t hash(std::string_view text) {
  std::uint64_t h = text.size() * 0x9E3779B97F4A7C15u;
  const char* p = text.data();
  std::size_t left = text.size();
  while (left >= 16) {
    h = fold(load64(p) ^ 0xA0761D6478BD642Fu, load64(p + 8) ^ h);
    p += 16;
    left -= 16;
  }
  char tail[16] = {};
  if (left) std::memcpy(tail, p, left);
  h = fold(load64(tail) ^ 0xE7037ED1A0B428DBu, load64(tail + 8) ^ h);
  return fold(h, 0x8EBC6AF09C88C6E3u);
}

}  // namespace

Rejected resolve_tensor_files(View<const std::uint8_t, 1> names, View<const std::int64_t, 1> name_offsets, View<const std::int64_t, 1> file_offsets, View<const std::uint8_t, 1> queries,
                              View<const std::int64_t, 1> query_offsets, View<std::int32_t, 1> file, View<std::int64_t, 1> entry) {
  const std::int64_t N = name_offsets.extent(0) - 1, Q = query_offsets.extent(0) - 1, F = file_offsets.extent(0) - 1;
  const auto text = [](View<const std::uint8_t, 1> bytes, View<const std::int64_t, 1> offsets, std::int64_t i) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()) + offsets[i], static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
  };
  struct Slot {
    std::uint32_t tag;
    std::int32_t number;
  };
  const std::size_t slots = std::bit_ceil(static_cast<std::size_t>(2 * N + 1)), mask = slots - 1;
  std::vector<Slot> table(slots, Slot{0, -1});
  const auto find = [&](std::string_view wanted, std::uint64_t h) -> Slot& {
    for (std::size_t at = h & mask;; at = (at + 1) & mask) {
      Slot& slot = table[at];
      if (slot.number < 0 || (slot.tag == h >> 32 && text(names, name_offsets, slot.number) == wanted)) return slot;
    }
  };
  for (std::int64_t k = 0; k < N; ++k) {
    const std::string_view name = text(names, name_offsets, k);
    if (name == "__metadata__") return reject("reserved_name", "names", name_offsets[k], "__metadata__", "the key of a header's metadata, declared as name " + std::to_string(k));
    const std::uint64_t h = hash(name);
    find(name, h) = {static_cast<std::uint32_t>(h >> 32), static_cast<std::int32_t>(k)};
  }
  std::vector<std::int32_t> owner(static_cast<std::size_t>(N));
  for (std::int64_t f = 0; f < F; ++f)
    for (std::int64_t k = file_offsets[f]; k < file_offsets[f + 1]; ++k) owner[static_cast<std::size_t>(k)] = static_cast<std::int32_t>(f);
  for (std::int64_t q = 0; q < Q; ++q) {
    const std::string_view wanted = text(queries, query_offsets, q);
    const std::int32_t k = find(wanted, hash(wanted)).number;
    entry[q] = k;
    file[q] = k < 0 ? -1 : owner[static_cast<std::size_t>(k)];
  }
  return std::nullopt;
}

}  // namespace faibench::safetensors_shard_route::cpu
