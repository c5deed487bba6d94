// One launch for all shards. The host intersects boxes: per dim the few source pieces that a target piece meets, their combinations, each a copy of regular runs, dims
// that are whole on both sides merged. The copies' units, of the widest access (1 to 16 bytes) that fits all of a copy's places, are numbered through; a warp takes
// 128 of them at a time, 4 a lane, finds the copy of the first by bisection and walks on from there, so that one long copy and thousands of single elements take the
// same code. A lane loads its four units before it stores any.
// Bound: 2 numel(dst) s bytes. Expected on sm_80 and sm_90:
//   copy_units  80 to 85 % of the memory's bandwidth at the size of the workload (512 copies in runs of 2 KiB): 64 bytes under way a lane, 70 registers, so 768
//               threads and 48 KiB a multiprocessor; a division or two a unit, a third of the issue slots. The plan, its 120 KB and waiting for them take 0.15 ms of
//               about 3.
//   the search  64 launches; P/2 boxes of D intervals an element, from the L1 cache: 50 to 100 times slower.
#include <algorithm>
#include <array>
#include <vector>

#include "collectives/all2all_tensor_redistribute/device.h"
#include "cuda/kernel.h"
#include "cuda/runtime.h"

namespace faibench::all2all_tensor_redistribute {
namespace {

using Size = std::int64_t;
using Numbers = View<const Size, 1>;
using faibench::cuda::launch;
using faibench::cuda::Workspace;

constexpr int most_dims = 8, threads = 256;

unsigned blocks_for(Size count, Size each) { return static_cast<unsigned>(std::min<Size>((count + each - 1) / each, 8 * faibench::cuda::multiprocessors())); }

/// Puts a host array into device memory, and waits: a copy from pageable memory need not keep its place among the stream's work.
template <class T>
void upload(T* to, const std::vector<T>& values) {
  faibench::cuda::copy(to, values.data(), values.size() * sizeof(T), faibench::cuda::current_stream());
  faibench::cuda::synchronize(faibench::cuda::current_stream());
}
template <class T>
Workspace on_device(const std::vector<T>& values) {
  Workspace memory(values.size() * sizeof(T));
  upload(memory.data<T>(), values);
  return memory;
}

struct Interval {
  Size low, high;
};
/// Piece i of n of an interval.
Interval piece_of(Interval whole, Size n, Size i) {
  const Size length = whole.high - whole.low, chunk = length / n + (length % n != 0);
  const auto end = [&](Size pieces) { return chunk == 0 || pieces > length / chunk ? whole.high : whole.low + pieces * chunk; };  // the product may not fit
  return {end(i), end(i + 1)};
}

// ---- cuda_baseline ----

struct Box {
  Size low[most_dims], high[most_dims], start;  ///< start: of its shard among the data
};

Size elements_of(const Box& box, Size D) {
  Size count = 1;
  for (Size d = 0; d < D; ++d) count = box.high[d] == box.low[d] || count == 0 ? 0 : count * (box.high[d] - box.low[d]);
  return count;
}

std::vector<Box> boxes_of_ranks(Numbers shape, Numbers mesh, Numbers axes, Numbers axes_offsets) {
  Size P = 1;
  for (Size a = 0; a < mesh.size(); ++a) P *= mesh[a];
  std::vector<Box> boxes(static_cast<std::size_t>(P));
  for (Size rank = 0; rank < P; ++rank)
    for (Size d = 0; d < shape.size(); ++d) {
      Interval part{0, shape[d]};
      for (Size k = axes_offsets[d]; k < axes_offsets[d + 1]; ++k) {
        Size behind = 1;
        for (Size a = axes[k] + 1; a < mesh.size(); ++a) behind *= mesh[a];
        part = piece_of(part, mesh[axes[k]], rank / behind % mesh[axes[k]]);
      }
      boxes[static_cast<std::size_t>(rank)].low[d] = part.low;
      boxes[static_cast<std::size_t>(rank)].high[d] = part.high;
    }
  return boxes;
}

/// Each element of the target box looks for the first source box that holds it.
template <class T>
__global__ void __launch_bounds__(threads) search(const T* src, const Box* sources, Size D, Box target, Size elements, T* dst) {
  for (Size e = Size{blockIdx.x} * blockDim.x + threadIdx.x; e < elements; e += Size{gridDim.x} * blockDim.x) {
    Size at[most_dims], rest = e;
    for (Size d = D - 1; d >= 0; --d) {
      const Size extent = target.high[d] - target.low[d];
      at[d] = target.low[d] + rest % extent;
      rest /= extent;
    }
    for (const Box* box = sources;; ++box) {
      Size d = 0;
      while (d < D && box->low[d] <= at[d] && at[d] < box->high[d]) ++d;
      if (d < D) continue;
      Size index = 0;
      for (d = 0; d < D; ++d) index = index * (box->high[d] - box->low[d]) + at[d] - box->low[d];
      dst[target.start + e] = src[box->start + index];
      break;
    }
  }
}

template <class T>
void search_all(const void* src, const std::vector<Box>& sources, const std::vector<Box>& targets, Size D, void* dst) {
  const Workspace boxes = on_device(sources);
  for (const Box& target : targets)
    if (const Size elements = elements_of(target, D); elements > 0)
      launch("search", search<T>, {blocks_for(elements, threads), static_cast<unsigned>(std::min<Size>((elements + 31) / 32 * 32, threads))}, static_cast<const T*>(src),
             static_cast<const Box*>(boxes.data<Box>()), D, target, elements, static_cast<T*>(dst));
}

// ---- cuda ----

/// Units at regular places, all numbers in bytes but `run` and `count`: runs of units side by side, in loops, innermost first.
struct Copy {
  Size first_unit, from, to, run;
  int width, loops;
  Size count[most_dims], from_stride[most_dims], to_stride[most_dims];
};

__device__ Size quotient(Size a, Size b) { return ((a | b) >> 32) == 0 ? static_cast<Size>(static_cast<unsigned>(a) / static_cast<unsigned>(b)) : a / b; }

__device__ uint4 load(const unsigned char* at, int width) {
  if (width == 16) return *reinterpret_cast<const uint4*>(at);
  uint4 unit = make_uint4(0, 0, 0, 0);
  if (width == 8) {
    const uint2 two = *reinterpret_cast<const uint2*>(at);
    unit.x = two.x;
    unit.y = two.y;
  } else {
    unit.x = width == 4 ? *reinterpret_cast<const unsigned*>(at) : width == 2 ? *reinterpret_cast<const unsigned short*>(at) : *at;
  }
  return unit;
}
__device__ void store(unsigned char* at, int width, const uint4& unit) {
  if (width == 16) *reinterpret_cast<uint4*>(at) = unit;
  else if (width == 8) *reinterpret_cast<uint2*>(at) = make_uint2(unit.x, unit.y);
  else if (width == 4) *reinterpret_cast<unsigned*>(at) = unit.x;
  else if (width == 2) *reinterpret_cast<unsigned short*>(at) = static_cast<unsigned short>(unit.x);
  else *at = static_cast<unsigned char>(unit.x);
}

constexpr int units_of_lane = 4, units_of_warp = 32 * units_of_lane;

__global__ void __launch_bounds__(threads) copy_units(const Copy* copies, Size count, Size units, const unsigned char* src, unsigned char* dst) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Size warp = (Size{blockIdx.x} * threads + threadIdx.x) / 32, warps = Size{gridDim.x} * (threads / 32);
  for (Size base = warp * units_of_warp; base < units; base += warps * units_of_warp) {
    Size c = 0;  // the last copy whose first unit is `base` or before
    for (Size high = count; c + 1 < high;) {
      const Size middle = (c + high) / 2;
      if (copies[middle].first_unit <= base) c = middle;
      else high = middle;
    }
    uint4 taken[units_of_lane];
    unsigned char* places[units_of_lane];
    int widths[units_of_lane];
#pragma unroll
    for (int n = 0; n < units_of_lane; ++n) {
      const Size unit = base + 32 * n + lane;
      widths[n] = 0;
      if (unit >= units) continue;
      while (c + 1 < count && copies[c + 1].first_unit <= unit) ++c;
      const Copy& copy = copies[c];
      Size inside = unit - copy.first_unit, rest = quotient(inside, copy.run);
      inside -= rest * copy.run;
      Size from = copy.from + inside * copy.width, to = copy.to + inside * copy.width;
      for (int l = 0; l < copy.loops; ++l) {
        const Size turns = quotient(rest, copy.count[l]), turn = rest - turns * copy.count[l];
        from += turn * copy.from_stride[l];
        to += turn * copy.to_stride[l];
        rest = turns;
      }
      taken[n] = load(src + from, copy.width);
      places[n] = dst + to;
      widths[n] = copy.width;
    }
#pragma unroll
    for (int n = 0; n < units_of_lane; ++n)
      if (widths[n] > 0) store(places[n], widths[n], taken[n]);
  }
}

/// Part of a dim that some ranks hold, never empty; `ranks`: what it adds to their number.
struct Piece {
  Size low, high, ranks;
};

/// A sharding as pieces per dim: a rank's box is one piece of each.
struct Sharding {
  std::array<std::vector<Piece>, most_dims> pieces;
  std::array<bool, most_dims> used{};     ///< mesh axes that shard some dim
  std::array<Size, most_dims> behind{};   ///< ranks from one coordinate of a mesh axis to the next

