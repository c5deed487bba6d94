// The product in 128x128x16 tiles with 8x8 sums a thread (cuda/tile_product.h), alpha and beta*C in its epilogue. The tiles never see alpha, so that the sums are
// exact where f32 is.
// Bound at 4096^3: 137 GFLOP, so f32 multiply-adds. Expected shares of that peak:
//   multiply<Large>  sm_90 75 %, sm_80 85 %: 16 warps a multiprocessor (two blocks, 126 registers, 64 KiB) hide shared memory, which works half of the time (a quarter
//                    on sm_80); loads, addresses and barriers take 10 % of the issue slots, and 1024 blocks in rounds of 264 leave 3 % idle. cuBLAS reaches about 80
//                    and 92 %.
//   multiply<Small>  30 to 40 %: twice the loads a multiply-add. It is for fewer than 132 large tiles, where it keeps more multiprocessors busy.
//   one_output       10 to 15 %: two loads a multiply-add, from the caches.
// Up to 8 rows are bound by reading B once: a thread keeps four columns of all rows, eight warps share a block's steps, blocks share K, and a second kernel adds their
// parts.
//   few_rows         75 % of the memory's bandwidth at (7, 11008, 4096), 60 % with both launches at (1, 4096, 4096), 64 MiB: four loads of 16 bytes under way a
//                    thread, 512 to 1024 threads, so 32 to 64 KiB a multiprocessor where latency times bandwidth wants about 40. A comes from shared memory, 16 bytes
//                    for four steps.
//   add_parts        adds 16 or so numbers for each of M*N: 3 us.
#include "cuda/kernel.h"
#include "cuda/runtime.h"
#include "cuda/tile_product.h"
#include "cuda/vector.h"
#include "kernels/linalg/sgemm_register_blocktiling/sgemm_register_blocktiling.h"

namespace faibench::sgemm_register_blocktiling {
namespace {

using Size = std::int64_t;
using faibench::cuda::aligned;

/// alpha*sum + beta*addend, of which each term is there only where the contract lets its operands be read.
struct Scaled {
  float alpha, beta;
  bool product, addend;
  __device__ float operator()(float sum, const float* c) const {
    if (!addend) return product ? alpha * sum : 0;
    return product ? fmaf(alpha, sum, beta * *c) : beta * *c;
  }
};

struct StoreScaled {
  Scaled scaled;
  const float* c;
  float* d;
  Size stride;
  bool whole_fours;
  __device__ void operator()(Size row, Size column, int count, float4 sum) const {
    const Size at = row * stride + column;
    float4 result = make_float4(0, 0, 0, 0);
    if (whole_fours && scaled.addend) {
      const float4 addend = *reinterpret_cast<const float4*>(c + at);
      result = make_float4(scaled(sum.x, &addend.x), scaled(sum.y, &addend.y), scaled(sum.z, &addend.z), scaled(sum.w, &addend.w));
    } else {
      result.x = scaled(sum.x, c + at);
      if (count > 1) result.y = scaled(sum.y, c + at + 1);
      if (count > 2) result.z = scaled(sum.z, c + at + 2);
      if (count > 3) result.w = scaled(sum.w, c + at + 3);
    }
    faibench::cuda::store_four(d + at, count, result, whole_fours);
  }
};

// ---- few rows ----

constexpr int few = 8, few_threads = 256, few_warps = few_threads / 32, few_columns = 128, few_steps = 256, steps_of_warp = few_steps / few_warps;

/// parts[s][i][j]: what the s-th `each` steps (a multiple of few_steps) add to the product. A block has 128 columns, of which a lane has four: neighbours where rows
/// of B start at multiples of 16 bytes (whole_fours), else each 32nd.
template <int rows, bool whole_fours>
__global__ void __launch_bounds__(few_threads, rows > 4 ? 2 : 4) few_rows(const float* a, const float* b, float* parts, Size M, Size N, Size K, Size each) {
  __shared__ float4 a_part[rows][few_steps / 4];
  __shared__ float of_warps[few_warps][rows][few_columns];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const Size wide = (N + few_columns - 1) / few_columns, first_column = blockIdx.x % wide * few_columns, part = blockIdx.x / wide;
  const Size first = part * each, end = first + each < K ? first + each : K;
  const auto column = [&](int j) { return whole_fours ? 4 * lane + j : lane + 32 * j; };

  float sums[rows][4] = {};
  const auto load_b = [&](Size k) {
    const float* row = b + k * N + first_column;
    float4 values = make_float4(0, 0, 0, 0);
    if constexpr (whole_fours) {
      if (first_column + column(0) < N) values = *reinterpret_cast<const float4*>(row + column(0));
    } else {
      if (first_column + column(0) < N) values.x = row[column(0)];
      if (first_column + column(1) < N) values.y = row[column(1)];
      if (first_column + column(2) < N) values.z = row[column(2)];
      if (first_column + column(3) < N) values.w = row[column(3)];
    }
    return values;
  };
  const auto add = [&](int i, float x, float4 values) {
    sums[i][0] = fmaf(x, values.x, sums[i][0]);
    sums[i][1] = fmaf(x, values.y, sums[i][1]);
    sums[i][2] = fmaf(x, values.z, sums[i][2]);
    sums[i][3] = fmaf(x, values.w, sums[i][3]);
  };
  for (Size k = first; k < end; k += few_steps) {
    __syncthreads();  // nobody reads the steps before any more
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const Size step = k + threadIdx.x;
      reinterpret_cast<float*>(a_part[i])[threadIdx.x] = i < M && step < end ? a[i * K + step] : 0;
    }
    __syncthreads();
    const int begin = warp * steps_of_warp, there = end - k - begin < steps_of_warp ? static_cast<int>(end - k) - begin : steps_of_warp;
    int s = 0;
    for (; s + 4 <= there; s += 4) {
      float4 values[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) values[n] = load_b(k + begin + s + n);
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        const float4 x = a_part[i][(begin + s) / 4];
        add(i, x.x, values[0]);
        add(i, x.y, values[1]);
        add(i, x.z, values[2]);
        add(i, x.w, values[3]);
      }
    }
    for (; s < there; ++s) {
      const float4 values = load_b(k + begin + s);
#pragma unroll
      for (int i = 0; i < rows; ++i) add(i, reinterpret_cast<const float*>(a_part[i])[begin + s], values);
    }
  }
#pragma unroll
  for (int i = 0; i < rows; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) of_warps[warp][i][column(j)] = sums[i][j];
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < rows * few_columns; e += few_threads) {
    const int i = e / few_columns, j = e % few_columns;
    float sum = 0;
    for (int w = 0; w < few_warps; ++w) sum += of_warps[w][i][j];
    if (i < M && first_column + j < N) parts[(part * M + i) * N + first_column + j] = sum;
  }
}

