// The definition: the global tensor is put together from the source shards, element by element, and every rank's box is read out of it.
#include <algorithm>
#include <vector>

#include "collectives/all2all_tensor_redistribute/all2all_tensor_redistribute.h"

namespace faibench::all2all_tensor_redistribute {
namespace {

using Numbers = View<const std::int64_t, 1>;

struct Interval {
  std::uint64_t low, high;  // unsigned: beside a zero extent the others may be anything up to 2^63-1, and (i+1)*c goes past that
};

std::vector<Interval> box_of(std::int64_t rank, Numbers shape, Numbers mesh, Numbers axes, Numbers axes_offsets) {
  std::vector<std::int64_t> coordinate(static_cast<std::size_t>(mesh.size()));
  for (std::int64_t a = mesh.size() - 1; a >= 0; --a) {
    coordinate[static_cast<std::size_t>(a)] = rank % mesh[a];
    rank /= mesh[a];
  }
  std::vector<Interval> box;
  for (std::int64_t d = 0; d < shape.size(); ++d) {
    std::uint64_t lo = 0, hi = static_cast<std::uint64_t>(shape[d]);
    for (std::int64_t k = axes_offsets[d]; k < axes_offsets[d + 1]; ++k) {
      const auto n = static_cast<std::uint64_t>(mesh[axes[k]]), i = static_cast<std::uint64_t>(coordinate[static_cast<std::size_t>(axes[k])]);
      const std::uint64_t c = (hi - lo + n - 1) / n, old_lo = lo, old_hi = hi;
      lo = std::min(old_lo + i * c, old_hi);
      hi = std::min(old_lo + (i + 1) * c, old_hi);
    }
    box.push_back({lo, hi});
  }
  return box;
}

std::int64_t size_of_box(const std::vector<Interval>& box) {
  std::uint64_t size = 1;
  for (const Interval& interval : box)
    if (interval.low == interval.high) return 0;
  for (const Interval& interval : box) size *= interval.high - interval.low;
  return static_cast<std::int64_t>(size);
}

/// The global index of each element of the box, in the box's row-major order.
template <class Visit>
void for_elements(const std::vector<Interval>& box, Numbers shape, std::size_t dim, std::uint64_t index, Visit& visit) {
  if (dim == box.size()) return visit(static_cast<std::size_t>(index));
  for (std::uint64_t i = box[dim].low; i < box[dim].high; ++i) for_elements(box, shape, dim + 1, index * static_cast<std::uint64_t>(shape[static_cast<std::int64_t>(dim)]) + i, visit);
}

}  // namespace

template <class T>
Rejected reference::redistribute(Numbers shape, Numbers mesh, Numbers src_axes, Numbers src_axes_offsets, Numbers dst_axes, Numbers dst_axes_offsets, View<const T, 1> src_data, Numbers src_offsets,
                                 View<T, 1> dst_data, View<std::int64_t, 1> dst_offsets) {
  const std::int64_t P = src_offsets.size() - 1;
  for (std::int64_t r = 0; r < P; ++r) {
    const std::int64_t wanted = size_of_box(box_of(r, shape, mesh, src_axes, src_axes_offsets));
    if (src_offsets[r + 1] - src_offsets[r] != wanted)
      return reject("shard_size_mismatch", "src_offsets", r + 1, std::to_string(src_offsets[r + 1]), "the box of rank " + std::to_string(r) + " has " + std::to_string(wanted) + " elements");
  }
  std::int64_t elements = 1;
  for (std::int64_t extent : shape.flat())
    if (extent == 0) elements = 0;
  for (std::int64_t extent : shape.flat())
    if (elements > 0) elements *= extent;
  std::vector<T> global(static_cast<std::size_t>(elements));
  std::int64_t next = 0;
  const auto put = [&](std::size_t index) { global[index] = src_data[next++]; };
  const auto get = [&](std::size_t index) { dst_data[next++] = global[index]; };
  for (std::int64_t r = 0; r < P && elements > 0; ++r) for_elements(box_of(r, shape, mesh, src_axes, src_axes_offsets), shape, 0, 0, put);
  next = 0;
  dst_offsets[0] = 0;
  for (std::int64_t r = 0; r < P; ++r) {
    if (elements > 0) for_elements(box_of(r, shape, mesh, dst_axes, dst_axes_offsets), shape, 0, 0, get);
    dst_offsets[r + 1] = next;
  }
  return std::nullopt;
}

template Redistribute<f16> reference::redistribute<f16>;
template Redistribute<bf16> reference::redistribute<bf16>;
template Redistribute<float> reference::redistribute<float>;
template Redistribute<double> reference::redistribute<double>;
template Redistribute<std::int8_t> reference::redistribute<std::int8_t>;
template Redistribute<std::uint8_t> reference::redistribute<std::uint8_t>;
template Redistribute<std::int16_t> reference::redistribute<std::int16_t>;
template Redistribute<std::int32_t> reference::redistribute<std::int32_t>;
template Redistribute<std::uint32_t> reference::redistribute<std::uint32_t>;
template Redistribute<std::int64_t> reference::redistribute<std::int64_t>;
template Redistribute<std::uint64_t> reference::redistribute<std::uint64_t>;
template Redistribute<Bool8> reference::redistribute<Bool8>;

}  // namespace faibench::all2all_tensor_redistribute
