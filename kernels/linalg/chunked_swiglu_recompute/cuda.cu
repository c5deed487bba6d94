// A block of tokens at a time, forward and backward together, in three buffers of rows x F. Products are those of cuda/tile_product.h; what lies between them happens in their epilogues.
//
//   G = x @ w_gate^T          U = x @ w_up^T, H = silu(G)*U          y = H @ w_down^T
//   dh = dy @ w_down          in its epilogue G becomes dg and U becomes du: dh itself is nowhere in memory
//   dx = G @ w_gate + U @ w_up, one product of inner dimension 2*F
//
// Memory: 4*c*(6*F + 4*D) bytes and 64 MiB are allowed, so a block has at least twice as many rows as a chunk, and small chunks do not make small products.
// Bound at 32768 x 4096 x 11008: 17.7 TFLOP, so f32 multiply-adds. Expected shares of that peak:
//   multiply<Large>, StoreValues, StoreForward, StoreBackward   sm_90 75 %, sm_80 85 %, as in sgemm_register_blocktiling: a block of 4500 rows is 35 x 86 or 35 x 32 tiles, 4 to 12 rounds.
//   The epilogues move 3 to 4 x 200 MB a block (0.3 ms beside about 40 ms) and take 20 operations an element where a product of D = 4096 took 8192.
#include "cuda/kernel.h"
#include "cuda/runtime.h"
#include "cuda/tile_product.h"
#include "cuda/vector.h"
#include "kernels/linalg/chunked_swiglu_recompute/chunked_swiglu_recompute.h"

