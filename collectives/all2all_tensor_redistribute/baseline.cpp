// For every target element, its coordinate, and the source ranks tried one after another until one's box holds it.
#include <algorithm>
#include <vector>

#include "collectives/all2all_tensor_redistribute/all2all_tensor_redistribute.h"

namespace faibench::all2all_tensor_redistribute {
namespace {

struct Box {
  std::vector<std::int64_t> low, high;
  std::int64_t elements() const {
    for (std::size_t d = 0; d < low.size(); ++d)
      if (low[d] == high[d]) return 0;
    std::int64_t count = 1;
    for (std::size_t d = 0; d < low.size(); ++d) count *= high[d] - low[d];
    return count;
  }
};

std::vector<Box> boxes_of_ranks(View<const std::int64_t, 1> shape, View<const std::int64_t, 1> mesh, View<const std::int64_t, 1> axes, View<const std::int64_t, 1> axes_offsets) {
  const std::int64_t D = shape.size(), K = mesh.size();
  std::int64_t P = 1;
  for (std::int64_t n : mesh.flat()) P *= n;
  std::vector<Box> boxes;
  std::vector<std::int64_t> coordinate(static_cast<std::size_t>(K));
  for (std::int64_t rank = 0; rank < P; ++rank) {
    std::int64_t rest = rank;
    for (std::int64_t a = K - 1; a >= 0; --a) {
      coordinate[static_cast<std::size_t>(a)] = rest % mesh[a];
      rest /= mesh[a];
    }
    Box& box = boxes.emplace_back();
    for (std::int64_t d = 0; d < D; ++d) {
      std::int64_t low = 0, high = shape[d];
      for (std::int64_t k = axes_offsets[d]; k < axes_offsets[d + 1]; ++k) {
        const std::int64_t n = mesh[axes[k]], i = coordinate[static_cast<std::size_t>(axes[k])], length = high - low;
        const std::int64_t chunk = length / n + (length % n != 0);
        const auto end_of = [&](std::int64_t pieces) { return chunk == 0 || pieces > length / chunk ? low + length : low + pieces * chunk; };  // pieces * chunk may not fit
        const std::int64_t begin = i == 0 ? low : end_of(i), end = end_of(i + 1);
        low = begin;
        high = end;
      }
      box.low.push_back(low);
      box.high.push_back(high);
    }
  }
  return boxes;
}

}  // namespace

template <class T>
Rejected baseline::redistribute(View<const std::int64_t, 1> shape, View<const std::int64_t, 1> mesh, View<const std::int64_t, 1> src_axes, View<const std::int64_t, 1> src_axes_offsets,
                                View<const std::int64_t, 1> dst_axes, View<const std::int64_t, 1> dst_axes_offsets, View<const T, 1> src_data, View<const std::int64_t, 1> src_offsets, View<T, 1> dst_data,
                                View<std::int64_t, 1> dst_offsets) {
  const std::vector<Box> source = boxes_of_ranks(shape, mesh, src_axes, src_axes_offsets), target = boxes_of_ranks(shape, mesh, dst_axes, dst_axes_offsets);
  for (std::size_t r = 0; r < source.size(); ++r) {
    const auto k = static_cast<std::int64_t>(r);
    const std::int64_t size = src_offsets[k + 1] - src_offsets[k];
    if (size != source[r].elements())
      return reject("shard_size_mismatch", "src_offsets", k + 1, std::to_string(src_offsets[k + 1]), "shard " + std::to_string(r) + " is of " + std::to_string(size) + " elements instead of " + std::to_string(source[r].elements()));
  }
  const std::size_t D = static_cast<std::size_t>(shape.size());
  std::vector<std::int64_t> at(D);
  std::int64_t out = 0;
  dst_offsets[0] = 0;
  for (std::size_t q = 0; q < target.size(); ++q) {
    const Box& box = target[q];
    at = box.low;
    for (std::int64_t left = box.elements(); left > 0; --left) {
      for (std::size_t p = 0;; ++p) {
        const Box& candidate = source[p];
        std::size_t d = 0;
        while (d < D && candidate.low[d] <= at[d] && at[d] < candidate.high[d]) ++d;
        if (d < D) continue;
        std::int64_t index = 0;
        for (d = 0; d < D; ++d) index = index * (candidate.high[d] - candidate.low[d]) + at[d] - candidate.low[d];
        dst_data[out++] = src_data[src_offsets[static_cast<std::int64_t>(p)] + index];
        break;
      }
      for (std::size_t d = D; d-- > 0;) {
        if (++at[d] < box.high[d]) break;
        at[d] = box.low[d];
      }
    }
    dst_offsets[static_cast<std::int64_t>(q) + 1] = out;
  }
  return std::nullopt;
}

template Redistribute<f16> baseline::redistribute<f16>;
template Redistribute<bf16> baseline::redistribute<bf16>;
template Redistribute<float> baseline::redistribute<float>;
template Redistribute<double> baseline::redistribute<double>;
template Redistribute<std::int8_t> baseline::redistribute<std::int8_t>;
template Redistribute<std::uint8_t> baseline::redistribute<std::uint8_t>;
template Redistribute<std::int16_t> baseline::redistribute<std::int16_t>;
template Redistribute<std::int32_t> baseline::redistribute<std::int32_t>;
template Redistribute<std::uint32_t> baseline::redistribute<std::uint32_t>;
template Redistribute<std::int64_t> baseline::redistribute<std::int64_t>;
template Redistribute<std::uint64_t> baseline::redistribute<std::uint64_t>;
template Redistribute<Bool8> baseline::redistribute<Bool8>;

}  // namespace faibench::all2all_tensor_redistribute
