// Placed on a skyline: each buffer goes on top of what is already placed in its lifetime. Long-lived buffers first, then large ones first. The lowest
// gap that takes a buffer is searched only where that pays: for one that would rise above the peak so far (at first the lower bound), and for a large
// one (over 1/256 of the lower bound) that lives where the arena is crowded (over half the lower bound alive).
//
// Only the peak counts, so nine in ten buffers need no search: the skyline (the top of the placed bytes in every step of compressed time) gives their place
// in one masked load and one masked store, a lifetime being some five steps. A search gathers the placed buffers that conflict (lifetimes of similar length
// lie together by birth, so a few vectors hold all candidates) and climbs: a start moves up to the highest top among the buffers that it would overlap,
// until it overlaps none. No list of placed buffers in order of offset, no tree.
// Bound to expect: 32 N bytes in and out are nothing; the time is four passes of counting sort and 10-20 ns a placement.
// Legal by construction: an offset is 0 or the rounded end of a conflicting buffer placed before, so distinct buffers stacked below it end where it starts,
// and no end passes the plan without sharing.
// Where thousands of buffers are alive at a time, searches are cut short and a sweep over time (cpu_sweep.h) plans instead, if it is more compact.
// Tried on the standard workload (searches of 20000, q averaged over 12 inputs):
//   by size alone, a search for every buffer      20000   1.013
//   by size alone, skyline below the lower bound  11200   1.17: long-lived buffers lie high and block it
//   long-lived first, a search for every buffer   20000   1.004
//   long-lived first, skyline                       170   1.070
//   ... a search where crowded                     5400   1.007
//   ... a search for large ones where crowded      2000   1.007
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/memory/runtime_arena_memplan/cpu_sweep.h"
#include "kernels/memory/runtime_arena_memplan/cpu_timeline.h"
#include "kernels/memory/runtime_arena_memplan/runtime_arena_memplan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/memory/runtime_arena_memplan/cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::runtime_arena_memplan::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Vector steps that all gap searches of a plan may take together, per buffer: 20 times what the standard workload needs. Where that is not enough, thousands are
// alive at a time, and a sweep does better anyway.
constexpr std::int64_t search_steps_per_buffer = 64;
// A buffer counts as large from this part of the lower bound on.
constexpr int large_part = 256;
// Tops of the placed bytes, one entry a step. Entries past the end may be read.
template <class T>
class Skyline {
 public:
  Skyline(const Timeline& line, Scratch& scratch) : tops_(scratch.take<T>(static_cast<std::size_t>(line.steps) + Timeline::padding)) {
    std::memset(tops_, 0, (static_cast<std::size_t>(line.steps) + Timeline::padding) * sizeof(T));
  }
  T highest(std::int32_t from, std::int32_t to) const {
    const hn::ScalableTag<T> d;
    auto high = hn::Zero(d);
    const std::int32_t lanes = static_cast<std::int32_t>(hn::Lanes(d));
    std::int32_t t = from;
    for (; t + lanes <= to; t += lanes) high = hn::Max(high, hn::LoadU(d, tops_ + t));
    high = hn::Max(high, hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(to - t)), hn::LoadU(d, tops_ + t)));
    return hn::GetLane(hn::MaxOfLanes(d, high));
  }
  void raise(std::int32_t from, std::int32_t to, T top) {
    const hn::ScalableTag<T> d;
    const auto tops = hn::Set(d, top);
    const std::int32_t lanes = static_cast<std::int32_t>(hn::Lanes(d));
    std::int32_t t = from;
    for (; t + lanes <= to; t += lanes) hn::StoreU(hn::Max(tops, hn::LoadU(d, tops_ + t)), d, tops_ + t);
    hn::BlendedStore(hn::Max(tops, hn::LoadU(d, tops_ + t)), hn::FirstN(d, static_cast<std::size_t>(to - t)), d, tops_ + t);
  }

 private:
  T* tops_;
};

// Where buffers went, by position, and the search for gaps among them.
template <class T>
class Placement {
 public:
  Placement(const Timeline& line, Scratch& scratch)
      : line_(line), room_(static_cast<std::size_t>(line.count) + Timeline::padding), bottom_(scratch.take<T>(room_)), top_(scratch.take<T>(room_)),
        found_bottom_(scratch.take<T>(room_)), found_top_(scratch.take<T>(room_)), steps_left_(search_steps_per_buffer * line.count) {
    std::memset(top_, 0, room_ * sizeof(T));  // not placed: a top of 0 overlaps nothing
  }
  void put(std::int32_t position, T bottom, T top) {
    bottom_[position] = bottom;
    top_[position] = top;
  }
  bool may_search() const { return steps_left_ > 0; }

  // The lowest place for `units` between the placed buffers that live in [from, to).
  T lowest_gap(std::int32_t from, std::int32_t to, T units) {
    const std::size_t found = gather(from, to);
    const hn::ScalableTag<T> d;
    const std::size_t lanes = hn::Lanes(d);
    hn::StoreU(hn::Zero(d), d, found_top_ + found);
    hn::StoreU(hn::Zero(d), d, found_bottom_ + found);
    for (T start = 0;;) {
      const auto below = hn::Set(d, start), above = hn::Set(d, start + units);
      auto highest = hn::Zero(d);
      for (std::size_t k = 0; k < found; k += lanes) {
        const auto top = hn::LoadU(d, found_top_ + k);
        const auto overlaps = hn::And(hn::Gt(above, hn::LoadU(d, found_bottom_ + k)), hn::Gt(top, below));
        highest = hn::Max(highest, hn::IfThenElseZero(overlaps, top));
      }
      steps_left_ -= static_cast<std::int64_t>(found / lanes + 1);
      const T next = hn::GetLane(hn::MaxOfLanes(d, highest));
      if (next == 0) return start;
      start = next;
    }
  }

