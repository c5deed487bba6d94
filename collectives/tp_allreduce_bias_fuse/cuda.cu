// One pass over P streams side by side: a thread loads 16 bytes of each rank, as many at once as registers allow, adds them in f32 in ascending rank, adds the bias,
// rounds once and stores 16 bytes. P up to 8 and 16 is compiled in, so that nothing stands between the loads of the ranks; other P go eight ranks at a time. Where the
// ranks' partials do not all start at multiples of 16 bytes (M*N no multiple of 4 or 8) the same is done an element a thread.
// Bound: (P+1)*M*N + N elements through memory. Expected on sm_80 and sm_90:
//   add_vectors<bf16, 8>  88 % of the memory's bandwidth: 32 registers, so 2048 threads a multiprocessor with two or more loads of 16 bytes under way each, 64 KiB
//                         where latency times bandwidth wants about 40; what is missing is what a mix of eight reads and a write costs. The column of the bias takes
//                         a division a vector, a tenth of the time that its bytes take; the bias comes from the L1 cache.
//   add_elements          50 to 60 %: 2 bytes a load.
//   the eager form        8.1 times the bytes, each kernel at 85 to 90 %.
#include <type_traits>

#include "cuda/kernel.h"
#include "cuda/runtime.h"
#include "cuda/vector.h"
#include "collectives/tp_allreduce_bias_fuse/device.h"

