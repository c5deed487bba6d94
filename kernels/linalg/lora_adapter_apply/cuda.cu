// The correction as R more steps of the base product's main loop: h = scale*x@A^T in a skinny kernel, then y = [x | h] @ [W | B]^T tile by tile (cuda/tile_product.h). y is written once.
//
//   look at A and B -> h (T x R) -> set aside rows of h that f32 does not hold -> y, not written where A or B is bad -> rows set aside, in f64 -> the host waits and reports
//
// Bound at 4096^3, R = 16: 138 GFLOP, so f32 multiply-adds. Expected shares of that peak:
//   multiply<Large>  sm_90 75 %, sm_80 85 %, as in sgemm_register_blocktiling; the 16 more steps are one tile more in 257 (0.4 %), the epilogue's look at the flag is a cached load.
//   project          bound by reading A from L2 once for four rows of x: 270 MB, about 60 us, 2 to 3 % of the whole (128 threads with 64 sums each, at most 128 registers: 4 blocks a multiprocessor, each warp with 4 to 8 loads of 16 bytes a lane under way).
//   find_bad, set_aside, add_wide   below 10 us together: 0.5 MB, 0.3 MB, nothing but a flag a row.
// The five kernels of the baseline form move 5*4*T*O = 335 MB more (about 0.1 ms on sm_90, 4 %) and read x a second time with less reuse.
#include "cuda/kernel.h"
#include "cuda/runtime.h"
#include "cuda/tile_product.h"
#include "cuda/vector.h"
#include "kernels/linalg/lora_adapter_apply/lora_adapter_apply.h"

namespace faibench::lora_adapter_apply {
namespace {

using Size = std::int64_t;
using faibench::cuda::aligned;
using faibench::cuda::Product;
using faibench::cuda::Workspace;

constexpr unsigned blocks_at_once = 132 * 8;
constexpr unsigned long long none = ~0ull;

unsigned at_most(Size count, Size most) { return static_cast<unsigned>(count < most ? count : most); }

/// What is known of A and B. All bits set at first; the smaller the value, the sooner and the larger.
struct Found {
  unsigned long long first_bad;  ///< index in A, or size of A + index in B
  unsigned complement_of_largest;  ///< of B's magnitudes, as bits
};

__global__ void find_bad(const float* A, Size a_size, const float* B, Size b_size, Found* found) {
  unsigned largest = 0;
  for (Size i = Size{blockIdx.x} * blockDim.x + threadIdx.x; i < a_size + b_size; i += Size{gridDim.x} * blockDim.x) {
    const unsigned bits = __float_as_uint(i < a_size ? A[i] : B[i - a_size]) & 0x7fffffffu;
    if (bits >= 0x7f800000u) atomicMin(&found->first_bad, static_cast<unsigned long long>(i));
    if (i >= a_size && bits > largest) largest = bits;
  }
  largest = __reduce_max_sync(~0u, largest);
  if (threadIdx.x % 32 == 0) atomicMin(&found->complement_of_largest, ~largest);
}

constexpr int projected_rows = 4, projected_columns = 16, project_threads = 128;
static_assert(projected_rows * projected_columns == 64, "two sums a lane");

/// Four of a row from step k on, zeros behind its end.
template <bool whole_fours>
__device__ float4 load_four(const float* row, Size k, Size I) {
  if (k >= I) return make_float4(0, 0, 0, 0);
  if constexpr (whole_fours) return *reinterpret_cast<const float4*>(row + k);
  return make_float4(row[k], k + 1 < I ? row[k + 1] : 0, k + 2 < I ? row[k + 2] : 0, k + 3 < I ? row[k + 3] : 0);
}

__device__ void add_four(float& sum, float4 a, float4 b) { sum = fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum)))); }

