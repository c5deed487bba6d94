// cuda: wire format 130, sparse_kernels.h. Through memory go 8n bytes to weigh, 32n in four looks of `pick` (those after a segment's first mostly out of the L2 cache: 132 segments
// under way are 69 MB), 20n to keep; less than n/8 for the rest. cuda_dense: wire format 1 in two launches:
//  - look   c = grad + error: the sum of |c| in f64 gives the scale, and is finite only if everything is. Peers' scales are checked and laid out by block on the way.
//  - apply  c again; signs by shuffles of four bits a lane into words; update, new_error and the mean with the peers' bits, which are expanded in registers. It starts from
//           the end of the bucket, so that what `look` left in the L2 cache is used.
// Both ask the first launch's verdict on the device and write nothing if that is bad: the host waits once, at the end.
// Bound: memory. Nothing may be written before all of c is known to be finite, so 8n bytes are read twice: 28n + n/8 in all where the floor counts 20n; a bucket that stays in
// L2 (n < 2^22) reads them once. Expected on sm_80 and sm_90 at n = 2^26:
//   look, weigh  88 % of the memory's bandwidth: eight loads of 16 bytes a thread under way and 1024 or more threads a multiprocessor, 128 KiB where latency times bandwidth
//                wants about 40. One or two conversions to f64 an element (16 a cycle a multiprocessor) take a sixth or a third of the time that its bytes take.
//   apply, keep  85 %: two reads and three writes, 20n bytes; the payload's stores of 4 bytes are a 160th of them.
//   peers (apply, mean)  an addition in f64 an element and peer, five operations for the exact division: hidden up to about 16 peers.
//   pick         60 % of its bytes' time, half of them from L2: two loads of 4 bytes an element and look, a division each, one block of 1024 threads a multiprocessor.
//   encode       not memory: 2000 steps of about 150 cycles one after another, 0.2 ms; all 1024 segments at a time.
//   send         the picks, 0.3 % of the elements, scattered: 20 us.
//   together     cuda_dense 60 % of the bandwidth by the floor's count; cuda about 20 %; of 2^16 elements cuda keeps one block at work and takes 0.3 ms.
//   the eager form  12 kernels and 3 a peer, 88n bytes and 24n a peer: a third of the speed of cuda_dense.
#include "cuda/kernel.h"
#include "cuda/runtime.h"
#include "cuda/vector.h"
#include "collectives/grad_signsgd_error_feedback/bucket_kernels.h"
#include "collectives/grad_signsgd_error_feedback/device.h"
#include "collectives/grad_signsgd_error_feedback/sparse_kernels.h"