namespace faibench::tp_allreduce_bias_fuse {
namespace {

using Size = std::int64_t;
using faibench::cuda::aligned;
using faibench::cuda::launch;

/// The types of cuda_fp16.h and cuda_bf16.h for those of the tensors.
template <class T>
using OnDevice = std::conditional_t<std::is_same_v<T, f16>, __half, std::conditional_t<std::is_same_v<T, bf16>, __nv_bfloat16, float>>;
template <class T>
const OnDevice<T>* on_device(const T* at) { return reinterpret_cast<const OnDevice<T>*>(at); }
template <class T>
OnDevice<T>* on_device(T* at) { return reinterpret_cast<OnDevice<T>*>(at); }

__device__ float widened(float x) { return x; }
__device__ float widened(__half x) { return __half2float(x); }
__device__ float widened(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ T narrowed(float x) {
  if constexpr (std::is_same_v<T, __half>) return __float2half_rn(x);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16_rn(x);
  else return x;
}

constexpr int threads = 256;
/// As many threads as run at one time, each for many elements.
faibench::cuda::Shape elementwise(Size count) {
  const Size blocks = (count + threads - 1) / threads, most = 8 * faibench::cuda::multiprocessors();
  return {static_cast<unsigned>(blocks < most ? blocks : most), threads};
}
__device__ Size first() { return Size{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ Size stride() { return Size{gridDim.x} * blockDim.x; }

// ---- cuda_baseline ----

template <class T>
__global__ void __launch_bounds__(threads) cast_to_f32(const T* x, float* y, Size count) {
  for (Size e = first(); e < count; e += stride()) y[e] = widened(x[e]);
}
template <class T>
__global__ void __launch_bounds__(threads) cast(const float* x, T* y, Size count) {
  for (Size e = first(); e < count; e += stride()) y[e] = narrowed<T>(x[e]);
}
__global__ void __launch_bounds__(threads) add(const float* a, const float* b, float* y, Size count) {
  for (Size e = first(); e < count; e += stride()) y[e] = a[e] + b[e];
}
__global__ void __launch_bounds__(threads) add_to_rows(const float* a, const float* bias, float* y, Size count, Size N) {
  for (Size e = first(); e < count; e += stride()) y[e] = a[e] + bias[e % N];
}

// ---- cuda ----

using faibench::cuda::Vector;

/// ranks: P, or 0 for any.
template <class T, int ranks>
__global__ void __launch_bounds__(threads) add_vectors(const T* partials, const T* bias, T* out, Size P, Size count, Size N, bool whole_bias) {
  constexpr int length = Vector<T>::length, together = ranks > 0 ? ranks : 8;
  for (Size e = first() * length; e < count; e += stride() * length) {
    float sums[length];
    for (float& sum : sums) sum = -0.0f;  // changes no bit of what is added to it
    for (Size p = 0; p < (ranks > 0 ? 1 : P); p += together) {
      Vector<T> parts[together];
#pragma unroll
      for (int i = 0; i < together; ++i)
        if (ranks > 0 || p + i < P) parts[i].load(partials + (p + i) * count + e);
#pragma unroll
      for (int i = 0; i < together; ++i)
        if (ranks > 0 || p + i < P) {
#pragma unroll
          for (int n = 0; n < length; ++n) sums[n] += widened(parts[i].values[n]);
        }
    }
    Size column = e % N;
    Vector<T> addend, result;
    if (whole_bias) {
      addend.load(bias + column);
    } else {
#pragma unroll
      for (int n = 0; n < length; ++n) {
        addend.values[n] = bias[column];
        column = column + 1 == N ? 0 : column + 1;
      }
    }
#pragma unroll
    for (int n = 0; n < length; ++n) result.values[n] = narrowed<T>(sums[n] + widened(addend.values[n]));
    result.store(out + e);
  }
}

template <class T>
__global__ void __launch_bounds__(threads) add_elements(const T* partials, const T* bias, T* out, Size P, Size count, Size N) {
  for (Size e = first(); e < count; e += stride()) {
    float sum = widened(partials[e]);
#pragma unroll 8
    for (Size p = 1; p < P; ++p) sum += widened(partials[p * count + e]);
    out[e] = narrowed<T>(sum + widened(bias[e % N]));
  }
}

template <class T>
using AddVectors = void (*)(const T*, const T*, T*, Size, Size, Size, bool);
template <class T>
AddVectors<T> add_vectors_of(Size P) {
  switch (P) {
    case 1: return add_vectors<T, 1>;
    case 2: return add_vectors<T, 2>;
    case 3: return add_vectors<T, 3>;
    case 4: return add_vectors<T, 4>;
    case 5: return add_vectors<T, 5>;
    case 6: return add_vectors<T, 6>;
    case 7: return add_vectors<T, 7>;
    case 8: return add_vectors<T, 8>;
    case 16: return add_vectors<T, 16>;
    default: return add_vectors<T, 0>;
  }
}

}  // namespace

template <class T>
void cuda_baseline::reduce_partials(View<const T, 3> partials, View<const T, 1> bias, View<T, 2> out) {
  const Size P = partials.extent(0), N = partials.extent(2), count = partials.extent(1) * N;
  if (count == 0) return;
  const auto* x = on_device(partials.data());
  const auto buffer = [](Size elements) { return faibench::cuda::Workspace(static_cast<std::size_t>(elements) * sizeof(float)); };
  if constexpr (std::is_same_v<T, float>) {
    // No casts, no copy: acc is partials[0] at first, then one of two buffers.
    const auto even = buffer(P > 2 ? count : 0), odd = buffer(P > 1 ? count : 0);
    const float* acc = x;
    for (Size p = 1; p < P; ++p) {
      float* sum = p % 2 == 1 ? odd.template data<float>() : even.template data<float>();
      launch("add", add, elementwise(count), acc, x + p * count, sum, count);
      acc = sum;
    }
    launch("add_to_rows", add_to_rows, elementwise(count), acc, bias.data(), out.data(), count, N);
  } else {
    const auto even = buffer(count), odd = buffer(P > 1 ? count : 0), wide = buffer(P > 1 ? count : 0), wide_bias = buffer(N), y = buffer(count);
    const auto *acc = even.template data<float>(), *t = wide.template data<float>();
    launch("cast_to_f32", cast_to_f32<OnDevice<T>>, elementwise(count), x, even.template data<float>(), count);
    for (Size p = 1; p < P; ++p) {
      float* sum = p % 2 == 1 ? odd.template data<float>() : even.template data<float>();
      launch("cast_to_f32", cast_to_f32<OnDevice<T>>, elementwise(count), x + p * count, wide.template data<float>(), count);
      launch("add", add, elementwise(count), acc, t, sum, count);
      acc = sum;
    }
    launch("cast_to_f32", cast_to_f32<OnDevice<T>>, elementwise(N), on_device(bias.data()), wide_bias.template data<float>(), N);
    launch("add_to_rows", add_to_rows, elementwise(count), acc, static_cast<const float*>(wide_bias.template data<float>()), y.template data<float>(), count, N);
    launch("cast", cast<OnDevice<T>>, elementwise(count), static_cast<const float*>(y.template data<float>()), on_device(out.data()), count);
  }
}

template <class T>
void cuda::reduce_partials(View<const T, 3> partials, View<const T, 1> bias, View<T, 2> out) {
  constexpr Size length = 16 / sizeof(T);
  const Size P = partials.extent(0), N = partials.extent(2), count = partials.extent(1) * N;
  if (count == 0) return;
  const auto *x = on_device(partials.data()), *b = on_device(bias.data());
  if (count % length == 0 && aligned(x) && aligned(out.data()))
    launch("add_vectors", add_vectors_of<OnDevice<T>>(P), elementwise(count / length), x, b, on_device(out.data()), P, count, N, aligned(b, N));
  else launch("add_elements", add_elements<OnDevice<T>>, elementwise(count), x, b, on_device(out.data()), P, count, N);
}

template void cuda_baseline::reduce_partials<float>(View<const float, 3>, View<const float, 1>, View<float, 2>);
template void cuda_baseline::reduce_partials<f16>(View<const f16, 3>, View<const f16, 1>, View<f16, 2>);
template void cuda_baseline::reduce_partials<bf16>(View<const bf16, 3>, View<const bf16, 1>, View<bf16, 2>);
template void cuda::reduce_partials<float>(View<const float, 3>, View<const float, 1>, View<float, 2>);
template void cuda::reduce_partials<f16>(View<const f16, 3>, View<const f16, 1>, View<f16, 2>);
template void cuda::reduce_partials<bf16>(View<const bf16, 3>, View<const bf16, 1>, View<bf16, 2>);

}  // namespace faibench::tp_allreduce_bias_fuse
