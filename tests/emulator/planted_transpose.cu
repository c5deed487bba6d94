#include "emulator/planted_transpose.h"

#include "cuda/kernel.h"

namespace faibench::planted {
namespace {

using Size = std::int64_t;
constexpr int tile = 16;

__global__ void short_rows(const float* x, float* y, Size M, Size N) {
  const Size i = Size{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= M) return;
  for (Size j = 0; j < N / 2 * 2; ++j) y[j * M + i] = x[i * N + j];
}

__global__ void planted_tiles(const float* x, float* y, Size M, Size N) {
  __shared__ float part[tile][tile];
  const int a = static_cast<int>(threadIdx.x), b = static_cast<int>(threadIdx.y);
  const Size columns = (N + tile - 1) / tile, row = blockIdx.x / columns * tile, column = blockIdx.x % columns * tile;
  part[b][a] = row + b < M && column + a < N ? x[(row + b) * N + column + a] : 0;
  if (row + a < M && column + b < N) y[(column + b) * M + row + a] = part[a][b];
}

}  // namespace

void transpose_without_the_tail(View<const float, 2> x, View<float, 2> y) {
  const Size M = x.extent(0), N = x.extent(1);
  if (M == 0 || N == 0) return;
  faibench::cuda::launch("short_rows", short_rows, {static_cast<unsigned>((M + 255) / 256), 256}, x.data(), y.data(), M, N);
}

void transpose_without_the_barrier(View<const float, 2> x, View<float, 2> y) {
  const Size M = x.extent(0), N = x.extent(1);
  if (M == 0 || N == 0) return;
  faibench::cuda::launch("planted_tiles", planted_tiles, {static_cast<unsigned>((M + tile - 1) / tile * ((N + tile - 1) / tile)), {tile, tile}}, x.data(), y.data(), M, N);
}

}  // namespace faibench::planted