/// h[t, r] = scale * sum over i of x[t, i] * A[r, i]. A block has four rows of x; its threads share the steps, then the sums.
template <bool whole_fours>
__global__ void __launch_bounds__(project_threads, 4) project(const float* __restrict__ x, const float* __restrict__ A, float scale, float* __restrict__ h, Size T, Size I, Size R) {
  __shared__ float parts[project_threads / 32][projected_rows * projected_columns];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (Size group = blockIdx.x; group < (T + projected_rows - 1) / projected_rows; group += gridDim.x) {
    const Size t = group * projected_rows;
    for (Size r = 0; r < R; r += projected_columns) {
      float sums[projected_rows * projected_columns] = {};  // (row, column)
#pragma unroll 1
      for (Size first = 128 * warp; first < I; first += 4 * project_threads) {
        const Size k = first + 4 * lane;
        float4 of_x[projected_rows];
#pragma unroll
        for (int i = 0; i < projected_rows; ++i) of_x[i] = load_four<whole_fours>(x + (t + i < T ? t + i : T - 1) * I, k, I);
#pragma unroll
        for (int j = 0; j < projected_columns; ++j) {
          const float4 of_a = load_four<whole_fours>(A + (r + j < R ? r + j : R - 1) * I, k, I);
#pragma unroll
          for (int i = 0; i < projected_rows; ++i) add_four(sums[i * projected_columns + j], of_x[i], of_a);
          if (j % 4 == 3) __syncwarp();  // keeps the compiler from loading all of A's rows first, into registers that are not there
        }
      }
      const int kept = 2 * lane;
#pragma unroll
      for (int half = 32; half > 1; half /= 2) {  // each lane keeps one half of its sums and gives the other to the lane half/2 away: at the end it has those of 2*lane and 2*lane + 1
        const bool upper = kept & half;
#pragma unroll
        for (int i = 0; i < half; ++i) {
          const float give = upper ? sums[i] : sums[i + half], keep = upper ? sums[i + half] : sums[i];
          sums[i] = keep + __shfl_xor_sync(~0u, give, half / 2);
        }
      }
      parts[warp][kept] = sums[0];
      parts[warp][kept + 1] = sums[1];
      __syncthreads();
      if (threadIdx.x < projected_rows * projected_columns) {
        const Size row = t + static_cast<int>(threadIdx.x) / projected_columns, column = r + static_cast<int>(threadIdx.x) % projected_columns;
        float sum = 0;
        for (int w = 0; w < project_threads / 32; ++w) sum += parts[w][threadIdx.x];
        if (row < T && column < R) h[row * R + column] = scale * sum;
      }
      __syncthreads();  // the next columns overwrite the parts
    }
  }
}

/// A row of h with NaN or Inf (of x, or an overflow that a small B would bring back) becomes zeros and is marked; so is every row where what h lost below 2^-126 could show in y.
__global__ void set_aside(float* h, int* wide, const Found* found, float scale, Size T, Size I, Size R) {
  const double largest = __uint_as_float(~found->complement_of_largest), size = scale < 0 ? -scale : scale;
  const bool all = (size * static_cast<double>(I + 1) + 1) * 0x1p-149 * largest * static_cast<double>(R) > 0x1p-127;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (Size t = (Size{blockIdx.x} * blockDim.x + threadIdx.x) / 32; t < T; t += Size{gridDim.x} * blockDim.x / 32) {
    bool bad = all;
    for (Size r = lane; r < R; r += 32) bad = bad || (__float_as_uint(h[t * R + r]) & 0x7f800000u) == 0x7f800000u;
    bad = __any_sync(~0u, bad);
    for (Size r = lane; bad && r < R; r += 32) h[t * R + r] = 0;
    if (lane == 0) wide[t] = bad;
  }
}

struct StoreUnlessBad {
  const Found* found;
  float* y;
  Size stride;
  bool whole_fours;
  __device__ void operator()(Size row, Size column, int count, float4 sum) const {
    if (found->first_bad == none) faibench::cuda::store_four(y + row * stride + column, count, sum, whole_fours);
  }
};