namespace faibench::grad_signsgd_error_feedback {
namespace {

using namespace on_device;
using faibench::cuda::aligned;
using faibench::cuda::launch;
using faibench::cuda::Workspace;

std::size_t floats(Size count) { return static_cast<std::size_t>(count) * sizeof(float); }

struct Found {
  Place grad, error, sum;  ///< elements
  Place scale;             ///< peer * blocks + block
  Place padding;           ///< peer
};

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
  const Fault::Rule rule = found.error != none ? Fault::Rule::nonfinite_error : Fault::Rule::error_overflow;
  return Fault{.rule = rule, .index = i, .value = fetched(error.data() + i), .grad = fetched(grad.data() + i)};
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

__global__ void __launch_bounds__(threads) look(Bucket x, Peers peers, float* scales, Verdict* verdict) {
  const Size b = blockIdx.x, begin = b * block, m = begin + block <= x.n ? block : x.n - begin;
  float c[per_thread];
  load_sums(x, begin, is_whole(x, begin), c);
  check_peers(peers, b, gridDim.x, x.n, verdict);
  double sum = 0;
#pragma unroll
  for (int k = 0; k < per_thread; ++k) sum += fabsf(c[k]);
  sum = sum_of_block(sum);
  if (threadIdx.x > 0) return;
  scales[b] = static_cast<float>(sum / static_cast<double>(m));
  if (!(sum <= 0x1p200)) atomicMin(&verdict->data, static_cast<Place>(b));  // in f64 only Inf and NaN come that far
}

/// `words`: payload starts at a multiple of 4 bytes.
template <bool alone>
__global__ void __launch_bounds__(threads) apply(Bucket x, Peers peers, const float* scales, const Verdict* verdict, bool words, std::uint8_t* payload, float* update,
                                                 float* average, float* new_error) {
  if (is_bad(*verdict)) return;
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
      float means[4];
      mean_of(peers, b, gridDim.x, at, updates, means);
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

std::optional<Fault> cuda_baseline::compress(Floats grad, Floats error, std::int32_t rank, Bytes peers, Offsets peer_offsets, View<std::uint8_t, 1> payload,
                                             View<float, 1> update, View<float, 1> average, View<float, 1> new_error, Size& payload_bytes) {
  payload_bytes = payload_bytes_of(grad.size());
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

namespace {

/// What both fused forms begin with: what the host knows, and memory for the verdict.
struct Call {
  Call(Floats grad, Floats error, std::int32_t rank, Bytes peer_payloads, Offsets offsets, const float* update, const float* average, const float* new_error)
      : n(grad.size()), blocks(block_count(n)), size_fault(wrong_size(offsets, n)), others(size_fault || n == 0 ? 0 : offsets.size() - 1), grads(grad), errors(error),
        bytes(peer_payloads), verdict_on(sizeof(Verdict)), peer_scales(floats(others * blocks)) {
    bucket = {grad.data(), error.data(), n, aligned(grad.data()) && aligned(error.data()) && aligned(update) && aligned(average) && aligned(new_error)};
    peers = {peer_payloads.data(), peer_scales.data<float>(), others, payload_bytes_of(n), rank, static_cast<double>(others + 1), 1 / static_cast<double>(others + 1)};
    verdict = verdict_on.data<Verdict>();
    faibench::cuda::fill(verdict, 0xff, sizeof(Verdict), faibench::cuda::current_stream());
  }
  /// Waits for all that was launched.
  std::optional<Fault> fault() {
    found = fetched(verdict);
    if (found.data != none) {
      const Workspace located(sizeof(Found));
      faibench::cuda::fill(located.data<Found>(), 0xff, sizeof(Found), faibench::cuda::current_stream());
      launch("locate", locate, elementwise(n), bucket, located.data<Found>());
      return fault_of_data(fetched(located.data<Found>()), grads, errors);
    }
    return size_fault ? size_fault : fault_of_peers({none, none, none, found.scale, found.padding}, bytes, n);
  }

  Size n, blocks;
  std::optional<Fault> size_fault;
  Size others;  ///< peers whose bytes can be looked at
  Floats grads, errors;
  Bytes bytes;
  Workspace verdict_on, peer_scales;
  Bucket bucket{};
  Peers peers{};
  Verdict* verdict = nullptr;
  Verdict found{};
};

}  // namespace

std::optional<Fault> cuda_dense::compress(Floats grad, Floats error, std::int32_t rank, Bytes peers, Offsets peer_offsets, View<std::uint8_t, 1> payload,
                                          View<float, 1> update, View<float, 1> average, View<float, 1> new_error, Size& payload_bytes) {
  Call call(grad, error, rank, peers, peer_offsets, update.data(), average.data(), new_error.data());
  payload_bytes = payload_bytes_of(call.n);
  if (call.n == 0) return call.size_fault;
  const Workspace scales_on(floats(call.blocks));
  auto* scales = scales_on.data<float>();
  const faibench::cuda::Shape shape{static_cast<unsigned>(call.blocks), threads};
  launch("look", look, shape, call.bucket, call.peers, scales, call.verdict);
  if (!call.size_fault)
    launch("apply", call.others == 0 ? apply<true> : apply<false>, shape, call.bucket, call.peers, static_cast<const float*>(scales), static_cast<const Verdict*>(call.verdict),
           reinterpret_cast<std::uintptr_t>(payload.data()) % 4 == 0, payload.data(), update.data(), average.data(), new_error.data());
  return call.fault();
}

std::optional<Fault> cuda::compress(Floats grad, Floats error, std::int32_t rank, Bytes peers, Offsets peer_offsets, View<std::uint8_t, 1> payload,
                                    View<float, 1> update, View<float, 1> average, View<float, 1> new_error, Size& payload_bytes) {
  Call call(grad, error, rank, peers, peer_offsets, update.data(), average.data(), new_error.data());
  payload_bytes = 0;
  if (call.n == 0) return call.size_fault;
  const Size segments = (call.n + sparse::segment - 1) / sparse::segment;
  const auto count = static_cast<std::size_t>(segments);
  const Workspace means(2 * floats(call.blocks)), segments_on(count * sizeof(sparse::Segment)), picks_on(count * sparse::picks_stride * sizeof(std::uint32_t));
  const Workspace payloads(count * sparse::payload_stride), lengths(count * sizeof(int));
  const sparse::Segment* found = segments_on.data<sparse::Segment>();
  const std::uint32_t* picks = picks_on.data<std::uint32_t>();
  const Verdict* verdict = call.verdict;
  const auto by_block = static_cast<unsigned>(call.blocks), by_segment = static_cast<unsigned>(segments);
  launch("weigh", sparse::weigh, {by_block, threads}, call.bucket, call.peers, means.data<double>(), call.verdict);
  if (!call.size_fault) {
    const bool alone = call.others == 0;
    launch("pick", sparse::pick, {by_segment, sparse::pick_threads}, call.bucket.grad, call.bucket.error, call.n, static_cast<const double*>(means.data<double>()), verdict,
           segments_on.data<sparse::Segment>(), picks_on.data<std::uint32_t>());
    launch("encode", sparse::encode, {by_segment, 32}, call.n, verdict, found, picks, payloads.data<std::uint8_t>(), lengths.data<int>());
    launch("keep", sparse::keep, {by_block, threads}, call.bucket, verdict, alone, update.data(), average.data(), new_error.data());
    launch("send", sparse::send, {by_segment, threads}, call.bucket, call.verdict, alone, found, picks, static_cast<const std::uint8_t*>(payloads.data<std::uint8_t>()),
           static_cast<const int*>(lengths.data<int>()), payload.data(), update.data(), average.data(), new_error.data());
    if (!alone) launch("mean", sparse::mean, {by_block, threads}, call.bucket, call.peers, verdict, static_cast<const float*>(update.data()), average.data());
  }
  std::optional<Fault> fault = call.fault();
  if (!fault) payload_bytes = call.found.bytes;
  return fault;
}

}  // namespace faibench::grad_signsgd_error_feedback
