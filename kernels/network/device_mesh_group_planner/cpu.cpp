// No search: member i along axis a is mesh_ids[p + (i - coordinate) * stride].
//  - Id to position: a dense table where the largest id is below 4N, else open addressing with at least two slots an id; building either finds duplicates. No table for ids 0 .. N-1 in
//    order, nor where few devices are asked (a rank that plans for itself asks for one): ascending ids are searched, others marked in a byte each for duplicates and scanned.
//  - Where an axis is asked often enough, the mesh is first laid out once with that axis last: each group is then one contiguous copy instead of a gather.
//  - Threads over queries: every query has its own fixed place in the output.
// Bound: the output, 8 Q (K + sum of mesh_shape) bytes written.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/network/device_mesh_group_planner/cpu.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include <omp.h>

#include "kernels/network/device_mesh_group_planner/device_mesh_group_planner.h"

#ifndef FAIBENCH_DEVICE_MESH_TRAITS
#define FAIBENCH_DEVICE_MESH_TRAITS
namespace faibench::device_mesh_group_planner {
struct Traits {
  std::int64_t largest;  ///< at least 0
  bool negative, ascending;
};
}  // namespace faibench::device_mesh_group_planner
#endif

HWY_BEFORE_NAMESPACE();
namespace faibench::device_mesh_group_planner::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<std::int64_t> d;

/// to[i] = from[i * stride], i < count.
void take_line(const std::int64_t* from, std::int64_t stride, std::int64_t count, std::int64_t* to) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  if (stride == 1) {
    for (; i + lanes <= count; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  } else {
    const auto index = hn::Mul(hn::Iota(d, 0), hn::Set(d, stride));
    for (; i + lanes <= count; i += lanes) hn::StoreU(hn::GatherIndex(d, from + i * stride, index), d, to + i);
  }
  for (; i < count; ++i) to[i] = from[i * stride];
}

/// The mesh with one axis last: line after line of `size` ids.
void lay_out(const std::int64_t* ids, std::int64_t N, std::int64_t size, std::int64_t stride, std::int64_t* lines) {
  for (std::int64_t outer = 0; outer < N; outer += size * stride)
    for (std::int64_t inner = 0; inner < stride; ++inner) take_line(ids + outer + inner, stride, size, lines + outer + inner * size);
}

/// Coordinates and lists of the device at position p. lines[a]: the mesh with axis a last, or null.
void write_device(const std::int64_t* ids, std::uint32_t p, std::int64_t K, const std::uint32_t* size, const std::uint32_t* stride, const std::int64_t* const* lines, std::int64_t* coords, std::int64_t* members) {
  for (std::int64_t a = 0; a < K; ++a) {
    const std::uint32_t above = p / stride[a], outer = above / size[a], coordinate = above - outer * size[a], inner = p - above * stride[a];
    const std::uint32_t first = outer * size[a] * stride[a];
    coords[a] = coordinate;
    if (lines[a]) take_line(lines[a] + first + inner * size[a], 1, size[a], members);
    else take_line(ids + first + inner, stride[a], size[a], members);
    members += size[a];
  }
}

Traits traits_of(const std::int64_t* ids, std::int64_t count) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto largest = hn::Zero(d), all = hn::Zero(d), rising = hn::Set(d, -1);
  std::int64_t i = 0;
  for (; i + lanes < count; i += lanes) {
    const auto v = hn::LoadU(d, ids + i);
    largest = hn::Max(largest, v);
    all = hn::Or(all, v);
    rising = hn::And(rising, hn::VecFromMask(d, hn::Lt(v, hn::LoadU(d, ids + i + 1))));
  }
  std::int64_t top[64], bits[64], up[64];
  hn::StoreU(largest, d, top);
  hn::StoreU(all, d, bits);
  hn::StoreU(rising, d, up);
  Traits traits{0, false, true};
  std::int64_t sign = 0;
  for (std::int64_t l = 0; l < lanes; ++l) {
    traits.largest = std::max(traits.largest, top[l]);
    sign |= bits[l];
    traits.ascending &= up[l] != 0;
  }
  for (; i < count; ++i) {
    traits.largest = std::max(traits.largest, ids[i]);
    sign |= ids[i];
    traits.ascending &= i + 1 == count || ids[i] < ids[i + 1];
  }
  traits.negative = sign < 0;
  return traits;
}

