// The product in 128x128x16 tiles with 8x8 sums a thread (cuda/tile_product.h), alpha and beta*C in its epilogue. The tiles never see alpha, so that the sums are exact where f32 is.
// Bound at 4096^3: 137 GFLOP, so f32 multiply-adds. Expected shares of that peak:
//   multiply<Large>  sm_90 75 %, sm_80 85 %: 16 warps a multiprocessor (two blocks, 126 registers, 64 KiB) hide shared memory, which works half of the time (a quarter on sm_80); loads, addresses
//                    and barriers take 10 % of the issue slots, and 1024 blocks in rounds of 264 leave 3 % idle. cuBLAS reaches about 80 and 92 %.
//   multiply<Small>  30 to 40 %: twice the loads a multiply-add. It is for fewer than 132 large tiles, where it keeps more multiprocessors busy.
//   one_output       10 to 15 %: two loads a multiply-add, from the caches.
// Steps with 1 or 7 rows are bound by reading B: a small tile then wastes most of its rows, 128 blocks reach about half of the memory's bandwidth.
#include "cuda/kernel.h"
#include "cuda/tile_product.h"
#include "kernels/linalg/sgemm_register_blocktiling/sgemm_register_blocktiling.h"

namespace faibench::sgemm_register_blocktiling {
namespace {

using Size = std::int64_t;

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
  faibench::cuda::launch("one_output", one_output, {{static_cast<unsigned>((N + 31) / 32), rows}, {32, 8}}, A.data(), B.data(), C.data(), Scaled{alpha, beta, alpha != 0 && K > 0, beta != 0}, D.data(),
                         M, N, K);
}

void cuda::sgemm(View<const float, 2> A, View<const float, 2> B, View<const float, 2> C, float alpha, float beta, View<float, 2> D) {
  const Size M = A.extent(0), K = A.extent(1), N = B.extent(1);
  const bool product = alpha != 0 && K > 0, addend = beta != 0;
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  const StoreScaled store{{alpha, beta, product, addend}, C.data(), D.data(), N, N % 4 == 0 && aligned(D.data()) && (!addend || aligned(C.data()))};
  faibench::cuda::multiply_tiles<false>("multiply", product ? faibench::cuda::Product{A.data(), B.data(), K, N, K} : faibench::cuda::Product{}, {}, M, N, store);
}

}  // namespace faibench::sgemm_register_blocktiling
