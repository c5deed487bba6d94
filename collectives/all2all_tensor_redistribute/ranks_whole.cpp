// Whole inputs and what is right on every rank, straight from the contract's definition of a box: no code of the variants.
#include <algorithm>
#include <cstring>
#include <string>

#include "collectives/all2all_tensor_redistribute/ranks.h"

namespace faibench::all2all_tensor_redistribute {
namespace {

using Numbers = std::vector<std::int64_t>;

struct Box {
  Numbers low, high;
  [[nodiscard]] std::int64_t extent(std::size_t d) const { return high[d] - low[d]; }
  [[nodiscard]] std::int64_t elements() const {
    std::int64_t count = 1;
    for (std::size_t d = 0; d < low.size(); ++d)
      if (extent(d) == 0) return 0;
    for (std::size_t d = 0; d < low.size(); ++d) count *= extent(d);
    return count;
  }
};

Box box_of(const Numbers& shape, const Numbers& mesh, const std::vector<Numbers>& axes, std::int64_t rank) {
  Numbers coordinate(mesh.size());
  for (std::size_t a = mesh.size(); a-- > 0; rank /= mesh[a]) coordinate[a] = rank % mesh[a];
  Box box{Numbers(shape.size(), 0), shape};
  for (std::size_t d = 0; d < shape.size(); ++d)
    for (const std::int64_t axis : axes[d]) {
      const auto a = static_cast<std::size_t>(axis);
      const std::int64_t n = mesh[a], length = box.extent(d), chunk = length / n + (length % n > 0 ? 1 : 0), end = box.high[d];
      const auto at = [&](std::int64_t i) { return chunk > 0 && i > length / chunk ? end : std::min(end, box.low[d] + i * chunk); };
      const std::int64_t low = at(coordinate[a]), high = at(coordinate[a] + 1);
      box.low[d] = low;
      box.high[d] = high;
    }
  return box;
}

/// Calls visit(index in the global tensor, index in the shard, elements) for every row of the box.
template <class Visit>
void for_rows(const Numbers& shape, const Box& box, Visit visit) {
  if (box.elements() == 0) return;
  const std::size_t D = shape.size();
  if (D == 0) {
    visit(std::int64_t{0}, std::int64_t{0}, std::int64_t{1});
    return;
  }
  Numbers at = box.low;
  const std::int64_t run = box.extent(D - 1), elements = box.elements();
  for (std::int64_t in_shard = 0; in_shard < elements; in_shard += run) {
    std::int64_t index = 0;
    for (std::size_t d = 0; d < D; ++d) index = index * shape[d] + at[d];
    visit(index, in_shard, run);
    for (std::size_t d = D - 1; d-- > 0;) {
      if (++at[d] < box.high[d]) break;
      at[d] = box.low[d];
    }
  }
}

std::int64_t product(const Numbers& numbers) {
  if (std::ranges::find(numbers, 0) != numbers.end()) return 0;
  std::int64_t result = 1;
  for (const std::int64_t n : numbers) result *= n;
  return result;
}

Numbers numbers(const TensorRef& tensor) {
  const auto values = tensor.flat<const std::int64_t>();
  return {values.begin(), values.end()};
}

std::vector<Numbers> lists(const TensorRef& values, const TensorRef& offsets) {
  const Numbers all = numbers(values), at = numbers(offsets);
  std::vector<Numbers> result;
  for (std::size_t d = 0; d + 1 < at.size(); ++d) result.emplace_back(all.begin() + at[d], all.begin() + at[d + 1]);
  return result;
}

Layout layout_of(const TensorRefMap& whole) {
  return {numbers(whole.at("shape")), numbers(whole.at("mesh")), lists(whole.at("src_axes"), whole.at("src_axes_offsets")), lists(whole.at("dst_axes"), whole.at("dst_axes_offsets")),
          whole.at("src_data").dtype};
}

void add_list(TensorMap& inputs, const std::string& name, const std::vector<Numbers>& lists) {
  Numbers values, offsets = {0};
  for (const Numbers& list : lists) {
    values.insert(values.end(), list.begin(), list.end());
    offsets.push_back(static_cast<std::int64_t>(values.size()));
  }
  inputs.add(name, Tensor::of({static_cast<std::int64_t>(values.size())}, values));
  inputs.add(name + "_offsets", Tensor::of({static_cast<std::int64_t>(offsets.size())}, offsets));
}

template <class Bits>
void fill_counters(std::byte* to, std::uint64_t first, std::int64_t count, int shift) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = static_cast<Bits>(((first + static_cast<std::uint64_t>(i)) * 0x9E3779B97F4A7C15u) >> shift);
    std::memcpy(to + i * static_cast<std::int64_t>(sizeof(Bits)), &bits, sizeof(Bits));
  }
}

}  // namespace

