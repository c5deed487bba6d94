// A 64x64 tile goes through shared memory with 16-byte accesses on every side. A thread loads a 4x4 block of x, transposes it in registers and stores four lines of four into the tile;
// then the tile is read and y written row by row:
//
//   x rows  --16 B, 256 B a half warp-->  4x4 in registers  --16 B-->  tile[64][16 x float4]  --16 B-->  y rows, 256 B a half warp
//
// Column c of four in row r of the tile lies at c ^ (r / 4): eight neighbouring lanes (one phase of a 16-byte access) then touch all 32 banks both ways, with no padding.
// Where a row of x or y does not start at a multiple of 16 bytes, the same tile is filled and emptied element by element. Blocks walk over tiles, so that any M and N fit the grid.
// Bound: 8*M*N bytes. Expected on sm_80 and sm_90: 85 to 90 % of what a copy reaches; 16 KiB of shared memory and about 40 registers leave 6 blocks of 256 threads a multiprocessor,
// 96 KiB under way where latency times bandwidth wants about 40.
#include "cuda/kernel.h"
#include "cuda/vector.h"
#include "kernels/linalg/coalesced_matrix_transpose/coalesced_matrix_transpose.h"

namespace faibench::coalesced_matrix_transpose {
namespace {

using Size = std::int64_t;
constexpr int tile = 64, fours = tile / 4, threads = fours * fours;
constexpr int blocks_at_once = 132 * 6;

__device__ int place(int row, int column_of_four) { return row * fours + (column_of_four ^ (row / 4 % fours)); }

/// Four of a row from `column` on, of which those below `columns` exist.
template <bool whole_fours>
__device__ float4 load_four(const float* at, Size column, Size columns) {
  if constexpr (whole_fours) return *reinterpret_cast<const float4*>(at);
  return make_float4(at[0], column + 1 < columns ? at[1] : 0, column + 2 < columns ? at[2] : 0, column + 3 < columns ? at[3] : 0);
}

template <bool whole_fours>
__device__ void store_four(float* at, Size column, Size columns, float4 v) {
  if constexpr (whole_fours) {
    *reinterpret_cast<float4*>(at) = v;
  } else {
    at[0] = v.x;
    if (column + 1 < columns) at[1] = v.y;
    if (column + 2 < columns) at[2] = v.z;
    if (column + 3 < columns) at[3] = v.w;
  }
}

template <bool whole_fours>
__global__ void __launch_bounds__(threads) transpose_tiles(const float* __restrict__ x, float* __restrict__ y, Size M, Size N) {
  __shared__ float4 lines[tile * fours];
  const int across = static_cast<int>(threadIdx.x) % fours, down = static_cast<int>(threadIdx.x) / fours;
  const Size columns = (N + tile - 1) / tile, count = (M + tile - 1) / tile * columns;
  for (Size t = blockIdx.x; t < count; t += gridDim.x) {
    const Size row = t / columns * tile, column = t % columns * tile;
    if (const Size j = column + 4 * across; j < N) {
      float4 r[4];
      for (int k = 0; k < 4; ++k) {
        const Size i = row + 4 * down + k;
        r[k] = i < M ? load_four<whole_fours>(x + i * N + j, j, N) : make_float4(0, 0, 0, 0);
      }
      lines[place(4 * across + 0, down)] = make_float4(r[0].x, r[1].x, r[2].x, r[3].x);
      lines[place(4 * across + 1, down)] = make_float4(r[0].y, r[1].y, r[2].y, r[3].y);
      lines[place(4 * across + 2, down)] = make_float4(r[0].z, r[1].z, r[2].z, r[3].z);
      lines[place(4 * across + 3, down)] = make_float4(r[0].w, r[1].w, r[2].w, r[3].w);
    }
    __syncthreads();
    if (const Size i = row + 4 * across; i < M)
      for (int k = 0; k < 4; ++k)
        if (const Size j = column + down + fours * k; j < N) store_four<whole_fours>(y + j * M + i, i, M, lines[place(down + fours * k, across)]);
    __syncthreads();  // the next tile overwrites this one
  }
}

__global__ void transpose_elements(const float* x, float* y, Size M, Size N) {
  const Size j = Size{blockIdx.x} * blockDim.x + threadIdx.x;
  for (Size i = Size{blockIdx.y} * blockDim.y + threadIdx.y; i < M; i += Size{gridDim.y} * blockDim.y)
    if (j < N) y[j * M + i] = x[i * N + j];
}

unsigned at_most(Size count, Size most) { return static_cast<unsigned>(count < most ? count : most); }

}  // namespace

void cuda_baseline::transpose(View<const float, 2> x, View<float, 2> y) {
  const Size M = x.extent(0), N = x.extent(1);
  if (M == 0 || N == 0) return;
  faibench::cuda::launch("transpose_elements", transpose_elements, {{static_cast<unsigned>((N + 31) / 32), at_most((M + 7) / 8, 65535)}, {32, 8}}, x.data(), y.data(), M, N);
}

void cuda::transpose(View<const float, 2> x, View<float, 2> y) {
  const Size M = x.extent(0), N = x.extent(1);
  if (M == 0 || N == 0) return;
  const bool whole_fours = faibench::cuda::aligned(x.data(), N) && faibench::cuda::aligned(y.data(), M);
  const Size count = (M + tile - 1) / tile * ((N + tile - 1) / tile);
  faibench::cuda::launch("transpose_tiles", whole_fours ? transpose_tiles<true> : transpose_tiles<false>, {at_most(count, blocks_at_once), threads}, x.data(), y.data(), M, N);
}

}  // namespace faibench::coalesced_matrix_transpose
