// out = softmax(scale * q k^T + mask) v: the one signature of all variants.
#pragma once
#include "tensor/dtype.h"
#include "tensor/view.h"

namespace faibench::flash_causal_attn_prefill {

/// Attention of Lq queries over Lk keys, H query heads in groups of H/Hk neighbours that share a key head.
///   q   [B, Lq, H, D]   queries, finite
///   k   [B, Lk, Hk, D]  keys, finite
///   v   [B, Lk, Hk, D]  values, finite
///   out [B, Lq, H, D]   weighted average of v; zeros for a query without a visible key
/// `causal`: key j is visible to query i if j <= i + (Lk - Lq) (the last query sees the last key); else every key is. `scale` may be 0 or negative.
/// Scores, maxima, sums and accumulators in f32 or wider; a row depends on nothing past its last visible key.
/// Checked before the call: 1 <= D <= 256, H a multiple of Hk >= 1, scale finite. B, Lq and Lk may be 0.
/// At least 4*D operations a visible pair and each tensor through memory once. Thread-safe; out may not alias an input.
namespace reference {
template <class T> void causal_attention(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, float scale, bool causal, View<T, 4> out);
}
namespace baseline {
template <class T> void causal_attention(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, float scale, bool causal, View<T, 4> out);
}
namespace cpu {
template <class T> void causal_attention(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, float scale, bool causal, View<T, 4> out);
}

/// The same on a GPU: the views point into device memory, the kernels run on cuda::current_stream(). The eager form takes 4*B*H*Lq*Lk bytes of device memory and more. Throws Error(device).
namespace cuda_baseline {
template <class T> void causal_attention(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, float scale, bool causal, View<T, 4> out);
}
namespace cuda {
template <class T> void causal_attention(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, float scale, bool causal, View<T, 4> out);
}

}  // namespace faibench::flash_causal_attn_prefill