  Sharding(Numbers shape, Numbers mesh, Numbers axes, Numbers axes_offsets) {
    Size ranks = 1;
    for (Size a = mesh.size() - 1; a >= 0; --a) {
      behind[static_cast<std::size_t>(a)] = ranks;
      ranks *= mesh[a];
    }
    for (Size d = 0; d < shape.size(); ++d) {
      std::vector<Piece> parts = {{0, shape[d], 0}};
      for (Size k = axes_offsets[d]; k < axes_offsets[d + 1]; ++k) {
        const auto axis = static_cast<std::size_t>(axes[k]);
        used[axis] = true;
        std::vector<Piece> finer;
        for (const Piece& part : parts)
          for (Size i = 0; i < mesh[axes[k]]; ++i) {
            const auto [low, high] = piece_of({part.low, part.high}, mesh[axes[k]], i);
            finer.push_back({low, high, part.ranks + i * behind[axis]});
          }
        parts = std::move(finer);
      }
      pieces[static_cast<std::size_t>(d)] = std::move(parts);
    }
  }
  /// Index in pieces[d] of a rank's piece.
  [[nodiscard]] static std::size_t piece(Numbers mesh, Numbers axes, Numbers axes_offsets, const std::array<Size, most_dims>& behind, Size d, Size rank) {
    std::size_t index = 0;
    for (Size k = axes_offsets[d]; k < axes_offsets[d + 1]; ++k)
      index = index * static_cast<std::size_t>(mesh[axes[k]]) +
              static_cast<std::size_t>(rank / behind[static_cast<std::size_t>(axes[k])] % mesh[axes[k]]);
    return index;
  }
};

/// Takes the dims of an intersection from the last to the first.
class CopyOfBox {
 public:
  explicit CopyOfBox(Size element) : from_stride_(element), to_stride_(element), run_bytes_(element) {}
  /// `extent` at `from_low` of `from_extent`, to `to_low` of `to_extent`.
  void add_dim(Size extent, Size from_low, Size from_extent, Size to_low, Size to_extent) {
    copy_.from += from_low * from_stride_;
    copy_.to += to_low * to_stride_;
    if (extent > 1 && copy_.loops == 0 && from_stride_ == run_bytes_ && to_stride_ == run_bytes_) {
      run_bytes_ *= extent;
    } else if (extent > 1) {
      copy_.count[copy_.loops] = extent;
      copy_.from_stride[copy_.loops] = from_stride_;
      copy_.to_stride[copy_.loops++] = to_stride_;
    }
    from_stride_ *= from_extent;
    to_stride_ *= to_extent;
  }
  /// From byte `from` of memory at `src` on, to byte `to` of `dst`; units are numbered from `first_unit` on, which is moved past them.
  Copy finish(const void* src, Size from, const void* dst, Size to, Size* first_unit) {
    copy_.from += from;
    copy_.to += to;
    const auto number = [](const void* at) { return static_cast<Size>(reinterpret_cast<std::uintptr_t>(at) % 16); };
    Size places = (number(src) + copy_.from) | (number(dst) + copy_.to) | run_bytes_;
    for (int l = 0; l < copy_.loops; ++l) places |= copy_.from_stride[l] | copy_.to_stride[l];
    copy_.width = 16;
    while (places % copy_.width != 0) copy_.width /= 2;
    copy_.run = run_bytes_ / copy_.width;
    copy_.first_unit = *first_unit;
    Size units = copy_.run;
    for (int l = 0; l < copy_.loops; ++l) units *= copy_.count[l];
    *first_unit += units;
    return copy_;
  }