namespace faibench::chunked_swiglu_recompute {
namespace {

using Size = std::int64_t;
using faibench::cuda::aligned;
using faibench::cuda::Product;
using faibench::cuda::Workspace;

/// sig(g) and 1 - sig(g) = sig(-g), neither by a subtraction; exp cannot overflow.
__device__ void sigmoids(float g, float* of_g, float* of_minus_g) {
  const float e = expf(-fabsf(g)), large = 1 / (1 + e), small = e * large;
  *of_g = g < 0 ? small : large;
  *of_minus_g = g < 0 ? large : small;
}

__device__ float forward(float g, float u) {
  float sig, rest;
  sigmoids(g, &sig, &rest);
  return g * sig * u;
}

/// dh and where g and u stood: dg and du.
__device__ void backward(float dh, float* g, float* u) {
  float sig, rest;
  sigmoids(*g, &sig, &rest);
  const float a = *g * sig, slope = sig * fmaf(*g, rest, 1);
  *g = dh * *u * slope;
  *u = dh * a;
}

__device__ float4 load_four(const float* at, int count, bool whole_fours) {
  if (whole_fours && count == 4) return *reinterpret_cast<const float4*>(at);
  return make_float4(at[0], count > 1 ? at[1] : 0, count > 2 ? at[2] : 0, count > 3 ? at[3] : 0);
}

struct StoreValues {
  float* out;
  Size stride;
  bool whole_fours;
  __device__ void operator()(Size row, Size column, int count, float4 sum) const { faibench::cuda::store_four(out + row * stride + column, count, sum, whole_fours); }
};

struct StoreForward {
  const float* G;
  float *U, *H;
  Size F;
  bool whole_fours;
  __device__ void operator()(Size row, Size column, int count, float4 u) const {
    const Size at = row * F + column;
    const float4 g = load_four(G + at, count, whole_fours);
    faibench::cuda::store_four(U + at, count, u, whole_fours);
    faibench::cuda::store_four(H + at, count, make_float4(forward(g.x, u.x), forward(g.y, u.y), forward(g.z, u.z), forward(g.w, u.w)), whole_fours);
  }
};

struct StoreBackward {
  float *G, *U;
  Size F;
  bool whole_fours;
  __device__ void operator()(Size row, Size column, int count, float4 dh) const {
    const Size at = row * F + column;
    float4 g = load_four(G + at, count, whole_fours), u = load_four(U + at, count, whole_fours);
    backward(dh.x, &g.x, &u.x);
    backward(dh.y, &g.y, &u.y);
    backward(dh.z, &g.z, &u.z);
    backward(dh.w, &g.w, &u.w);
    faibench::cuda::store_four(G + at, count, g, whole_fours);
    faibench::cuda::store_four(U + at, count, u, whole_fours);
  }
};

// ---- everything kept: a kernel an operation, a thread an output ----

__global__ void times_transposed(const float* a, const float* b, float* out, Size M, Size N, Size K) {  // out = a @ b^T
  const Size n = Size{blockIdx.x} * blockDim.x + threadIdx.x;
  if (n >= N) return;
  for (Size m = Size{blockIdx.y} * blockDim.y + threadIdx.y; m < M; m += Size{gridDim.y} * blockDim.y) {
    float sum = 0;
    for (Size k = 0; k < K; ++k) sum += a[m * K + k] * b[n * K + k];
    out[m * N + n] = sum;
  }
}

__global__ void times(const float* a, const float* b, float* out, Size M, Size N, Size K) {  // out = a @ b
  const Size n = Size{blockIdx.x} * blockDim.x + threadIdx.x;
  if (n >= N) return;
  for (Size m = Size{blockIdx.y} * blockDim.y + threadIdx.y; m < M; m += Size{gridDim.y} * blockDim.y) {
    float sum = 0;
    for (Size k = 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];
    out[m * N + n] = sum;
  }
}

__global__ void silu(const float* g, float* a, Size n) {
  for (Size i = Size{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += Size{gridDim.x} * blockDim.x) a[i] = g[i] * (1 / (1 + expf(-g[i])));
}

__global__ void silu_gradient(const float* dh, const float* u, const float* g, float* dg, Size n) {
  for (Size i = Size{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += Size{gridDim.x} * blockDim.x) {
    const float sig = 1 / (1 + expf(-g[i]));
    dg[i] = dh[i] * u[i] * sig * (1 + g[i] * (1 - sig));
  }
}

__global__ void product_of_elements(const float* a, const float* b, float* out, Size n) {
  for (Size i = Size{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += Size{gridDim.x} * blockDim.x) out[i] = a[i] * b[i];
}

__global__ void sum_of_elements(const float* a, const float* b, float* out, Size n) {
  for (Size i = Size{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += Size{gridDim.x} * blockDim.x) out[i] = a[i] + b[i];
}

unsigned at_most(Size count, Size most) { return static_cast<unsigned>(count < most ? count : most); }

std::size_t floats(Size rows, Size columns) { return static_cast<std::size_t>(rows * columns) * sizeof(float); }

void zero(Result m) { faibench::cuda::fill(m.data(), 0, floats(m.extent(0), m.extent(1)), faibench::cuda::current_stream()); }

}  // namespace

void cuda_baseline::gated_mlp_fwd_bwd(Matrix x, Matrix w_gate, Matrix w_up, Matrix w_down, Matrix dy, Size, Result y, Result dx) {
  const Size T = x.extent(0), D = x.extent(1), F = w_gate.extent(0), n = T * F;
  if (T * D == 0) return;
  if (F == 0) return zero(y), zero(dx);
  const Workspace g(floats(T, F)), u(floats(T, F)), a(floats(T, F)), h(floats(T, F));
  const auto product = [](const char* name, auto kernel, const float* left, const float* right, float* out, Size M, Size N, Size K) {
    faibench::cuda::launch(name, kernel, {{static_cast<unsigned>((N + 31) / 32), at_most((M + 7) / 8, 65535)}, {32, 8}}, left, right, out, M, N, K);
  };
  const faibench::cuda::Shape elements{at_most((n + 255) / 256, 1 << 20), 256};
  product("times_transposed", times_transposed, x.data(), w_gate.data(), g.data<float>(), T, F, D);
  product("times_transposed", times_transposed, x.data(), w_up.data(), u.data<float>(), T, F, D);
  faibench::cuda::launch("silu", silu, elements, g.data<float>(), a.data<float>(), n);
  faibench::cuda::launch("product_of_elements", product_of_elements, elements, a.data<float>(), u.data<float>(), h.data<float>(), n);
  product("times_transposed", times_transposed, h.data<float>(), w_down.data(), y.data(), T, D, F);

  const Workspace dh(floats(T, F)), du(floats(T, F)), dg(floats(T, F)), of_gate(floats(T, D)), of_up(floats(T, D));
  product("times", times, dy.data(), w_down.data(), dh.data<float>(), T, F, D);
  faibench::cuda::launch("product_of_elements", product_of_elements, elements, dh.data<float>(), a.data<float>(), du.data<float>(), n);
  faibench::cuda::launch("silu_gradient", silu_gradient, elements, dh.data<float>(), u.data<float>(), g.data<float>(), dg.data<float>(), n);
  product("times", times, dg.data<float>(), w_gate.data(), of_gate.data<float>(), T, D, F);
  product("times", times, du.data<float>(), w_up.data(), of_up.data<float>(), T, D, F);
  faibench::cuda::launch("sum_of_elements", sum_of_elements, {at_most((T * D + 255) / 256, 1 << 20), 256}, of_gate.data<float>(), of_up.data<float>(), dx.data(), T * D);
}

void cuda::gated_mlp_fwd_bwd(Matrix x, Matrix w_gate, Matrix w_up, Matrix w_down, Matrix dy, Size chunk_size, Result y, Result dx) {
  const Size T = x.extent(0), D = x.extent(1), F = w_gate.extent(0);
  if (T * D == 0) return;
  if (F == 0) return zero(y), zero(dx);
  constexpr Size of_slack = Size{48} << 20;
  const Size chunk = chunk_size < T ? chunk_size : T, most = (4 * chunk * (6 * F + 4 * D) + of_slack) / (12 * F), blocks = (T + most - 1) / most, rows = (T + blocks - 1) / blocks;
  const Workspace memory(3 * floats(rows, F));
  float *const G = memory.data<float>(), *const U = G + rows * F, *const H = U + rows * F;
  const bool fours_of_f = aligned(U, F) && aligned(H, F), fours_of_d = aligned(y.data(), D) && aligned(dx.data(), D);
  for (Size first = 0; first < T; first += rows) {
    const Size n = rows < T - first ? rows : T - first, at = first * D;
    using faibench::cuda::multiply_tiles;
    multiply_tiles<true>("gate", Product{x.data() + at, w_gate.data(), D, D, D}, {}, n, F, StoreValues{G, F, fours_of_f});
    multiply_tiles<true>("up", Product{x.data() + at, w_up.data(), D, D, D}, {}, n, F, StoreForward{G, U, H, F, fours_of_f});
    multiply_tiles<true>("down", Product{H, w_down.data(), F, F, F}, {}, n, D, StoreValues{y.data() + at, D, fours_of_d});
    multiply_tiles<false>("down_back", Product{dy.data() + at, w_down.data(), D, F, D}, {}, n, F, StoreBackward{G, U, F, fours_of_f});
    multiply_tiles<false>("gate_and_up_back", Product{G, w_gate.data(), F, D, F}, Product{U, w_up.data(), F, D, F}, n, D, StoreValues{dx.data() + at, D, fours_of_d});
  }
}

}  // namespace faibench::chunked_swiglu_recompute
