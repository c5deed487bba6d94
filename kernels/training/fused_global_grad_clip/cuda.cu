// Four launches, however many tensors: sums of squares of segments, of tensors, the factor, the scaling. The flat buffer is cut into stretches of 4096 elements, a
// warp each; where a tensor ends inside a stretch the warp adds up its segments one by one. Segment (stretch s, tensor k) puts its sum at s + k: either number grows
// from a segment to the next, so places do not collide, and those of one tensor are neighbours. No atomics, so the bits are the same on every run. The factor stays on
// the device; the host waits for it only where it may have to reject. Elements know no tensors in the scaling: 16 bytes an access, from the end of the buffer
// backwards, so that what the first pass left in the L2 cache is used. Squares and products are f64.
// Bound: 3 G elements through memory (two reads, a write). Expected on sm_80 and sm_90 at the size of the workload (bf16, 4e8 elements):
//   segment_sums  85 % of the memory's bandwidth; a conversion to f64 an element (16 a cycle a multiprocessor) takes half of the time that its bytes take. Small
//                 tensors cost 10 shuffles each.
//   scale         85 to 90 %: two conversions an element, half of the time again; 5 to 10 % of the reads come from L2.
//   squares_of_tensors, total   5 us together, of 700.
//   the eager form  4K + 7 launches: 33,000 at 2 to 5 us.
#include <cmath>
#include <type_traits>
#include <vector>

#include "cuda/kernel.h"
#include "cuda/runtime.h"
#include "cuda/vector.h"
#include "kernels/training/fused_global_grad_clip/device.h"

