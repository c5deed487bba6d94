// The inner loop of both fast forms: P streams and a bias added in ascending order, in registers.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/half.h"

namespace faibench::tp_allreduce_bias_fuse {

/// Elements that one step of the loop writes at most, on any instruction set.
inline constexpr std::int64_t longest_step = 64;

/// bias[0], ..., bias[N-1], bias[0], ...: long enough that a step may start at any column, so that the loop need not know of rows. N >= 1.
template <class T>
std::vector<T> wrapped_bias(const T* bias, std::int64_t N);

/// Where the sum goes: `cached` into the caches, because somebody reads it next; `streamed` past them.
enum class Store { cached, streamed };

/// out[i] = round(((x[0][i] + x[1][i]) + ...) + bias[(first + i) mod N]) for i in 0 .. count-1, in f32, rounded once to nearest even; NaN becomes the one without payload.
/// Any alignment. Large counts are split over threads; the bits depend on nothing but the addends.
template <class T>
void ordered_sum(std::span<const T* const> x, const std::vector<T>& bias, std::int64_t N, std::int64_t first, std::int64_t count, T* out, Store store);

}  // namespace faibench::tp_allreduce_bias_fuse