 private:
  Copy copy_{};
  Size from_stride_, to_stride_, run_bytes_;
};

}  // namespace

std::optional<WrongSize> cuda_baseline::redistribute(Numbers shape, Numbers mesh, Numbers src_axes, Numbers src_axes_offsets, Numbers dst_axes,
                                                     Numbers dst_axes_offsets, const void* src_data, Numbers src_offsets, void* dst_data,
                                                     Size* dst_offsets, Size element) {
  std::vector<Box> sources = boxes_of_ranks(shape, mesh, src_axes, src_axes_offsets), targets = boxes_of_ranks(shape, mesh, dst_axes, dst_axes_offsets);
  const Size D = shape.size();
  for (std::size_t r = 0; r < sources.size(); ++r) {
    const auto rank = static_cast<Size>(r);
    const Size held = src_offsets[rank + 1] - src_offsets[rank], wanted = elements_of(sources[r], D);
    if (held != wanted) return WrongSize{rank, held, wanted};
    sources[r].start = src_offsets[rank];
  }
  std::vector<Size> offsets = {0};
  for (Box& target : targets) {
    target.start = offsets.back();
    offsets.push_back(offsets.back() + elements_of(target, D));
  }
  upload(dst_offsets, offsets);
  if (element == 1) search_all<unsigned char>(src_data, sources, targets, D, dst_data);
  if (element == 2) search_all<unsigned short>(src_data, sources, targets, D, dst_data);
  if (element == 4) search_all<unsigned>(src_data, sources, targets, D, dst_data);
  if (element == 8) search_all<unsigned long long>(src_data, sources, targets, D, dst_data);
  return std::nullopt;
}

