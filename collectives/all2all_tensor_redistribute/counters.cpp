#include "collectives/all2all_tensor_redistribute/counters.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace faibench::all2all_tensor_redistribute {
namespace {

constexpr std::uint64_t step = 0x9E3779B97F4A7C15u;

template <class Bits>
void write(std::byte* to, std::uint64_t first, std::int64_t count, int shift) {
  std::uint64_t mixed = first * step;
  for (std::int64_t i = 0; i < count; ++i, mixed += step) {
    const auto bits = static_cast<Bits>(mixed >> shift);
    std::memcpy(to + i * static_cast<std::int64_t>(sizeof(Bits)), &bits, sizeof(Bits));
  }
}

void write_source(std::byte* to, const Layout& layout, const Box& box, std::uint64_t start) {
  const std::int64_t element = size_of(layout.dtype);
  for_rows(layout, box, [&](std::int64_t index, std::int64_t in_shard, std::int64_t run) { write_counters(to + in_shard * element, layout.dtype, start, index, run); });
}

}  // namespace

void write_counters(std::byte* to, Dtype dtype, std::uint64_t start, std::int64_t first, std::int64_t count) {
  const std::uint64_t from = start + static_cast<std::uint64_t>(first);
  if (dtype == Dtype::bool_) return write<std::uint8_t>(to, from, count, 63);
  switch (size_of(dtype)) {
    case 1: return write<std::uint8_t>(to, from, count, 56);
    case 2: return write<std::uint16_t>(to, from, count, 48);
    case 4: return write<std::uint32_t>(to, from, count, 32);
    default: return write<std::uint64_t>(to, from, count, 0);
  }
}

Tensor source_shard(const Layout& layout, std::uint64_t start, std::int64_t rank) {
  const Box box = box_of(layout, layout.source, rank);
  Tensor shard(layout.dtype, {box.elements()});
  write_source(shard.data(), layout, box, start);
  return shard;
}

GateResult check_target_shard(const Layout& layout, std::uint64_t start, std::int64_t rank, const TensorRef& shard) {
  constexpr std::int64_t most = 1024;  // elements at a time
  const Box box = box_of(layout, layout.target, rank);
  if (auto bad = same_form("dst_data", shard, TensorRef{layout.dtype, {box.elements()}, nullptr})) {
    bad->what += (bad->what.empty() ? "on rank " : ", on rank ") + std::to_string(rank);
    return bad;
  }
  const std::int64_t element = size_of(layout.dtype);
  std::array<std::byte, most * 8> expected;
  GateResult wrong;
  for_rows(layout, box, [&](std::int64_t index, std::int64_t in_shard, std::int64_t run) {
    for (std::int64_t done = 0; done < run && !wrong; done += most) {
      const std::int64_t count = std::min(most, run - done), at = in_shard + done;
      write_counters(expected.data(), layout.dtype, start, index + done, count);
      const std::byte* const found = shard.data + at * element;
      if (std::memcmp(found, expected.data(), static_cast<std::size_t>(count * element)) == 0) continue;
      std::int64_t i = 0;
      while (std::memcmp(found + i * element, expected.data() + i * element, static_cast<std::size_t>(element)) == 0) ++i;
      wrong = Mismatch{"dst_data", {at + i}, element_text(shard, at + i), element_text(TensorRef{layout.dtype, {count}, expected.data()}, i), 0, "on rank " + std::to_string(rank)};
    }
  });
  return wrong;
}

TensorMap whole_input(Random& random, const Layout& layout) {
  TensorMap inputs;
  add_layout(inputs, layout);
  std::vector<Box> boxes;
  std::vector<std::int64_t> offsets = {0};
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    boxes.push_back(box_of(layout, layout.source, rank));
    offsets.push_back(offsets.back() + boxes.back().elements());
  }
  const std::uint64_t start = random.u64();
  Tensor& data = inputs.add("src_data", Tensor(layout.dtype, {offsets.back()}));
  for (std::size_t rank = 0; rank < boxes.size(); ++rank) write_source(data.data() + offsets[rank] * size_of(layout.dtype), layout, boxes[rank], start);
  inputs.add("src_offsets", Tensor::of({static_cast<std::int64_t>(offsets.size())}, offsets));
  return inputs;
}

}  // namespace faibench::all2all_tensor_redistribute
