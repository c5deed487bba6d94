// What the kernels on a bucket share: a block of 256 threads for each block of 4096 elements.
#pragma once
#include "cuda/kernel.h"

namespace faibench::grad_signsgd_error_feedback::on_device {

using Size = std::int64_t;
constexpr Size block = 4096, block_bytes = 4 + block / 8;
constexpr int threads = 256, warps = threads / 32;
inline Size block_count(Size n) { return (n + block - 1) / block; }

/// The first place where a rule is broken; `none` while there is none.
using Place = unsigned long long;
constexpr Place none = ~0ull;

__device__ inline bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }
__device__ inline std::uint32_t word_at(const std::uint8_t* bytes) {
  std::uint32_t word = 0;
  for (int k = 0; k < 4; ++k) word |= std::uint32_t{bytes[k]} << 8 * k;
  return word;
}
__device__ inline bool bad_scale(std::uint32_t bits) { return bits >= 0x7f800000u; }  // infinite, NaN or with a sign
__device__ inline bool bad_padding(const std::uint8_t* payload, Size bytes, Size n) { return n % 8 != 0 && payload[bytes - 1] >> n % 8 != 0; }

/// The sum over the threads of a block, for all of them.
__device__ inline double sum_of_block(double value) {
  __shared__ double of_warps[warps];
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  for (int w = 0; w < warps; ++w) value += of_warps[w];
  return value;
}

constexpr int per_thread = block / threads, vectors = per_thread / 4, step = 4 * threads;

struct Bucket {
  const float *grad, *error;
  Size n;
  bool aligned;  ///< all arrays of n start at multiples of 16 bytes
};
struct Peers {
  const std::uint8_t* payloads;
  float* scales;  ///< [count, blocks], from the payloads
  Size count, bytes;
  int rank;       ///< own place among them
  double ranks, inverse;  ///< count + 1, and 1 / that
};
/// What the first launch found: where in data something is wrong, not yet what.
struct Verdict {
  Place data;            ///< block
  Place scale, padding;  ///< peer * blocks + block; peer
  Size bytes;            ///< of the payload, where it is not known beforehand
};

/// This thread's part of a block: elements begin + 4*thread + k%4 + k/4*step; past the end zeros.
__device__ __forceinline__ void load_sums(const Bucket& x, Size begin, bool whole, float (&c)[per_thread]) {
  const Size own = begin + 4 * Size{threadIdx.x};
  if (whole) {
    float4 g[vectors], e[vectors];
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      g[v] = *reinterpret_cast<const float4*>(x.grad + own + v * step);
      e[v] = *reinterpret_cast<const float4*>(x.error + own + v * step);
    }
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      c[4 * v] = g[v].x + e[v].x;
      c[4 * v + 1] = g[v].y + e[v].y;
      c[4 * v + 2] = g[v].z + e[v].z;
      c[4 * v + 3] = g[v].w + e[v].w;
    }
  } else {
#pragma unroll
    for (int k = 0; k < per_thread; ++k) {
      const Size i = own + k / 4 * step + k % 4;
      c[k] = i < x.n ? x.grad[i] + x.error[i] : 0.0f;
    }
  }
}
__device__ __forceinline__ void load_four(const float* from, Size i, Size n, bool whole, float (&values)[4]) {
  if (whole) {
    const float4 four = *reinterpret_cast<const float4*>(from + i);
    values[0] = four.x;
    values[1] = four.y;
    values[2] = four.z;
    values[3] = four.w;
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k) values[k] = i + k < n ? from[i + k] : 0.0f;
  }
}
__device__ __forceinline__ void store_four(float* to, Size i, Size n, bool whole, const float (&values)[4]) {
  if (whole) {
    *reinterpret_cast<float4*>(to + i) = {values[0], values[1], values[2], values[3]};
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (i + k < n) to[i + k] = values[k];
  }
}
__device__ inline bool is_whole(const Bucket& x, Size begin) { return x.aligned && begin + block <= x.n; }

/// A block's scale of every peer, and the padding in the last.
__device__ inline void check_peers(const Peers& peers, Size b, Size blocks, Size n, Verdict* verdict) {
  for (Size q = threadIdx.x; q < peers.count; q += threads) {
    const std::uint8_t* payload = peers.payloads + q * peers.bytes;
    const std::uint32_t bits = word_at(payload + b * block_bytes);
    peers.scales[q * blocks + b] = __uint_as_float(bits);
    if (bad_scale(bits)) atomicMin(&verdict->scale, static_cast<Place>(q * blocks + b));
    if (b + 1 == blocks && bad_padding(payload, peers.bytes, n)) atomicMin(&verdict->padding, static_cast<Place>(q));
  }
}
__device__ inline bool is_bad(const Verdict& verdict) { return verdict.data != none || verdict.scale != none || verdict.padding != none; }

/// Adds what peers low .. high-1 say of this thread's four elements at `at` of block b.
__device__ __forceinline__ void add_peers(const Peers& peers, Size low, Size high, Size b, Size blocks, int at, double (&sums)[4]) {
  const std::uint8_t* payload = peers.payloads + low * peers.bytes + b * block_bytes + 4 + at / 8;
  const float* own_scale = peers.scales + low * blocks + b;
#pragma unroll 2
  for (Size q = low; q < high; ++q, payload += peers.bytes, own_scale += blocks) {
    const double scale = *own_scale;
    const unsigned bits = *payload >> at % 8;
#pragma unroll
    for (int k = 0; k < 4; ++k) sums[k] += bits >> k & 1 ? -scale : scale;
  }
}

/// a / b to the last bit, of numbers far from the ends of f64. `inverse` is 1 / b, rounded; the first correction brings q next to the quotient, from where the second
/// rounds right (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor").
__device__ inline double quotient(double a, double b, double inverse) {
  double q = a * inverse;
  q = fma(fma(-q, b, a), inverse, q);
  return fma(fma(-q, b, a), inverse, q);
}

/// The mean of this thread's four elements at `at` of block b, of `updates` and the peers'.
__device__ __forceinline__ void mean_of(const Peers& peers, Size b, Size blocks, int at, const float (&updates)[4], float (&means)[4]) {
  double sums[4] = {};
  add_peers(peers, 0, peers.rank, b, blocks, at, sums);
#pragma unroll
  for (int k = 0; k < 4; ++k) sums[k] += updates[k];
  add_peers(peers, peers.rank, peers.count, b, blocks, at, sums);
#pragma unroll
  for (int k = 0; k < 4; ++k) means[k] = static_cast<float>(quotient(sums[k], peers.ranks, peers.inverse));
}

}  // namespace faibench::grad_signsgd_error_feedback::on_device
