#include "collectives/all2all_tensor_redistribute/layout.h"

#include <algorithm>
#include <string>

namespace faibench::all2all_tensor_redistribute {
namespace {

using Numbers = std::vector<std::int64_t>;
using Lists = std::vector<Numbers>;

void add_lists(TensorMap& inputs, const std::string& name, const Lists& lists) {
  Numbers values, offsets = {0};
  for (const Numbers& list : lists) {
    values.insert(values.end(), list.begin(), list.end());
    offsets.push_back(static_cast<std::int64_t>(values.size()));
  }
  inputs.add(name, Tensor::of({static_cast<std::int64_t>(values.size())}, values));
  inputs.add(name + "_offsets", Tensor::of({static_cast<std::int64_t>(offsets.size())}, offsets));
}

Numbers numbers(const TensorRef& tensor) {
  const auto values = tensor.flat<const std::int64_t>();
  return {values.begin(), values.end()};
}

Lists lists(const TensorRef& values, const TensorRef& offsets) {
  const Numbers all = numbers(values), at = numbers(offsets);
  Lists result;
  for (std::size_t d = 0; d + 1 < at.size(); ++d) result.emplace_back(all.begin() + at[d], all.begin() + at[d + 1]);
  return result;
}

/// What is left of [low, high) for piece i of n. In quotients: extents up to 2^63 - 1 occur where another dim is empty.
void split(std::int64_t& low, std::int64_t& high, std::int64_t i, std::int64_t n) {
  const std::int64_t length = high - low, chunk = length / n + (length % n != 0 ? 1 : 0), start = low;
  const auto cut = [&](std::int64_t pieces) { return chunk == 0 || pieces > length / chunk ? start + length : start + pieces * chunk; };
  low = cut(i);
  high = cut(i + 1);
}

}  // namespace

std::int64_t Layout::ranks() const {
  std::int64_t product = 1;
  for (const std::int64_t n : mesh) product *= n;
  return product;
}

std::int64_t Box::elements() const {
  for (std::size_t d = 0; d < dims; ++d)
    if (extent(d) == 0) return 0;  // first: the others may be huge
  std::int64_t count = 1;
  for (std::size_t d = 0; d < dims; ++d) count *= extent(d);
  return count;
}

Box box_of(const Layout& layout, const Lists& axes, std::int64_t rank) {
  std::array<std::int64_t, 8> coordinate{};
  for (std::size_t a = layout.mesh.size(); a-- > 0; rank /= layout.mesh[a]) coordinate[a] = rank % layout.mesh[a];
  Box box;
  box.dims = layout.shape.size();
  std::ranges::copy(layout.shape, box.high.begin());
  for (std::size_t d = 0; d < box.dims; ++d)
    for (const std::int64_t axis : axes[d]) split(box.low[d], box.high[d], coordinate[static_cast<std::size_t>(axis)], layout.mesh[static_cast<std::size_t>(axis)]);
  return box;
}

void add_layout(TensorMap& inputs, const Layout& layout) {
  inputs.add("shape", Tensor::of({static_cast<std::int64_t>(layout.shape.size())}, layout.shape));
  inputs.add("mesh", Tensor::of({static_cast<std::int64_t>(layout.mesh.size())}, layout.mesh));
  add_lists(inputs, "src_axes", layout.source);
  add_lists(inputs, "dst_axes", layout.target);
}

Layout layout_of(const TensorRefMap& inputs) {
  return {numbers(inputs.at("shape")), numbers(inputs.at("mesh")), lists(inputs.at("src_axes"), inputs.at("src_axes_offsets")), lists(inputs.at("dst_axes"), inputs.at("dst_axes_offsets")),
          inputs.at("src_data").dtype};
}

}  // namespace faibench::all2all_tensor_redistribute