/// First position with that id, -1 if there is none.
std::int64_t scan(const std::int64_t* ids, std::int64_t count, std::int64_t id) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto wanted = hn::Set(d, id);
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto at = [&](std::int64_t k) { return hn::VecFromMask(d, hn::Eq(hn::LoadU(d, ids + i + k * lanes), wanted)); };
    if (!hn::AllFalse(d, hn::MaskFromVec(hn::Or(hn::Or(at(0), at(1)), hn::Or(at(2), at(3)))))) break;
  }
  for (; i < count; ++i)
    if (ids[i] == id) return i;
  return -1;
}

}  // namespace faibench::device_mesh_group_planner::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::device_mesh_group_planner {
HWY_EXPORT(lay_out);
HWY_EXPORT(write_device);
HWY_EXPORT(traits_of);
HWY_EXPORT(scan);

namespace cpu {
namespace {

constexpr std::int64_t shared_elements = 1 << 15;  // of output; below this a second thread costs more than it saves

constexpr std::int64_t few_devices = 4;

/// Position of each id. Built once a call; `duplicate` is the first position whose id stands earlier too, or -1.
class Positions {
 public:
  Positions(const std::int64_t* ids, std::int64_t N, const Traits& traits, std::int64_t asked) : ids_(ids), N_(N), largest_(traits.largest) {
    const bool dense = largest_ < 4 * N;
    if (traits.ascending && largest_ == N - 1) way_ = Way::identity;
    else if (traits.ascending && asked <= few_devices) way_ = Way::search;
    else if (dense && asked <= few_devices && all_differ()) way_ = Way::scan;
    else build_table(dense);
  }
  /// -1 if there is no such id.
  [[nodiscard]] std::int64_t find(std::int64_t id) const {
    if (id < 0 || id > largest_) return -1;
    switch (way_) {
      case Way::identity: return id;
      case Way::scan: return HWY_DYNAMIC_DISPATCH(scan)(ids_, N_, id);
      case Way::search: {
        const std::int64_t* const found = std::lower_bound(ids_, ids_ + N_, id);
        return *found == id ? found - ids_ : -1;
      }
      case Way::dense: return slots_[static_cast<std::size_t>(id)];
      case Way::hashed: return slots_[hashed_place(id)];
    }
    return -1;
  }
  std::int64_t duplicate = -1;

 private:
  enum class Way { identity, search, scan, dense, hashed };

  [[nodiscard]] bool all_differ() const {
    std::vector<std::uint8_t> seen(static_cast<std::size_t>(largest_) + 1);
    unsigned twice = 0;
    for (std::int64_t p = 0; p < N_; ++p) {
      twice |= seen[static_cast<std::size_t>(ids_[p])];
      seen[static_cast<std::size_t>(ids_[p])] = 1;
    }
    return twice == 0;
  }
  void build_table(bool dense) {
    way_ = dense ? Way::dense : Way::hashed;
    const std::size_t size = dense ? static_cast<std::size_t>(largest_) + 1 : std::bit_ceil(static_cast<std::size_t>(2 * N_));
    shift_ = 64 - std::countr_zero(size);
    mask_ = size - 1;
    slots_ = std::make_unique_for_overwrite<std::int32_t[]>(size);
    std::fill_n(slots_.get(), size, -1);
    for (std::int64_t p = 0; p < N_; ++p) {
      std::int32_t& slot = slots_[dense ? static_cast<std::size_t>(ids_[p]) : hashed_place(ids_[p])];
      if (slot >= 0) {
        duplicate = p;
        return;
      }
      slot = static_cast<std::int32_t>(p);
    }
  }
  /// Where the id stands, or the empty slot where it would.
  [[nodiscard]] std::size_t hashed_place(std::int64_t id) const {
    std::size_t at = (static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15u) >> shift_;
    while (slots_[at] >= 0 && ids_[slots_[at]] != id) at = (at + 1) & mask_;
    return at;
  }

