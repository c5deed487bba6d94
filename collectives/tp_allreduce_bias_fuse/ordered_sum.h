// The inner loop of both fast forms: P streams and a bias added in ascending order, in registers.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "tensor/half.h"

namespace faibench::tp_allreduce_bias_fuse {

/// Elements that one step of the loop writes at most, on any instruction set.
inline constexpr std::int64_t longest_step = 64;

/// bias[0], ..., bias[N-1], bias[0], ...: a step may start at any column, so that the loop need not know of rows. N >= 1. Refers to `bias`.
template <class T>
class WrappedBias {
 public:
  WrappedBias(const T* bias, std::int64_t N) : bias_(bias), N_(N), last_(std::max<std::int64_t>(0, N - longest_step)) {
    std::int64_t column = last_;
    for (T& value : seam_) {
      value = bias[column];
      if (++column == N) column = 0;
    }
  }
  [[nodiscard]] std::int64_t N() const { return N_; }
  /// `longest_step` values from that column on.
  [[nodiscard]] const T* at(std::int64_t column) const { return column < last_ ? bias_ + column : seam_.data() + (column - last_); }

 private:
  const T* bias_;
  std::int64_t N_, last_;                        // from `last_` on a step may pass the end
  std::array<T, 2 * longest_step> seam_;
};

/// Where the sum goes: `cached` into the caches, because somebody reads it next; `streamed` past them.
enum class Store { cached, streamed };
/// Results of this size would only push the caches' contents out before anybody reads them.
inline constexpr std::int64_t streamed_bytes = 4 << 20;

/// out[i] = round(((x[0][i] + x[1][i]) + ...) + bias[(first + i) mod N]) for i in 0 .. count-1, in f32, rounded once to nearest even; NaN becomes the one without payload.
/// Any alignment. Every one of `outs` gets the result, in one pass. Large counts are split over threads; the bits depend on nothing but the addends.
template <class T>
void ordered_sum(std::span<const T* const> x, const WrappedBias<T>& bias, std::int64_t first, std::int64_t count, std::span<T* const> outs, Store store);

}  // namespace faibench::tp_allreduce_bias_fuse