__global__ void __launch_bounds__(few_threads) add_parts(const float* parts, Size count, Size elements, Scaled scaled, const float* c, float* d) {
  const Size e = Size{blockIdx.x} * few_threads + threadIdx.x;
  if (e >= elements) return;
  float sum = 0;
  for (Size part = 0; part < count; ++part) sum += parts[part * elements + e];
  d[e] = scaled(sum, c + e);
}

template <bool whole_fours>
auto few_rows_of(Size M) {
  return M == 1 ? few_rows<1, whole_fours> : M == 2 ? few_rows<2, whole_fours> : M <= 4 ? few_rows<4, whole_fours> : few_rows<few, whole_fours>;
}

void multiply_few_rows(const float* a, const float* b, const Scaled& scaled, const float* c, float* d, Size M, Size N, Size K) {
  const Size wide = (N + few_columns - 1) / few_columns, chunks = (K + few_steps - 1) / few_steps, wanted = 4 * faibench::cuda::multiprocessors() / wide;
  const Size most = wanted < 1 ? 1 : wanted, chunks_each = (chunks + most - 1) / most, count = (chunks + chunks_each - 1) / chunks_each;
  const faibench::cuda::Workspace parts(static_cast<std::size_t>(count * M * N) * sizeof(float));
  const bool whole_fours = aligned(b, N);
  faibench::cuda::launch("few_rows", whole_fours ? few_rows_of<true>(M) : few_rows_of<false>(M), {static_cast<unsigned>(wide * count), few_threads},
                         a, b, parts.data<float>(), M, N, K, chunks_each * few_steps);
  faibench::cuda::launch("add_parts", add_parts, {static_cast<unsigned>((M * N + few_threads - 1) / few_threads), few_threads},
                         static_cast<const float*>(parts.data<float>()), count, M * N, scaled, c, d);
}

__global__ void one_output(const float* a, const float* b, const float* c, Scaled scaled, float* d, Size M, Size N, Size K) {
  const Size j = Size{blockIdx.x} * blockDim.x + threadIdx.x;
  if (j >= N) return;
  for (Size i = Size{blockIdx.y} * blockDim.y + threadIdx.y; i < M; i += Size{gridDim.y} * blockDim.y) {
    float sum = 0;
    if (scaled.product)
      for (Size k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
    d[i * N + j] = scaled(sum, c + i * N + j);
  }
}

}  // namespace

void cuda_baseline::sgemm(View<const float, 2> A, View<const float, 2> B, View<const float, 2> C, float alpha, float beta, View<float, 2> D) {
  const Size M = A.extent(0), K = A.extent(1), N = B.extent(1);
  if (M == 0 || N == 0) return;
  const auto rows = static_cast<unsigned>((M + 7) / 8 < 65535 ? (M + 7) / 8 : 65535);
  faibench::cuda::launch("one_output", one_output, {{static_cast<unsigned>((N + 31) / 32), rows}, {32, 8}}, A.data(), B.data(), C.data(),
                         Scaled{alpha, beta, alpha != 0 && K > 0, beta != 0}, D.data(), M, N, K);
}

void cuda::sgemm(View<const float, 2> A, View<const float, 2> B, View<const float, 2> C, float alpha, float beta, View<float, 2> D) {
  const Size M = A.extent(0), K = A.extent(1), N = B.extent(1);
  const bool product = alpha != 0 && K > 0, addend = beta != 0;
  if (product && 0 < M && M <= few && N > 0) return multiply_few_rows(A.data(), B.data(), {alpha, beta, product, addend}, C.data(), D.data(), M, N, K);
  const StoreScaled store{{alpha, beta, product, addend}, C.data(), D.data(), N, aligned(D.data(), N) && (!addend || aligned(C.data()))};
  faibench::cuda::multiply_tiles<false>("multiply", product ? faibench::cuda::Product{A.data(), B.data(), K, N, K} : faibench::cuda::Product{}, {}, M, N, store);
}

}  // namespace faibench::sgemm_register_blocktiling