  const std::int64_t* ids_;
  std::int64_t N_, largest_;
  Way way_ = Way::hashed;
  int shift_ = 0;
  std::size_t mask_ = 0;
  std::unique_ptr<std::int32_t[]> slots_;
};

}  // namespace

Rejected plan_groups(View<const std::int64_t, 1> mesh_shape, View<const std::int64_t, 1> mesh_ids, View<const std::int64_t, 1> devices, View<std::int64_t, 2> coords, View<std::int64_t, 1> members,
                     View<std::int64_t, 1> member_offsets) {
  const std::int64_t K = mesh_shape.extent(0), N = mesh_ids.extent(0), Q = devices.extent(0);
  const std::int64_t* const ids = mesh_ids.data();
  const Traits traits = HWY_DYNAMIC_DISPATCH(traits_of)(ids, N);
  if (traits.negative) {
    const std::int64_t p = std::find_if(ids, ids + N, [](std::int64_t id) { return id < 0; }) - ids;
    return reject("negative_id", "mesh_ids", p, std::to_string(ids[p]), "a device id is at least 0");
  }
  const Positions positions(ids, N, traits, Q);
  if (const std::int64_t p = positions.duplicate; p >= 0) return reject("duplicate_id", "mesh_ids", p, std::to_string(ids[p]), "the id stands at an earlier position too");
  const auto position = std::make_unique_for_overwrite<std::int32_t[]>(static_cast<std::size_t>(Q));
  for (std::int64_t q = 0; q < Q; ++q) {
    position[static_cast<std::size_t>(q)] = static_cast<std::int32_t>(positions.find(devices[q]));
    if (position[static_cast<std::size_t>(q)] < 0) return reject("unknown_device", "devices", q, std::to_string(devices[q]), "no position of the mesh has this id");
  }

  std::array<std::uint32_t, 8> size{}, strides{};
  std::array<std::unique_ptr<std::int64_t[]>, 8> owned;
  std::array<const std::int64_t*, 8> lines{};
  std::array<std::int64_t, 9> ends{};  // members of one device's lists up to each axis
  std::int64_t stride = N;
  for (std::int64_t axis = 0; axis < K; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const std::int64_t n = mesh_shape[axis];
    stride /= n;
    size[a] = static_cast<std::uint32_t>(n);
    strides[a] = static_cast<std::uint32_t>(stride);
    ends[a + 1] = ends[a] + n;
    if (stride == 1 || n == 1 || Q * n < 2 * N) continue;
    owned[a] = std::make_unique_for_overwrite<std::int64_t[]>(static_cast<std::size_t>(N));
    HWY_DYNAMIC_DISPATCH(lay_out)(ids, N, n, stride, owned[a].get());
    lines[a] = owned[a].get();
  }
  const std::int64_t sum = ends[static_cast<std::size_t>(K)];

  member_offsets[0] = 0;
#pragma omp parallel for schedule(static) if (Q * sum >= shared_elements)
  for (std::int64_t q = 0; q < Q; ++q) {
    for (std::int64_t a = 0; a < K; ++a) member_offsets[q * K + a + 1] = q * sum + ends[static_cast<std::size_t>(a) + 1];
    HWY_DYNAMIC_DISPATCH(write_device)(ids, static_cast<std::uint32_t>(position[static_cast<std::size_t>(q)]), K, size.data(), strides.data(), lines.data(), coords.data() + q * K, members.data() + q * sum);
  }
  return std::nullopt;
}

}  // namespace cpu
}  // namespace faibench::device_mesh_group_planner
#endif