std::optional<WrongSize> cuda::redistribute(Numbers shape, Numbers mesh, Numbers src_axes, Numbers src_axes_offsets, Numbers dst_axes,
                                            Numbers dst_axes_offsets, const void* src_data, Numbers src_offsets, void* dst_data, Size* dst_offsets,
                                            Size element) {
  const Size D = shape.size(), P = src_offsets.size() - 1;
  const Sharding source(shape, mesh, src_axes, src_axes_offsets), target(shape, mesh, dst_axes, dst_axes_offsets);
  const auto dim = [](Size d) { return static_cast<std::size_t>(d); };
  const auto size_of_box = [&](const Sharding& of, Numbers axes, Numbers axes_offsets, Size rank) {
    Size count = 1;
    for (Size d = 0; d < D; ++d) {
      const Piece& piece = of.pieces[dim(d)][Sharding::piece(mesh, axes, axes_offsets, of.behind, d, rank)];
      count = piece.high == piece.low || count == 0 ? 0 : count * (piece.high - piece.low);
    }
    return count;
  };
  for (Size r = 0; r < P; ++r)
    if (const Size held = src_offsets[r + 1] - src_offsets[r], wanted = size_of_box(source, src_axes, src_axes_offsets, r); held != wanted)
      return WrongSize{r, held, wanted};
  std::vector<Size> offsets(static_cast<std::size_t>(P + 1));
  for (Size r = 0; r < P; ++r) offsets[static_cast<std::size_t>(r + 1)] = offsets[static_cast<std::size_t>(r)] + size_of_box(target, dst_axes, dst_axes_offsets, r);

  // Source pieces that hold something, in ascending order.
  std::array<std::vector<Piece>, most_dims> held;
  for (Size d = 0; d < D; ++d)
    for (const Piece& piece : source.pieces[dim(d)])
      if (piece.low < piece.high) held[dim(d)].push_back(piece);
  std::vector<Copy> copies;
  Size units = 0;
  for (Size q = 0; q < P; ++q) {
    if (offsets[static_cast<std::size_t>(q)] == offsets[static_cast<std::size_t>(q + 1)]) continue;
    std::array<Piece, most_dims> wanted;
    std::array<std::size_t, most_dims> first, now;
    for (Size d = 0; d < D; ++d) {
      wanted[dim(d)] = target.pieces[dim(d)][Sharding::piece(mesh, dst_axes, dst_axes_offsets, target.behind, d, q)];
      const auto& all = held[dim(d)];
      first[dim(d)] = now[dim(d)] = static_cast<std::size_t>(std::ranges::upper_bound(all, wanted[dim(d)].low, {}, &Piece::high) - all.begin());
    }
    Size nearest = 0;  // of ranks with equal shards, the one with the coordinates of the target
    for (Size a = 0; a < mesh.size(); ++a)
      if (!source.used[dim(a)]) nearest += q / source.behind[dim(a)] % mesh[a] * source.behind[dim(a)];
    for (Size d = 0; d >= 0;) {
      Size from = nearest;
      CopyOfBox copy(element);
      for (d = D - 1; d >= 0; --d) {
        const Piece &piece = held[dim(d)][now[dim(d)]], &want = wanted[dim(d)];
        const Size low = std::max(piece.low, want.low), high = std::min(piece.high, want.high);
        copy.add_dim(high - low, low - piece.low, piece.high - piece.low, low - want.low, want.high - want.low);
        from += piece.ranks;
      }
      copies.push_back(copy.finish(src_data, src_offsets[from] * element, dst_data, offsets[static_cast<std::size_t>(q)] * element, &units));
      for (d = D - 1; d >= 0; --d) {  // the next combination
        if (++now[dim(d)] < held[dim(d)].size() && held[dim(d)][now[dim(d)]].low < wanted[dim(d)].high) break;
        now[dim(d)] = first[dim(d)];
      }
    }
  }
  upload(dst_offsets, offsets);
  if (units == 0) return std::nullopt;
  const Workspace plan = on_device(copies);
  launch("copy_units", copy_units, {blocks_for(units, units_of_warp * (threads / 32)), threads}, static_cast<const Copy*>(plan.data<Copy>()),
         static_cast<Size>(copies.size()), units, static_cast<const unsigned char*>(src_data), static_cast<unsigned char*>(dst_data));
  return std::nullopt;
}

}  // namespace faibench::all2all_tensor_redistribute
