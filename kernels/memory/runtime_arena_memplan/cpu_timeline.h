// What the fast planner knows about its buffers before it places any: where they lie in time, in which order they go, how small an arena can be.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensor/view.h"

namespace faibench::runtime_arena_memplan::cpu {

/// Memory that one thread keeps between calls: a plan takes less time than the page faults of fresh memory would.
class Scratch {
 public:
  /// Room for `bytes` in all; what was handed out before is void.
  void reset(std::size_t bytes);
  /// The next `count` elements, 64-byte aligned, not initialised.
  template <class T>
  T* take(std::size_t count) {
    std::byte* at = next_;
    next_ += (count * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(at);
  }

 private:
  struct Free { void operator()(std::byte* p) const noexcept; };
  std::unique_ptr<std::byte, Free> memory_;
  std::byte* next_ = nullptr;
  std::size_t capacity_ = 0;
};

/// Buffers of more than 0 bytes, on steps 0 .. steps-1 of compressed time and in units of `align` bytes. Lifetimes meet in steps if and only if they do in time.
/// Arrays "by position" are sorted by length class and, within one, by the bucket of their start.
struct Timeline {
  /// Lifetimes of similar length: those that start in one bucket of 2^shift steps are neighbours.
  struct LengthClass {
    std::int32_t longest;       ///< steps; 0: no such buffer
    int shift;
    std::int32_t first_bucket;  ///< in bucket_begin, which has one entry more than the class has buckets
  };
  static constexpr int class_count = 16;
  static constexpr std::size_t padding = 64;  ///< elements that may be read past the end

  std::int32_t steps = 0;
  std::int32_t count = 0;
  std::int64_t lower_bound = 0;   ///< units: the most that is alive in one step
  std::int64_t total_units = 0;
  std::int64_t total_length = 0;  ///< steps, over all buffers
  std::int32_t* crowded_before = nullptr;  ///< [steps + 1] steps before this one in which more than half the lower bound is alive
  LengthClass classes[class_count] = {};
  std::int32_t* bucket_begin = nullptr;  ///< position of the first buffer of each bucket
  std::int32_t* start = nullptr;         ///< by position, as are the next three
  std::int32_t* end = nullptr;
  std::int64_t* units = nullptr;
  std::int32_t* origin = nullptr;        ///< index in the input
  /// Positions as they are to be placed: lifetimes of more than 16 times the mean first, in order of birth (what is kept for a backward pass is nested, and
  /// stacks without waste at the bottom); then the others, large ones first (sizes within 1.6 % of each other count as equal).
  std::int32_t* order = nullptr;

  [[nodiscard]] bool crowded(std::int32_t from, std::int32_t to) const { return crowded_before[to] != crowded_before[from]; }
  /// The class of a lifetime of `length` >= 1 steps: 0 up to 2, 1 up to 8, 2 up to 32, ...
  static int class_of(std::int32_t length);
};

/// How a placement went.
struct Placed {
  std::int64_t peak;  ///< units; at least the lower bound
  bool searched_all;  ///< false: some buffer that asked for a gap went on top, because the searches had taken too long
};

struct Buffers {
  std::int64_t align;
  View<const std::int64_t, 1> size, alloc, free;
};

/// Sorts the buffers by counting; O(N) where times are dense, O(N log N) where they are sparse. The arrays lie in `scratch`, which is reset and
/// keeps room for so many bytes more per buffer and per step (`padding` more of each).
Timeline build_timeline(const Buffers& buffers, Scratch& scratch, std::size_t bytes_per_buffer, std::size_t bytes_per_step);

}  // namespace faibench::runtime_arena_memplan::cpu