namespace faibench::fused_global_grad_clip {
namespace {

using Size = std::int64_t;
using faibench::cuda::aligned;
using faibench::cuda::launch;
using faibench::cuda::Workspace;

/// The type of cuda_bf16.h for that of the tensors.
template <class T>
using OnDevice = std::conditional_t<std::is_same_v<T, bf16>, __nv_bfloat16, float>;

__device__ double widened(double x) { return x; }
__device__ double widened(float x) { return x; }
__device__ double widened(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ T narrowed(double x) {
  if constexpr (std::is_same_v<T, float>) return static_cast<float>(x);
  else return __double2bfloat16(x);
}

constexpr int threads = 256, warps = threads / 32;
unsigned blocks_for(Size count, int each) {
  const Size blocks = (count + each - 1) / each, most = 8 * faibench::cuda::multiprocessors();
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

/// The sum over the lanes of a warp, for all of them.
__device__ double sum_of_lanes(double value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  return value;
}
/// The sum over the threads of a block, for thread 0.
__device__ double sum_of_block(double value) {
  __shared__ double of_warps[warps];
  value = sum_of_lanes(value);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  if (threadIdx.x == 0)
    for (int w = 0; w < warps; ++w) value += of_warps[w];
  return value;
}

/// Waits for the total, and if it is not finite finds the first tensor to blame. squares: in device memory; `norms`: they are norms.
std::optional<NotFinite> not_finite(const double* total, const double* per_tensor, bool norms, const Size* offsets_on_host, Size K) {
  const auto stream = faibench::cuda::current_stream();
  double found = 0;
  faibench::cuda::copy(&found, total, sizeof found, stream);
  faibench::cuda::synchronize(stream);
  if (std::isfinite(found)) return std::nullopt;
  std::vector<double> each(static_cast<std::size_t>(K));
  faibench::cuda::copy(each.data(), per_tensor, each.size() * sizeof(double), stream);
  faibench::cuda::synchronize(stream);
  Size k = 0;
  while (k + 1 < K && std::isfinite(each[static_cast<std::size_t>(k)])) ++k;
  const double value = each[static_cast<std::size_t>(k)];
  return NotFinite{k, offsets_on_host[k], norms ? value : std::sqrt(value)};
}

// ---- cuda_baseline: K tensors, a kernel an operation of each ----

template <class T>
__global__ void __launch_bounds__(threads) square(const T* x, double* y, Size count) {
  for (Size i = Size{blockIdx.x} * threads + threadIdx.x; i < count; i += Size{gridDim.x} * threads) y[i] = widened(x[i]) * widened(x[i]);
}
/// The block that comes last adds up what the others have: `done` counts them and is 0 again after that.
__global__ void __launch_bounds__(threads) sum(const double* x, double* of_blocks, unsigned* done, double* result, Size count) {
  __shared__ bool last;
  double own = 0;
  for (Size i = Size{blockIdx.x} * threads + threadIdx.x; i < count; i += Size{gridDim.x} * threads) own += x[i];
  own = sum_of_block(own);
  if (threadIdx.x == 0) {
    of_blocks[blockIdx.x] = own;
    __threadfence();
    last = atomicAdd(done, 1u) + 1 == gridDim.x;
  }
  __syncthreads();
  if (!last || threadIdx.x > 0) return;
  __threadfence();
  double total = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) total += of_blocks[b];
  *result = total;
  *done = 0;
}
__global__ void square_root(const double* x, double* y) { *y = sqrt(*x); }
__global__ void __launch_bounds__(threads) stack(const double* x, double* y, Size count) {
  for (Size i = Size{blockIdx.x} * threads + threadIdx.x; i < count; i += Size{gridDim.x} * threads) y[i] = x[i];
}
__global__ void add_to(const double* x, double addend, double* y) { *y = *x + addend; }
__global__ void divide(double a, const double* x, double* y) { *y = a / *x; }
__global__ void clamp_to_1(const double* x, double* y) { *y = *x > 1 ? 1 : *x; }
template <class T>
__global__ void __launch_bounds__(threads) multiply(const T* x, const double* factor, T* y, Size count) {
  for (Size i = Size{blockIdx.x} * threads + threadIdx.x; i < count; i += Size{gridDim.x} * threads) y[i] = narrowed<T>(widened(x[i]) * *factor);
}
__global__ void __launch_bounds__(threads) round_norms(const double* norms, const double* total, float* tensor_norms, float* total_norm, Size K) {
  for (Size k = Size{blockIdx.x} * threads + threadIdx.x; k < K; k += Size{gridDim.x} * threads) tensor_norms[k] = static_cast<float>(norms[k]);
  if (blockIdx.x == 0 && threadIdx.x == 0) *total_norm = static_cast<float>(*total);
}

template <class T>
std::optional<NotFinite> clip_eagerly(const T* grads, const Size* offsets, Size K, double max_norm, bool error_if_nonfinite, T* clipped,
                                      float* total_norm, float* tensor_norms) {
  Size longest = K > 0 ? K : 1;
  for (Size k = 0; k < K; ++k) longest = offsets[k + 1] - offsets[k] > longest ? offsets[k + 1] - offsets[k] : longest;
  const unsigned most_blocks = blocks_for(longest, threads);
  const Workspace squares_of(static_cast<std::size_t>(longest) * sizeof(double)), norms_of(static_cast<std::size_t>(K) * sizeof(double)),
      stacked_of(static_cast<std::size_t>(K) * sizeof(double));
  const Workspace of_blocks(most_blocks * sizeof(double)), done_of(sizeof(unsigned)), scalars(8 * sizeof(double));
  auto *squares = squares_of.data<double>(), *norms = norms_of.data<double>(), *stacked = stacked_of.data<double>(), *value = scalars.data<double>();
  auto* done = done_of.data<unsigned>();
  faibench::cuda::fill(done, 0, sizeof(unsigned), faibench::cuda::current_stream());
  faibench::cuda::fill(value, 0, 8 * sizeof(double), faibench::cuda::current_stream());
  const auto sum_of = [&](const double* x, Size count, double* result) {
    launch("sum", sum, {count > 0 ? blocks_for(count, threads) : 1, threads}, x, of_blocks.data<double>(), done, result, count);
  };
  const auto root = [&](const double* x, double* y) { launch("square_root", square_root, {1, 1}, x, y); };
  for (Size k = 0; k < K; ++k) {
    const Size count = offsets[k + 1] - offsets[k];
    if (count > 0) launch("square", square<T>, {blocks_for(count, threads), threads}, grads + offsets[k], squares, count);
    sum_of(squares, count, value);
    root(value, norms + k);
  }
  if (K > 0) {
    launch("stack", stack, {blocks_for(K, threads), threads}, static_cast<const double*>(norms), stacked, K);
    launch("square", square<double>, {blocks_for(K, threads), threads}, static_cast<const double*>(stacked), squares, K);
  }
  sum_of(squares, K, value + 1);
  root(value + 1, value + 2);
  if (error_if_nonfinite)
    if (auto found = not_finite(value + 2, norms, true, offsets, K)) return found;
  launch("add_to", add_to, {1, 1}, static_cast<const double*>(value + 2), 1e-6, value + 3);
  launch("divide", divide, {1, 1}, max_norm, static_cast<const double*>(value + 3), value + 4);
  launch("clamp_to_1", clamp_to_1, {1, 1}, static_cast<const double*>(value + 4), value + 5);
  for (Size k = 0; k < K; ++k)
    if (const Size count = offsets[k + 1] - offsets[k]; count > 0)
      launch("multiply", multiply<T>, {blocks_for(count, threads), threads}, grads + offsets[k], static_cast<const double*>(value + 5), clipped + offsets[k], count);
  launch("round_norms", round_norms, {K > 0 ? blocks_for(K, threads) : 1, threads}, static_cast<const double*>(norms),
         static_cast<const double*>(value + 2), tensor_norms, total_norm, K);
  return std::nullopt;
}

// ---- cuda ----

constexpr Size stretch = 4096;

using faibench::cuda::Vector;

/// sums[s + k] = sum of squares of the elements of tensor k in stretch s; a warp a stretch.
template <class T>
__global__ void __launch_bounds__(threads) segment_sums(const T* grads, const Size* offsets, Size K, bool aligned, double* sums) {
  constexpr int length = Vector<T>::length;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Size G = offsets[K], stretches = (G + stretch - 1) / stretch;
  for (Size s = (Size{blockIdx.x} * threads + threadIdx.x) / 32; s < stretches; s += Size{gridDim.x} * warps) {
    const Size first = s * stretch, end = first + stretch < G ? first + stretch : G;
    Size low = 0, high = K;  // the last tensor that starts at `first` or before: offsets[low] <= first < offsets[high]
    while (low + 1 < high) {
      const Size middle = (low + high) / 2;
      if (offsets[middle] <= first) low = middle;
      else high = middle;
    }
    Size begin = first;
    for (Size k = low; begin < end; ++k) {
      const Size stop = offsets[k + 1] < end ? offsets[k + 1] : end;
      if (stop <= begin) continue;
      double own = 0;
      for (Size i = begin / length * length + lane * length; i < stop; i += 32 * length) {
        if (aligned && i >= begin && i + length <= stop) {
          Vector<T> part;
          part.load(grads + i);
#pragma unroll
          for (int n = 0; n < length; ++n) own = fma(widened(part.values[n]), widened(part.values[n]), own);
        } else {
          for (int n = 0; n < length; ++n)
            if (i + n >= begin && i + n < stop) own = fma(widened(grads[i + n]), widened(grads[i + n]), own);
        }
      }
      own = sum_of_lanes(own);
      if (lane == 0) sums[s + k] = own;
      begin = stop;
    }
  }
}

/// A warp a tensor.
__global__ void __launch_bounds__(threads) squares_of_tensors(const double* sums, const Size* offsets, Size K, double* squares) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (Size k = (Size{blockIdx.x} * threads + threadIdx.x) / 32; k < K; k += Size{gridDim.x} * warps) {
    const Size begin = offsets[k], end = offsets[k + 1];
    double own = 0;
    if (begin < end)
      for (Size s = begin / stretch + lane; s <= (end - 1) / stretch; s += 32) own += sums[s + k];
    own = sum_of_lanes(own);
    if (lane == 0) squares[k] = own;
  }
}

struct Total {
  double norm, factor;
};

/// One block.
__global__ void __launch_bounds__(threads) total(const double* squares, Size K, double max_norm, Total* result) {
  double own = 0;
  for (Size k = threadIdx.x; k < K; k += threads) own += squares[k];
  own = sum_of_block(own);
  if (threadIdx.x > 0) return;
  const double norm = sqrt(own), c = max_norm / (norm + 1e-6);
  *result = {norm, c >= 1 ? 1 : c};  // a NaN stays one
}

template <class T>
__global__ void __launch_bounds__(threads) scale(const T* grads, const double* squares, const Total* result, Size G, Size K, bool aligned, T* clipped,
                                                 float* total_norm, float* tensor_norms) {
  constexpr int length = Vector<T>::length;
  const Size thread = Size{blockIdx.x} * threads + threadIdx.x, all = Size{gridDim.x} * threads;
  const double factor = result->factor;
  for (Size k = thread; k < K; k += all) tensor_norms[k] = static_cast<float>(sqrt(squares[k]));
  if (thread == 0) *total_norm = static_cast<float>(result->norm);
  const Size vectors = aligned ? G / length : 0;
  for (Size v = vectors - 1 - thread; v >= 0; v -= all) {
    Vector<T> part;
    part.load(grads + v * length);
    if (factor != 1) {
#pragma unroll
      for (int n = 0; n < length; ++n) part.values[n] = narrowed<T>(widened(part.values[n]) * factor);
    }
    part.store(clipped + v * length);
  }
  for (Size i = vectors * length + thread; i < G; i += all) clipped[i] = factor == 1 ? grads[i] : narrowed<T>(widened(grads[i]) * factor);
}

template <class T>
std::optional<NotFinite> clip_fused(const T* grads, const Size* offsets, Size G, Size K, double max_norm, bool error_if_nonfinite, T* clipped,
                                    float* total_norm, float* tensor_norms) {
  const Size stretches = (G + stretch - 1) / stretch;
  const Workspace sums(static_cast<std::size_t>(stretches + K) * sizeof(double)), squares_of(static_cast<std::size_t>(K) * sizeof(double)), result_of(sizeof(Total));
  auto* squares = squares_of.data<double>();
  auto* result = result_of.data<Total>();
  if (G > 0) launch("segment_sums", segment_sums<T>, {blocks_for(stretches, warps), threads}, grads, offsets, K, aligned(grads), sums.data<double>());
  if (K > 0) launch("squares_of_tensors", squares_of_tensors, {blocks_for(K, warps), threads}, static_cast<const double*>(sums.data<double>()), offsets, K, squares);
  launch("total", total, {1, threads}, static_cast<const double*>(squares), K, max_norm, result);
  if (error_if_nonfinite && K > 0) {
    std::vector<Size> on_host(static_cast<std::size_t>(K + 1));
    faibench::cuda::copy(on_host.data(), offsets, on_host.size() * sizeof(Size), faibench::cuda::current_stream());
    if (auto found = not_finite(&result->norm, squares, false, on_host.data(), K)) return found;
  }
  const Size work = G / Vector<T>::length > K ? G / Vector<T>::length : K;
  launch("scale", scale<T>, {work > 0 ? blocks_for(work, threads) : 1, threads}, grads, static_cast<const double*>(squares),
         static_cast<const Total*>(result), G, K, aligned(grads) && aligned(clipped), clipped, total_norm, tensor_norms);
  return std::nullopt;
}

}  // namespace

template <class T>
std::optional<NotFinite> cuda_baseline::clip_gradients(View<const T, 1> grads, View<const Size, 1> offsets, double max_norm, bool error_if_nonfinite,
                                                       View<T, 1> clipped, View<float, 0> total_norm, View<float, 1> tensor_norms) {
  using U = OnDevice<T>;
  return clip_eagerly(reinterpret_cast<const U*>(grads.data()), offsets.data(), offsets.extent(0) - 1, max_norm, error_if_nonfinite,
                      reinterpret_cast<U*>(clipped.data()), total_norm.data(), tensor_norms.data());
}

template <class T>
std::optional<NotFinite> cuda::clip_gradients(View<const T, 1> grads, View<const Size, 1> offsets, double max_norm, bool error_if_nonfinite,
                                              View<T, 1> clipped, View<float, 0> total_norm, View<float, 1> tensor_norms) {
  using U = OnDevice<T>;
  return clip_fused(reinterpret_cast<const U*>(grads.data()), offsets.data(), grads.extent(0), offsets.extent(0) - 1, max_norm, error_if_nonfinite,
                    reinterpret_cast<U*>(clipped.data()), total_norm.data(), tensor_norms.data());
}

template std::optional<NotFinite> cuda_baseline::clip_gradients<float>(View<const float, 1>, View<const Size, 1>, double, bool, View<float, 1>,
                                                                       View<float, 0>, View<float, 1>);
template std::optional<NotFinite> cuda_baseline::clip_gradients<bf16>(View<const bf16, 1>, View<const Size, 1>, double, bool, View<bf16, 1>,
                                                                      View<float, 0>, View<float, 1>);
template std::optional<NotFinite> cuda::clip_gradients<float>(View<const float, 1>, View<const Size, 1>, double, bool, View<float, 1>, View<float, 0>, View<float, 1>);
template std::optional<NotFinite> cuda::clip_gradients<bf16>(View<const bf16, 1>, View<const Size, 1>, double, bool, View<bf16, 1>, View<float, 0>, View<float, 1>);

}  // namespace faibench::fused_global_grad_clip