/// y[t] += scale * (B @ (A @ x[t])) in f64 for the marked rows, a block a row; `h` has R doubles for every block.
__global__ void add_wide(const float* x, const float* A, const float* B, float scale, const int* wide, const Found* found, double* h, float* y, Size T, Size I, Size O, Size R) {
  double* const mine = h + Size{blockIdx.x} * R;
  for (Size t = blockIdx.x; t < T; t += gridDim.x) {
    if (!wide[t] || found->first_bad != none) continue;
    for (Size r = threadIdx.x; r < R; r += blockDim.x) {
      double sum = 0;
      for (Size i = 0; i < I; ++i) sum += static_cast<double>(A[r * I + i]) * static_cast<double>(x[t * I + i]);
      mine[r] = sum;
    }
    __syncthreads();
    for (Size o = threadIdx.x; o < O; o += blockDim.x) {
      double sum = 0;
      for (Size r = 0; r < R; ++r) sum += static_cast<double>(B[o * R + r]) * mine[r];
      y[t * O + o] = static_cast<float>(static_cast<double>(y[t * O + o]) + static_cast<double>(scale) * sum);
    }
    __syncthreads();  // the next row overwrites h
  }
}

// ---- the five passes ----

__global__ void one_output(const float* a, const float* b, float* out, Size M, Size N, Size K) {  // out = a @ b^T
  const Size n = Size{blockIdx.x} * blockDim.x + threadIdx.x;
  if (n >= N) return;
  for (Size m = Size{blockIdx.y} * blockDim.y + threadIdx.y; m < M; m += Size{gridDim.y} * blockDim.y) {
    float sum = 0;
    for (Size k = 0; k < K; ++k) sum += a[m * K + k] * b[n * K + k];
    out[m * N + n] = sum;
  }
}

