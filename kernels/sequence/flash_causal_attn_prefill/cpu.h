// What cpu.cpp hands to the code compiled for each instruction set. Private to the cpu variant.
#pragma once
#include "kernels/sequence/flash_causal_attn_prefill/flash_causal_attn_prefill.h"

namespace faibench::flash_causal_attn_prefill::cpu {

/// Pointers and sizes of one call; D, H and Hk are valid, B, Lq, Lk may be 0.
template <class T>
struct Problem {
  const T *q, *k, *v;
  T* out;
  std::int64_t B, Lq, Lk, H, Hk, D;
  float scale;
  bool causal;

  /// Query heads that share a key head.
  [[nodiscard]] std::int64_t group() const { return H / Hk; }
  /// Number of keys that query i sees: keys 0 .. n-1.
  [[nodiscard]] std::int64_t visible(std::int64_t i) const {
    if (!causal) return Lk;
    const std::int64_t n = i + (Lk - Lq) + 1;
    return n < 0 ? 0 : n > Lk ? Lk : n;
  }
};

/// One output row in f64, for the rows whose sum of p*v left the range of f32 (v near the largest finite value). Slow.
template <class T>
void attend_row_wide(const Problem<T>& problem, std::int64_t b, std::int64_t i, std::int64_t h);

}  // namespace faibench::flash_causal_attn_prefill::cpu
