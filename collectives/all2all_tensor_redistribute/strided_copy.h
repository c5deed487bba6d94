// Copies of a box between two row-major arrays of which it is a part.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace faibench::all2all_tensor_redistribute {

/// Runs of contiguous elements at regular places; all numbers in elements.
struct StridedCopy {
  std::int64_t from = 0, to = 0;  ///< where it starts on both sides
  std::int64_t run = 1;
  int loops = 0;                  ///< around the run, innermost first
  std::array<std::int64_t, 8> count{}, from_stride{}, to_stride{};
};

/// Takes the dims of a box from the last to the first, and merges those that are whole on both sides.
class CopyBuilder {
 public:
  /// `extent` elements at `from_low` of `from_extent`, to `to_low` of `to_extent`.
  void add_dim(std::int64_t extent, std::int64_t from_low, std::int64_t from_extent, std::int64_t to_low, std::int64_t to_extent) {
    copy_.from += from_low * from_stride_;
    copy_.to += to_low * to_stride_;
    if (extent > 1) {
      if (copy_.loops == 0 && from_stride_ == copy_.run && to_stride_ == copy_.run) {
        copy_.run *= extent;
      } else {
        const auto top = static_cast<std::size_t>(copy_.loops > 0 ? copy_.loops - 1 : 0);
        if (copy_.loops > 0 && from_stride_ == copy_.count[top] * copy_.from_stride[top] && to_stride_ == copy_.count[top] * copy_.to_stride[top]) {
          copy_.count[top] *= extent;
        } else {
          const auto next = static_cast<std::size_t>(copy_.loops++);
          copy_.count[next] = extent;
          copy_.from_stride[next] = from_stride_;
          copy_.to_stride[next] = to_stride_;
        }
      }
    }
    from_stride_ *= from_extent;
    to_stride_ *= to_extent;
  }
  [[nodiscard]] const StridedCopy& copy() const { return copy_; }

 private:
  StridedCopy copy_;
  std::int64_t from_stride_ = 1, to_stride_ = 1;
};

/// Where a copy is to end up: in the caches, or past them (the thread calls flush_streams() when it is done with its copies).
enum class Store { cached, streamed };

/// `from`, `to`: element 0 of the two arrays; `element`: bytes of an element, 1, 2, 4 or 8. Bytes only: nothing is interpreted.
/// `next`: what the caller reads after this, asked for under the last run; null: nothing.
void copy_strided(const StridedCopy& copy, const std::byte* from, std::byte* to, std::int64_t element, Store store, const std::byte* next = nullptr);
void flush_streams();

}  // namespace faibench::all2all_tensor_redistribute