__global__ void times(float scale, const float* d, float* s, Size n) {
  for (Size i = Size{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += Size{gridDim.x} * blockDim.x) s[i] = scale * d[i];
}

__global__ void plus(const float* base, const float* s, float* y, Size n) {
  for (Size i = Size{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += Size{gridDim.x} * blockDim.x) y[i] = base[i] + s[i];
}

struct Store {
  float* out;
  Size stride;
  bool whole_fours;
  __device__ void operator()(Size row, Size column, int count, float4 sum) const { faibench::cuda::store_four(out + row * stride + column, count, sum, whole_fours); }
};

std::size_t floats(Size rows, Size columns) { return static_cast<std::size_t>(rows * columns) * sizeof(float); }

void launch_find_bad(Matrix A, Matrix B, Found* found) {
  faibench::cuda::fill(found, 0xff, sizeof(Found), faibench::cuda::current_stream());
  const Size n = A.size() + B.size();
  if (n > 0) faibench::cuda::launch("find_bad", find_bad, {at_most((n + 255) / 256, blocks_at_once), 256}, A.data(), A.size(), B.data(), B.size(), found);
}

/// Waits for all that was launched.
Rejected report(Matrix A, Matrix B, const Found* on_device) {
  Found found{};
  faibench::cuda::copy(&found, on_device, sizeof found, faibench::cuda::current_stream());
  faibench::cuda::synchronize(faibench::cuda::current_stream());
  if (found.first_bad == none) return std::nullopt;
  const bool in_a = found.first_bad < static_cast<unsigned long long>(A.size());
  const Size index = static_cast<Size>(found.first_bad) - (in_a ? 0 : A.size());
  float value = 0;
  faibench::cuda::copy(&value, (in_a ? A : B).data() + index, sizeof value, faibench::cuda::current_stream());
  faibench::cuda::synchronize(faibench::cuda::current_stream());
  return reject("bad_adapter", in_a ? "A" : "B", index, std::to_string(value), "must be finite");
}

/// The contract's five passes; `product(a, b, out)` launches out = a @ b^T.
template <class LaunchProduct>
Rejected in_five_passes(Matrix x, Matrix W, Matrix A, Matrix B, float scale, View<float, 2> y, LaunchProduct product) {
  const Workspace found(sizeof(Found));
  launch_find_bad(A, B, found.data<Found>());
  if (Rejected bad = report(A, B, found.data<Found>())) return bad;
  const Size T = x.extent(0), O = W.extent(0), R = A.extent(0);
  if (T * O == 0) return std::nullopt;
  const Workspace base(floats(T, O)), h(floats(T, R)), d(floats(T, O)), s(floats(T, O));
  product(x, W, base.data<float>());
  product(x, A, h.data<float>());
  product(Matrix(h.data<float>(), {T, R}), B, d.data<float>());
  const faibench::cuda::Shape shape{at_most((T * O + 255) / 256, 1 << 20), 256};
  faibench::cuda::launch("times", times, shape, scale, d.data<float>(), s.data<float>(), T * O);
  faibench::cuda::launch("plus", plus, shape, base.data<float>(), s.data<float>(), y.data(), T * O);
  return std::nullopt;
}

}  // namespace

Rejected cuda_baseline::apply(Matrix x, Matrix W, Matrix A, Matrix B, float scale, View<float, 2> y) {
  return in_five_passes(x, W, A, B, scale, y, [](Matrix a, Matrix b, float* out) {
    const Size M = a.extent(0), N = b.extent(0);
    if (M == 0 || N == 0) return;
    faibench::cuda::launch("one_output", one_output, {{static_cast<unsigned>((N + 31) / 32), at_most((M + 7) / 8, 65535)}, {32, 8}}, a.data(), b.data(), out, M, N, a.extent(1));
  });
}

Rejected cuda_five_pass::apply(Matrix x, Matrix W, Matrix A, Matrix B, float scale, View<float, 2> y) {
  return in_five_passes(x, W, A, B, scale, y, [](Matrix a, Matrix b, float* out) {
    const Size N = b.extent(0), K = a.extent(1);
    faibench::cuda::multiply_tiles<true>("multiply", Product{a.data(), b.data(), K, K, K}, {}, a.extent(0), N, Store{out, N, aligned(out, N)});
  });
}

Rejected cuda::apply(Matrix x, Matrix W, Matrix A, Matrix B, float scale, View<float, 2> y) {
  const Size T = x.extent(0), I = x.extent(1), O = W.extent(0), R = scale == 0 ? 0 : A.extent(0);
  const Workspace found(sizeof(Found)), h(floats(T, R)), wide(floats(T, R > 0));
  launch_find_bad(A, B, found.data<Found>());
  const bool correction = R > 0 && T > 0 && O > 0;
  if (correction) {
    const faibench::cuda::Shape shape{at_most((T + projected_rows - 1) / projected_rows, 1 << 20), project_threads};
    faibench::cuda::launch("project", aligned(x.data(), I) && aligned(A.data(), I) ? project<true> : project<false>, shape, x.data(), A.data(), scale, h.data<float>(), T, I, R);
    faibench::cuda::launch("set_aside", set_aside, {at_most((T + 7) / 8, blocks_at_once), 256}, h.data<float>(), wide.data<int>(), found.data<Found>(), scale, T, I, R);
  }
  const Product base{x.data(), W.data(), I, I, I}, more = correction ? Product{h.data<float>(), B.data(), R, R, R} : Product{};
  faibench::cuda::multiply_tiles<true>("multiply", base, more, T, O, StoreUnlessBad{found.data<Found>(), y.data(), O, aligned(y.data(), O)});
  const unsigned wide_blocks = at_most(T, blocks_at_once);
  const Workspace wide_h(correction ? std::size_t{wide_blocks} * static_cast<std::size_t>(R) * sizeof(double) : 0);
  if (correction)
    faibench::cuda::launch("add_wide", add_wide, {wide_blocks, 128}, x.data(), A.data(), B.data(), scale, wide.data<int>(), found.data<Found>(), wide_h.data<double>(), y.data(), T, I, O, R);
  return report(A, B, found.data<Found>());
}

}  // namespace faibench::lora_adapter_apply
