// 16 bytes of elements, moved in one access, and where that is possible.
#pragma once
#include <cstdint>
#include <cstring>

#include "cuda/kernel.h"

namespace faibench::cuda {

/// On the host: whether `at`, and what lies any multiple of the strides (elements) from there, starts at multiples of 16 bytes.
template <class T, class... Strides>
bool aligned(const T* at, Strides... strides) {
  return reinterpret_cast<std::uintptr_t>(at) % 16 == 0 && ((static_cast<std::uintptr_t>(strides) * sizeof(T) % 16 == 0) && ...);
}

/// load() and store() want addresses that are multiples of 16.
template <class T>
struct Vector {
  static constexpr int length = 16 / sizeof(T);
  T values[length];
  __device__ __forceinline__ void load(const T* at) {
    const uint4 bits = *reinterpret_cast<const uint4*>(at);
    memcpy(static_cast<void*>(values), &bits, sizeof bits);
  }
  __device__ __forceinline__ void store(T* at) const {
    uint4 bits;
    memcpy(&bits, values, sizeof bits);
    *reinterpret_cast<uint4*>(at) = bits;
  }
};

}  // namespace faibench::cuda
