// Wire format 1 in two launches, a block of 256 threads for each block of 4096 elements, 16 bytes an access.
//  - look   c = grad + error: the sum of |c| in f64 gives the scale, and is finite only if everything is. Peers' scales are checked and laid out by block on the way.
//  - apply  c again; signs by shuffles of four bits a lane into words; update, new_error and the mean with the peers' bits, which are expanded in registers. It starts from the end of the bucket,
//           so that what `look` left in the L2 cache is used. It asks `look`'s verdict on the device and writes nothing if that is bad: the host waits once, at the end.
// Bound: memory. Nothing may be written before all of c is known to be finite, so 8n bytes are read twice: 28n + n/8 in all where the floor counts 20n; a bucket that stays in L2 (n < 2^22) reads them
// once. Expected on sm_80 and sm_90 at n = 2^26:
//   look         88 % of the memory's bandwidth: eight loads of 16 bytes a thread under way and 1280 or more threads a multiprocessor, 160 KiB where latency times bandwidth wants about 40. A
//                conversion to f64 an element (16 a cycle a multiprocessor) takes a sixth of the time that its bytes take; a barrier a block of 4096.
//   apply        85 %: two reads and three writes, 20n bytes; the payload's stores of 4 bytes are a 160th of them.
//   apply, peers an addition in f64 an element and peer and a division an element: hidden up to about 16 peers (64 f64 operations a cycle a multiprocessor on sm_90), half of that on sm_80.
//   together     60 % of the bandwidth by the floor's count.
//   the eager form  12 kernels and 4 a peer, 116n bytes and 28n a peer: a quarter of the speed.
#include <type_traits>

#include "cuda/kernel.h"
#include "cuda/runtime.h"
#include "collectives/grad_signsgd_error_feedback/device.h"