TensorMap whole_input(Random& random, const Layout& layout) {
  TensorMap inputs;
  inputs.add("shape", Tensor::of({static_cast<std::int64_t>(layout.shape.size())}, layout.shape));
  inputs.add("mesh", Tensor::of({static_cast<std::int64_t>(layout.mesh.size())}, layout.mesh));
  add_list(inputs, "src_axes", layout.source);
  add_list(inputs, "dst_axes", layout.target);
  const std::int64_t ranks = product(layout.mesh), element = size_of(layout.dtype);
  std::vector<Box> boxes;
  Numbers offsets = {0};
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    boxes.push_back(box_of(layout.shape, layout.mesh, layout.source, rank));
    offsets.push_back(offsets.back() + boxes.back().elements());
  }
  const std::uint64_t base = random.u64();
  Tensor& data = inputs.add("src_data", Tensor(layout.dtype, {offsets.back()}));
  for (std::size_t rank = 0; rank < boxes.size(); ++rank) {
    std::byte* const shard = data.data() + offsets[rank] * element;
    for_rows(layout.shape, boxes[rank], [&](std::int64_t index, std::int64_t in_shard, std::int64_t run) {
      std::byte* const to = shard + in_shard * element;
      const std::uint64_t first = base + static_cast<std::uint64_t>(index);
      if (layout.dtype == Dtype::bool_) fill_counters<std::uint8_t>(to, first, run, 63);
      else if (element == 1) fill_counters<std::uint8_t>(to, first, run, 56);
      else if (element == 2) fill_counters<std::uint16_t>(to, first, run, 48);
      else if (element == 4) fill_counters<std::uint32_t>(to, first, run, 32);
      else fill_counters<std::uint64_t>(to, first, run, 0);
    });
  }
  inputs.add("src_offsets", Tensor::of({static_cast<std::int64_t>(offsets.size())}, offsets));
  return inputs;
}

GateResult check_all_ranks(const TensorRefMap& whole, const std::vector<TensorMap>& outputs) {
  const Layout layout = layout_of(whole);
  const std::int64_t element = size_of(layout.dtype);
  const Numbers offsets = numbers(whole.at("src_offsets"));
  const TensorRef& source = whole.at("src_data");
  Tensor global(layout.dtype, {product(layout.shape)});
  for (std::size_t rank = 0; rank + 1 < offsets.size(); ++rank) {
    const std::byte* const shard = source.data + offsets[rank] * element;
    for_rows(layout.shape, box_of(layout.shape, layout.mesh, layout.source, static_cast<std::int64_t>(rank)), [&](std::int64_t index, std::int64_t in_shard, std::int64_t run) {
      std::memcpy(global.data() + index * element, shard + in_shard * element, static_cast<std::size_t>(run * element));
    });
  }
  for (std::size_t rank = 0; rank + 1 < offsets.size(); ++rank) {
    const Tensor* const out = rank < outputs.size() ? outputs[rank].find("dst_data") : nullptr;
    if (!out) return Mismatch{"dst_data", {}, "", "", 0, "output of rank " + std::to_string(rank) + " is missing"};
    const Box box = box_of(layout.shape, layout.mesh, layout.target, static_cast<std::int64_t>(rank));
    if (auto bad = same_form("dst_data", out->ref(), TensorRef{layout.dtype, {box.elements()}, nullptr})) {
      bad->what += (bad->what.empty() ? "on rank " : ", on rank ") + std::to_string(rank);
      return bad;
    }
    GateResult wrong;
    for_rows(layout.shape, box, [&](std::int64_t index, std::int64_t in_shard, std::int64_t run) {
      if (wrong || std::memcmp(out->data() + in_shard * element, global.data() + index * element, static_cast<std::size_t>(run * element)) == 0) return;
      std::int64_t i = 0;
      while (std::memcmp(out->data() + (in_shard + i) * element, global.data() + (index + i) * element, static_cast<std::size_t>(element)) == 0) ++i;
      wrong = Mismatch{"dst_data", {in_shard + i}, element_text(out->ref(), in_shard + i), element_text(global.ref(), index + i), 0, "on rank " + std::to_string(rank)};
    });
    if (wrong) return wrong;
  }
  return std::nullopt;
}

Floor wire_floor(const TensorMap& whole, int ranks) {
  const Layout layout = layout_of(refs(whole));
  std::int64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const Box has = box_of(layout.shape, layout.mesh, layout.source, rank), wants = box_of(layout.shape, layout.mesh, layout.target, rank);
    if (wants.elements() == 0) continue;
    std::int64_t overlap = 1;
    for (std::size_t d = 0; d < layout.shape.size(); ++d) overlap *= std::max<std::int64_t>(0, std::min(has.high[d], wants.high[d]) - std::max(has.low[d], wants.low[d]));
    most = std::max(most, wants.elements() - overlap);
  }
  return {static_cast<double>(most * size_of(layout.dtype)), 0};
}

}  // namespace faibench::all2all_tensor_redistribute
