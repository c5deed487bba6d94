// A tensor cut over a mesh, straight from the contract's definition of a box: what inputs are made from and outputs are checked by. No code of the variants.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "task/task.h"

namespace faibench::all2all_tensor_redistribute {

/// What an input is made of. Axes: a list a dim, major first. At most 8 dims and 8 mesh axes; valid by the contract's rules.
struct Layout {
  std::vector<std::int64_t> shape, mesh;
  std::vector<std::vector<std::int64_t>> source, target;
  Dtype dtype = Dtype::f32;

  /// Product of the mesh.
  [[nodiscard]] std::int64_t ranks() const;
};

/// A rank's part of the global tensor: [low, high) of each dim.
struct Box {
  std::size_t dims = 0;
  std::array<std::int64_t, 8> low{}, high{};
  [[nodiscard]] std::int64_t extent(std::size_t d) const { return high[d] - low[d]; }
  /// 0 where any extent is 0, 1 without dims.
  [[nodiscard]] std::int64_t elements() const;
};
/// Of `rank` under `axes`, which is layout.source or layout.target. O(D + K).
Box box_of(const Layout& layout, const std::vector<std::vector<std::int64_t>>& axes, std::int64_t rank);

/// Calls visit(row-major index in the global tensor, index in the shard, elements) for every row of the box, in the shard's order.
template <class Visit>
void for_rows(const Layout& layout, const Box& box, Visit visit) {
  const std::int64_t elements = box.elements();
  if (elements == 0) return;
  if (box.dims == 0) {
    visit(std::int64_t{0}, std::int64_t{0}, std::int64_t{1});
    return;
  }
  const std::size_t last = box.dims - 1;
  const std::int64_t run = box.extent(last);
  auto at = box.low;
  for (std::int64_t in_shard = 0; in_shard < elements; in_shard += run) {
    std::int64_t index = 0;
    for (std::size_t d = 0; d < box.dims; ++d) index = index * layout.shape[d] + at[d];
    visit(index, in_shard, run);
    for (std::size_t d = last; d-- > 0;) {
      if (++at[d] < box.high[d]) break;
      at[d] = box.low[d];
    }
  }
}

/// The tensors shape, mesh, src_axes, src_axes_offsets, dst_axes and dst_axes_offsets; and back from them, the type from src_data.
void add_layout(TensorMap& inputs, const Layout& layout);
Layout layout_of(const TensorRefMap& inputs);

}  // namespace faibench::all2all_tensor_redistribute