namespace faibench::grad_signsgd_error_feedback {
namespace {

using Size = std::int64_t;
using faibench::cuda::launch;
using faibench::cuda::Workspace;

constexpr Size block = 4096, block_bytes = 4 + block / 8;
constexpr int threads = 256, warps = threads / 32;

Size block_count(Size n) { return (n + block - 1) / block; }
std::size_t floats(Size count) { return static_cast<std::size_t>(count) * sizeof(float); }

/// The first place where a rule is broken; `none` while there is none.
using Place = unsigned long long;
constexpr Place none = ~0ull;
struct Found {
  Place grad, error, sum;  ///< elements
  Place scale;             ///< peer * blocks + block
  Place padding;           ///< peer
};

__device__ bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }
__device__ std::uint32_t word_at(const std::uint8_t* bytes) {
  std::uint32_t word = 0;
  for (int k = 0; k < 4; ++k) word |= std::uint32_t{bytes[k]} << 8 * k;
  return word;
}
__device__ bool bad_scale(std::uint32_t bits) { return bits >= 0x7f800000u; }  // infinite, NaN or with a sign
__device__ bool bad_padding(const std::uint8_t* payload, Size bytes, Size n) { return n % 8 != 0 && payload[bytes - 1] >> n % 8 != 0; }

/// The sum over the threads of a block, for all of them.
__device__ double sum_of_block(double value) {
  __shared__ double of_warps[warps];
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  for (int w = 0; w < warps; ++w) value += of_warps[w];
  return value;
}

template <class T>
T fetched(const T* on_device) {
  T value;
  faibench::cuda::copy(&value, on_device, sizeof value, faibench::cuda::current_stream());
  faibench::cuda::synchronize(faibench::cuda::current_stream());
  return value;
}

using Floats = View<const float, 1>;
using Bytes = View<const std::uint8_t, 1>;
using Offsets = View<const Size, 1>;

std::optional<Fault> wrong_size(Offsets offsets, Size n) {
  for (Size q = 0; q + 1 < offsets.size(); ++q)
    if (offsets[q + 1] - offsets[q] != payload_bytes_of(n)) return Fault{.rule = Fault::Rule::peer_size, .index = offsets[q + 1], .payload = q};
  return std::nullopt;
}
std::optional<Fault> fault_of_data(const Found& found, Floats grad, Floats error) {
  if (found.grad != none) {
    const auto i = static_cast<Size>(found.grad);
    return Fault{.rule = Fault::Rule::nonfinite_grad, .index = i, .value = fetched(grad.data() + i)};
  }
  if (found.error == none && found.sum == none) return std::nullopt;
  const auto i = static_cast<Size>(found.error != none ? found.error : found.sum);
  return Fault{.rule = found.error != none ? Fault::Rule::nonfinite_error : Fault::Rule::error_overflow, .index = i, .value = fetched(error.data() + i), .grad = fetched(grad.data() + i)};
}
std::optional<Fault> fault_of_peers(const Found& found, Bytes peers, Size n) {
  const Size bytes = payload_bytes_of(n), blocks = block_count(n);
  if (found.scale != none) {
    const auto q = static_cast<Size>(found.scale) / blocks, at = q * bytes + static_cast<Size>(found.scale) % blocks * block_bytes;
    float scale;
    faibench::cuda::copy(&scale, peers.data() + at, sizeof scale, faibench::cuda::current_stream());
    faibench::cuda::synchronize(faibench::cuda::current_stream());
    return Fault{.rule = Fault::Rule::peer_scale, .index = at, .value = scale, .payload = q};
  }
  if (found.padding != none) {
    const auto q = static_cast<Size>(found.padding), at = (q + 1) * bytes - 1;
    return Fault{.rule = Fault::Rule::peer_padding, .index = at, .payload = q, .byte = fetched(peers.data() + at)};
  }
  return std::nullopt;
}

// ---- cuda_baseline: a kernel a pass ----

faibench::cuda::Shape elementwise(Size count) {
  const Size blocks = (count + threads - 1) / threads, most = 8 * faibench::cuda::multiprocessors();
  return {static_cast<unsigned>(blocks < most ? blocks : most), threads};
}
__device__ Size first() { return Size{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ Size stride() { return Size{gridDim.x} * blockDim.x; }

__global__ void __launch_bounds__(threads) add(const float* a, const float* b, float* y, Size n) {
  for (Size i = first(); i < n; i += stride()) y[i] = a[i] + b[i];
}
__global__ void __launch_bounds__(threads) subtract(const float* a, const float* b, float* y, Size n) {
  for (Size i = first(); i < n; i += stride()) y[i] = a[i] - b[i];
}
__global__ void __launch_bounds__(threads) first_not_finite(const float* x, Size n, Place* found) {
  for (Size i = first(); i < n; i += stride())
    if (!is_finite(x[i])) atomicMin(found, static_cast<Place>(i));
}
__global__ void __launch_bounds__(threads) first_bad_scale(const std::uint8_t* payload, Size q, Size blocks, Place* found) {
  for (Size b = first(); b < blocks; b += stride())
    if (bad_scale(word_at(payload + b * block_bytes))) atomicMin(found, static_cast<Place>(q * blocks + b));
}
__global__ void first_bad_padding(const std::uint8_t* peers, Size count, Size bytes, Size n, Place* found) {
  for (Size q = first(); q < count; q += stride())
    if (bad_padding(peers + q * bytes, bytes, n)) atomicMin(found, static_cast<Place>(q));
}
/// A block a block.
__global__ void __launch_bounds__(threads) block_means(const float* c, Size n, float* means) {
  const Size begin = Size{blockIdx.x} * block, end = begin + block < n ? begin + block : n;
  double sum = 0;
  for (Size i = begin + threadIdx.x; i < end; i += threads) sum += fabsf(c[i]);
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) means[blockIdx.x] = static_cast<float>(sum / static_cast<double>(end - begin));
}
__global__ void __launch_bounds__(threads) put_scales(const float* means, Size blocks, std::uint8_t* payload) {
  for (Size b = first(); b < blocks; b += stride())
    for (int k = 0; k < 4; ++k) payload[b * block_bytes + k] = static_cast<std::uint8_t>(__float_as_uint(means[b]) >> 8 * k);
}
/// A thread a byte.
__global__ void __launch_bounds__(threads) put_signs(const float* c, Size n, std::uint8_t* payload) {
  for (Size i = first() * 8; i < n; i += stride() * 8) {
    std::uint8_t bits = 0;
    for (int k = 0; k < 8 && i + k < n; ++k)
      if (c[i + k] < 0) bits = static_cast<std::uint8_t>(bits | 1u << k);
    payload[i / block * block_bytes + 4 + i % block / 8] = bits;
  }
}
__global__ void __launch_bounds__(threads) decode(const std::uint8_t* payload, float* update, Size n) {
  for (Size i = first(); i < n; i += stride()) {
    const std::uint8_t* at = payload + i / block * block_bytes;
    const float scale = __uint_as_float(word_at(at));
    update[i] = at[4 + i % block / 8] >> i % 8 & 1 ? -scale : scale;
  }
}
__global__ void __launch_bounds__(threads) zero(double* sum, Size n) {
  for (Size i = first(); i < n; i += stride()) sum[i] = 0;
}
__global__ void __launch_bounds__(threads) add_to(const float* x, double* sum, Size n) {
  for (Size i = first(); i < n; i += stride()) sum[i] += x[i];
}
__global__ void __launch_bounds__(threads) divide(const double* sum, double by, float* y, Size n) {
  for (Size i = first(); i < n; i += stride()) y[i] = static_cast<float>(sum[i] / by);
}

// ---- cuda ----

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
/// What is found first decides, and no more than that is known: see locate.
struct Verdict {
  Place data;
  Place scale, padding;  ///< as in Found
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
__device__ __forceinline__ void store_four(float* to, Size i, Size n, bool whole, const float (&values)[4]) {
  if (whole) {
    *reinterpret_cast<float4*>(to + i) = {values[0], values[1], values[2], values[3]};
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (i + k < n) to[i + k] = values[k];
  }
}
__device__ bool is_whole(const Bucket& x, Size begin) { return x.aligned && begin + block <= x.n; }

__global__ void __launch_bounds__(threads) look(Bucket x, Peers peers, float* scales, Verdict* verdict) {
  const Size b = blockIdx.x, begin = b * block, m = begin + block <= x.n ? block : x.n - begin;
  float c[per_thread];
  load_sums(x, begin, is_whole(x, begin), c);
  for (Size q = threadIdx.x; q < peers.count; q += threads) {
    const std::uint8_t* payload = peers.payloads + q * peers.bytes;
    const std::uint32_t bits = word_at(payload + b * block_bytes);
    peers.scales[q * gridDim.x + b] = __uint_as_float(bits);
    if (bad_scale(bits)) atomicMin(&verdict->scale, static_cast<Place>(q * gridDim.x + b));
    if (b + 1 == gridDim.x && bad_padding(payload, peers.bytes, x.n)) atomicMin(&verdict->padding, static_cast<Place>(q));
  }
  double sum = 0;
#pragma unroll
  for (int k = 0; k < per_thread; ++k) sum += fabsf(c[k]);
  sum = sum_of_block(sum);
  if (threadIdx.x > 0) return;
  scales[b] = static_cast<float>(sum / static_cast<double>(m));
  if (!(sum <= 0x1p200)) atomicMin(&verdict->data, static_cast<Place>(b));  // in f64 only Inf and NaN come that far
}

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

/// a / b to the last bit, of numbers far from the ends of f64: `inverse` is 1 / b, rounded, and the second correction is Markstein's, which rounds right from a neighbour of the quotient.
__device__ double quotient(double a, double b, double inverse) {
  double q = a * inverse;
  q = fma(fma(-q, b, a), inverse, q);
  return fma(fma(-q, b, a), inverse, q);
}

/// `words`: payload starts at a multiple of 4 bytes.
template <bool alone>
__global__ void __launch_bounds__(threads) apply(Bucket x, Peers peers, const float* scales, const Verdict* verdict, bool words, std::uint8_t* payload, float* update, float* average, float* new_error) {
  if (verdict->data != none || verdict->scale != none || verdict->padding != none) return;
  const Size b = gridDim.x - 1 - blockIdx.x, begin = b * block, m = begin + block <= x.n ? block : x.n - begin;
  const bool whole = is_whole(x, begin);
  float c[per_thread];
  load_sums(x, begin, whole, c);
  const float scale = scales[b];
  std::uint8_t* const out = payload + b * block_bytes;
  if (threadIdx.x < 4) out[threadIdx.x] = static_cast<std::uint8_t>(__float_as_uint(scale) >> 8 * threadIdx.x);
#pragma unroll
  for (int v = 0; v < vectors; ++v) {
    const int at = v * step + 4 * static_cast<int>(threadIdx.x), lane = static_cast<int>(threadIdx.x) % 32;
    float updates[4], errors[4];
    unsigned word = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const bool negative = c[4 * v + k] < 0;
      word |= static_cast<unsigned>(negative) << k;
      updates[k] = negative ? -scale : scale;
      errors[k] = c[4 * v + k] - updates[k];
    }
    store_four(update, begin + at, x.n, whole, updates);
    store_four(new_error, begin + at, x.n, whole, errors);
    if constexpr (alone) {
      store_four(average, begin + at, x.n, whole, updates);
    } else if (at < m) {
      double sums[4] = {};
      add_peers(peers, 0, peers.rank, b, gridDim.x, at, sums);
#pragma unroll
      for (int k = 0; k < 4; ++k) sums[k] += updates[k];
      add_peers(peers, peers.rank, peers.count, b, gridDim.x, at, sums);
      float means[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) means[k] = static_cast<float>(quotient(sums[k], peers.ranks, peers.inverse));
      store_four(average, begin + at, x.n, whole, means);
    }
    // Eight lanes' four bits each make a word.
    word <<= lane % 8 * 4;
#pragma unroll
    for (int lanes = 4; lanes > 0; lanes /= 2) word |= __shfl_xor_sync(~0u, word, lanes);
    if (lane % 8 > 0) continue;
    const Size left = (m + 7) / 8 - at / 8;
    if (words && left >= 4) {
      *reinterpret_cast<std::uint32_t*>(out + 4 + at / 8) = word;
    } else {
      for (int k = 0; k < 4 && k < left; ++k) out[4 + at / 8 + k] = static_cast<std::uint8_t>(word >> 8 * k);
    }
  }
}

/// What is wrong with data that something is wrong with.
__global__ void __launch_bounds__(threads) locate(Bucket x, Found* found) {
  for (Size i = first(); i < x.n; i += stride()) {
    const auto place = static_cast<Place>(i);
    if (!is_finite(x.grad[i])) atomicMin(&found->grad, place);
    else if (!is_finite(x.error[i])) atomicMin(&found->error, place);
    else if (!is_finite(x.grad[i] + x.error[i])) atomicMin(&found->sum, place);
  }
}

}  // namespace

std::optional<Fault> cuda_baseline::compress(Floats grad, Floats error, std::int32_t rank, Bytes peers, Offsets peer_offsets, View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average,
                                             View<float, 1> new_error) {
  const Size n = grad.size(), blocks = block_count(n), bytes = payload_bytes_of(n), others = peer_offsets.size() - 1;
  if (n == 0) return wrong_size(peer_offsets, n);
  const Workspace found_on(sizeof(Found)), c_on(floats(n));
  auto* found = found_on.data<Found>();
  auto* c = c_on.data<float>();
  const auto shape = elementwise(n);
  faibench::cuda::fill(found, 0xff, sizeof(Found), faibench::cuda::current_stream());
  launch("first_not_finite", first_not_finite, shape, grad.data(), n, &found->grad);
  launch("first_not_finite", first_not_finite, shape, error.data(), n, &found->error);
  launch("add", add, shape, grad.data(), error.data(), c, n);
  launch("first_not_finite", first_not_finite, shape, static_cast<const float*>(c), n, &found->sum);
  if (auto fault = fault_of_data(fetched(found), grad, error)) return fault;
  if (auto fault = wrong_size(peer_offsets, n)) return fault;
  for (Size q = 0; q < others; ++q) launch("first_bad_scale", first_bad_scale, elementwise(blocks), peers.data() + q * bytes, q, blocks, &found->scale);
  if (others > 0) launch("first_bad_padding", first_bad_padding, elementwise(others), peers.data(), others, bytes, n, &found->padding);
  if (auto fault = fault_of_peers(fetched(found), peers, n)) return fault;

  const Workspace means_on(floats(blocks)), peer_on(floats(others > 0 ? n : 0)), sum_on(2 * floats(n));
  auto *means = means_on.data<float>(), *peer = peer_on.data<float>();
  auto* sum = sum_on.data<double>();
  launch("block_means", block_means, {static_cast<unsigned>(blocks), threads}, static_cast<const float*>(c), n, means);
  launch("put_scales", put_scales, elementwise(blocks), static_cast<const float*>(means), blocks, payload.data());
  launch("put_signs", put_signs, elementwise((n + 7) / 8), static_cast<const float*>(c), n, payload.data());
  launch("decode", decode, shape, static_cast<const std::uint8_t*>(payload.data()), update.data(), n);
  launch("subtract", subtract, shape, static_cast<const float*>(c), static_cast<const float*>(update.data()), new_error.data(), n);
  launch("zero", zero, shape, sum, n);
  for (Size r = 0; r <= others; ++r) {
    if (r != rank) launch("decode", decode, shape, peers.data() + (r < rank ? r : r - 1) * bytes, peer, n);
    launch("add_to", add_to, shape, static_cast<const float*>(r == rank ? update.data() : peer), sum, n);
  }
  launch("divide", divide, shape, static_cast<const double*>(sum), static_cast<double>(others + 1), average.data(), n);
  faibench::cuda::synchronize(faibench::cuda::current_stream());
  return std::nullopt;
}

std::optional<Fault> cuda::compress(Floats grad, Floats error, std::int32_t rank, Bytes peers, Offsets peer_offsets, View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average,
                                    View<float, 1> new_error) {
  const Size n = grad.size(), blocks = block_count(n);
  const std::optional<Fault> size_fault = wrong_size(peer_offsets, n);
  if (n == 0) return size_fault;
  const Size others = size_fault ? 0 : peer_offsets.size() - 1;  // whose bytes can be looked at
  const auto stream = faibench::cuda::current_stream();
  const Workspace verdict_on(sizeof(Verdict)), scales_on(floats(blocks)), peer_scales_on(floats(others * blocks));
  auto* verdict = verdict_on.data<Verdict>();
  auto* scales = scales_on.data<float>();
  const auto at_16 = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
  const Bucket x{grad.data(), error.data(), n, at_16(grad.data()) && at_16(error.data()) && at_16(update.data()) && at_16(average.data()) && at_16(new_error.data())};
  const Peers p{peers.data(), peer_scales_on.data<float>(), others, payload_bytes_of(n), rank, static_cast<double>(others + 1), 1 / static_cast<double>(others + 1)};
  const faibench::cuda::Shape shape{static_cast<unsigned>(blocks), threads};
  faibench::cuda::fill(verdict, 0xff, sizeof(Verdict), stream);
  launch("look", look, shape, x, p, scales, verdict);
  if (!size_fault)
    launch("apply", others == 0 ? apply<true> : apply<false>, shape, x, p, static_cast<const float*>(scales), static_cast<const Verdict*>(verdict), reinterpret_cast<std::uintptr_t>(payload.data()) % 4 == 0,
           payload.data(), update.data(), average.data(), new_error.data());
  const Verdict verdict_found = fetched(verdict);
  if (verdict_found.data != none) {
    const Workspace found_on(sizeof(Found));
    faibench::cuda::fill(found_on.data<Found>(), 0xff, sizeof(Found), stream);
    launch("locate", locate, elementwise(n), x, found_on.data<Found>());
    return fault_of_data(fetched(found_on.data<Found>()), grad, error);
  }
  if (size_fault) return size_fault;
  return fault_of_peers({none, none, none, verdict_found.scale, verdict_found.padding}, peers, n);
}

}  // namespace faibench::grad_signsgd_error_feedback