 private:
  // Times next to the lanes of offsets: as they are, or widened.
  template <class D>
  static hn::Vec<D> times(D d, const std::int32_t* from) {
    if constexpr (sizeof(T) == sizeof(std::int32_t)) return hn::LoadU(d, from);
    else return hn::PromoteTo(d, hn::LoadU(hn::Rebind<std::int32_t, D>(), from));
  }

  std::size_t gather(std::int32_t from, std::int32_t to) {
    const hn::ScalableTag<T> d;
    const std::int32_t lanes = static_cast<std::int32_t>(hn::Lanes(d));
    const auto v_from = hn::Set(d, static_cast<T>(from)), v_to = hn::Set(d, static_cast<T>(to));
    std::size_t found = 0;
    for (const Timeline::LengthClass& c : line_.classes) {
      if (c.longest == 0) continue;
      const std::int32_t earliest = std::max(from - c.longest + 1, 0);
      const std::int32_t first = line_.bucket_begin[c.first_bucket + (earliest >> c.shift)], last = line_.bucket_begin[c.first_bucket + ((to - 1) >> c.shift) + 1];
      for (std::int32_t p = first; p < last; p += lanes) {
        const auto top = hn::LoadU(d, top_ + p);
        auto conflicts = hn::And(hn::Lt(times(d, line_.start + p), v_to), hn::Gt(times(d, line_.end + p), v_from));
        conflicts = hn::And(conflicts, hn::Gt(top, hn::Zero(d)));
        if (p + lanes > last) conflicts = hn::And(conflicts, hn::FirstN(d, static_cast<std::size_t>(last - p)));  // the next bucket, or class, is another's
        // Compressed in registers: Zen 4 takes 140 cycles to compress into memory.
        hn::StoreU(hn::Compress(hn::LoadU(d, bottom_ + p), conflicts), d, found_bottom_ + found);
        hn::StoreU(hn::Compress(top, conflicts), d, found_top_ + found);
        found += hn::CountTrue(d, conflicts);
      }
      steps_left_ -= (last - first) / lanes + 1;
    }
    return found;
  }

  const Timeline& line_;
  const std::size_t room_;
  T* const bottom_;
  T* const top_;
  T* const found_bottom_;  // of the buffers in conflict with the one being placed
  T* const found_top_;
  std::int64_t steps_left_;
};

template <class T>
Placed place_all(const Timeline& line, Scratch& scratch, int align_bits, std::int64_t* offset) {
  Skyline<T> skyline(line, scratch);
  Placement<T> placement(line, scratch);
  T peak = static_cast<T>(line.lower_bound);  // no plan needs less
  const T large = peak / large_part;
  bool searched_all = true;
  for (std::int32_t k = 0; k < line.count; ++k) {
    const std::int32_t position = line.order[k], from = line.start[position], to = line.end[position];
    const T units = static_cast<T>(line.units[position]);
    T bottom = skyline.highest(from, to);
    if (bottom + units > peak || (units > large && line.crowded(from, to))) {
      if (placement.may_search()) bottom = placement.lowest_gap(from, to, units);
      else searched_all = false;
      peak = std::max(peak, static_cast<T>(bottom + units));
    }
    skyline.raise(from, to, bottom + units);
    placement.put(position, bottom, bottom + units);
    offset[line.origin[position]] = static_cast<std::int64_t>(bottom) << align_bits;
  }
  return {peak, searched_all};
}

// Half the bytes a vector lane where every sum of two offsets fits 32 bits.
Placed place(const Timeline& line, Scratch& scratch, int align_bits, std::int64_t* offset) {
  if (line.total_units < (std::int64_t{1} << 30)) return place_all<std::int32_t>(line, scratch, align_bits, offset);
  else return place_all<std::int64_t>(line, scratch, align_bits, offset);
}

}  // namespace faibench::runtime_arena_memplan::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <bit>

namespace faibench::runtime_arena_memplan::cpu {
namespace {
HWY_EXPORT(place);

// Mean lifetime, in steps, up to which a skyline pays. Beyond it thousands are alive at a time: work for the sweep.
constexpr std::int64_t skyline_mean_length = 1024;
}

void plan(std::int64_t align, View<const std::int64_t, 1> size, View<const std::int64_t, 1> alloc, View<const std::int64_t, 1> free, View<std::int64_t, 1> offset) {
  static thread_local Scratch scratch;
  const Timeline line = build_timeline({align, size, alloc, free}, scratch, 4 * sizeof(std::int64_t), sizeof(std::int64_t));
  if (line.count < size.extent(0))
    for (std::int64_t i = 0; i < size.extent(0); ++i)
      if (size[i] == 0) offset[i] = 0;
  const int align_bits = std::countr_zero(static_cast<std::uint64_t>(align));
  Placed placed{std::numeric_limits<std::int64_t>::max(), false};
  if (line.total_length <= skyline_mean_length * line.count) placed = HWY_DYNAMIC_DISPATCH(place)(line, scratch, align_bits, offset.data());
  if (placed.searched_all) return;
  const SweepPlan sweep = plan_by_sweep(line);
  if (sweep.peak >= placed.peak) return;
  for (std::int32_t p = 0; p < line.count; ++p) offset[line.origin[p]] = sweep.bottom[static_cast<std::size_t>(p)] << align_bits;
}

}  // namespace faibench::runtime_arena_memplan::cpu
#endif
