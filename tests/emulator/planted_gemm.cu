#include "emulator/planted_gemm.h"

#include <cuda_fp16.h>

#include "cuda/kernel.h"

namespace faibench::planted {
namespace {

using faibench::cuda::copy_async;

constexpr int rows = 32, columns = 16, step = 16, chunk = 8, threads = 64;

struct Problem {
  const __half *A, *B;
  __half* C;
  int M, N, K;
  bool chunks, pairs;  // 16-byte loads of A and B, 4-byte stores of C
  GemmBug bug;
};

/// Chunk `c` of row `r` of a matrix of `height` rows of `width`, zeros past its edges.
__device__ void copy_chunk(const Problem& p, __half* to, const __half* from, int r, int height, int c, int width) {
  const bool inside = r < height && c < width;
  if (p.chunks) {
    copy_async<16>(to, from + r * width + c, inside ? 16 : 0);
    return;
  }
  for (int i = 0; i < chunk; ++i) to[i] = r < height && (c + i < width || p.bug == GemmBug::chunk_past_the_row) ? from[r * width + c + i] : __half(__half_raw{0});
}

__global__ void multiply_kernel(Problem p) {
  __shared__ __align__(16) __half a[2][rows][step];
  __shared__ __align__(16) __half b[2][step][columns];
  const GemmBug bug = p.bug;
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp = t / 32;
  const int row = static_cast<int>(blockIdx.y) * rows, column = static_cast<int>(blockIdx.x) * columns;
  const int steps = bug == GemmBug::last_step_lost ? p.K / step : (p.K + step - 1) / step;
  const auto copy_step = [&](int s) {
    const int r = t / 2, c = t % 2 * chunk;
    copy_chunk(p, &a[s % 2][r][c], p.A, row + r, bug == GemmBug::row_past_the_end ? p.M + 1 : p.M, s * step + c, p.K);
    if (r < step && (bug != GemmBug::tail_not_cleared || s * step + r < p.K)) copy_chunk(p, &b[s % 2][r][c], p.B, s * step + r, p.K, column + c, p.N);
  };
  float sums[2][4] = {};
  if (steps > 0) copy_step(0);
  faibench::cuda::commit_copies();
  for (int s = 0; s < steps; ++s) {
    if (s + 1 < steps) copy_step(s + 1);
    faibench::cuda::commit_copies();
    if (bug == GemmBug::waits_for_the_wrong_copies) faibench::cuda::wait_copies<2>();
    else faibench::cuda::wait_copies<1>();
    if (bug != GemmBug::no_barrier_after_copies) __syncthreads();
    std::uint32_t x[4], y[4];
    const int from = bug == GemmBug::rows_of_a_from_the_other_warp ? 1 - warp : warp;
    faibench::cuda::load_matrix_x4(x, &a[s % 2][16 * from + lane % 16][lane / 16 * chunk]);
    if (bug == GemmBug::b_not_transposed) faibench::cuda::load_matrix_x4(y, &b[s % 2][lane % 16][lane / 16 * chunk]);
    else faibench::cuda::load_matrix_x4_transposed(y, &b[s % 2][lane % 16][lane / 16 * chunk]);
    if (bug == GemmBug::registers_of_a_swapped) {
      const std::uint32_t kept = x[1];
      x[1] = x[2];
      x[2] = kept;
    }
    for (int j = 0; j < 2; ++j) {
      const int of = bug == GemmBug::columns_of_b_swapped ? 1 - j : j;
      const std::uint32_t two[2] = {y[2 * of], y[2 * of + 1]};
      faibench::cuda::multiply_16x8x16<__half>(sums[j], x, two);
      if (bug == GemmBug::sums_in_f16)
        for (float& sum : sums[j]) sum = __half2float(__float2half_rn(sum));
    }
    if (bug != GemmBug::no_barrier_before_next_copies) __syncthreads();
  }
  const int apart = bug == GemmBug::rows_of_sums_mixed ? 4 : 8;
  for (int j = 0; j < 2; ++j)
    for (int half = 0; half < 2; ++half) {
      const int r = row + 16 * warp + lane / 4 + apart * half, c = column + 8 * j + lane % 4 * 2;
      const auto round = [bug](float sum) { return bug == GemmBug::truncates ? __float2half_rz(sum) : __float2half_rn(sum); };
      const __half first = round(sums[j][2 * half]), second = round(sums[j][2 * half + 1]);
      if (r >= p.M) continue;
      if (p.pairs && c + 1 < p.N) {
        *reinterpret_cast<__half2*>(p.C + r * p.N + c) = __halves2half2(first, second);
      } else {
        if (c < p.N) p.C[r * p.N + c] = first;
        if (c + 1 < p.N || (bug == GemmBug::column_past_the_end && c + 1 == p.N)) p.C[r * p.N + c + 1] = second;
      }
    }
}

}  // namespace

void multiply_f16(View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C, GemmBug bug) {
  const int M = static_cast<int>(C.extent(0)), N = static_cast<int>(C.extent(1)), K = static_cast<int>(A.extent(1));
  if (M == 0 || N == 0) return;
  const int multiple = bug == GemmBug::multiple_of_4_for_8 ? 4 : 8;
  const Problem problem{reinterpret_cast<const __half*>(A.data()), reinterpret_cast<const __half*>(B.data()), reinterpret_cast<__half*>(C.data()), M, N, K,
                        K % multiple == 0 && N % multiple == 0, N % 2 == 0 || bug == GemmBug::pairs_in_odd_rows, bug};
  faibench::cuda::launch("multiply_f16", multiply_kernel, {dim3(static_cast<unsigned>((N + columns - 1) / columns), static_cast<unsigned>((M + rows - 1) / rows)), threads}, problem);
}

}  // namespace faibench::planted
