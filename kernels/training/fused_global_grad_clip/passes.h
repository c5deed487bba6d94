// The two passes of the cpu variant over a stretch of elements, compiled for each instruction set and picked at run time.
#pragma once
#include <cstdint>

#include "tensor/half.h"

namespace faibench::fused_global_grad_clip::cpu {

/// Sum of squares of n elements in f64. `copy`: null, or where the elements go on the way; `streamed` writes past the caches.
template <class T>
double sum_of_squares(const T* grads, std::int64_t n, T* copy, bool streamed);
/// out = grads * factor, rounded once; a copy of the bits where factor is 1.
template <class T>
void scale(const T* grads, std::int64_t n, double factor, T* out, bool streamed);

}  // namespace faibench::fused_global_grad_clip::cpu
