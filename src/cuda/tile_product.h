// A product of f32 matrices in tiles, for .cu files: P = A*B, or A*B + A2*B2 in one go, with the result handed to an epilogue instead of stored. A is row-major
// [M, K]; B is row-major [K, N] or, `transposed`, [N, K] (a layer's weight).
//
//   device --cp.async, two tiles of 16 steps in turn--> shared memory --> 8 rows of 4 steps times a column of 4 steps, or of 2 steps times 8 columns of each
//   --> 8x8 sums a thread
//
// A large tile is 128x128 outputs of 256 threads, eight warps of 32x64; a small one, for products that would leave multiprocessors idle, 32x32 of 64 threads with 4x4
// each. Both operands keep their order in shared memory, so that nothing is transposed on the way and every copy takes 16 bytes where rows start at multiples of 16
// bytes (4 elsewhere). Steps past the last are zeros in both operands; rows past M and columns past N are zeros that reach only sums which nobody stores, so that an
// Inf beside a ragged edge stays where it belongs.
//
// Banks: a line of 16 steps is four float4; that of steps 4q..4q+3 of line r lies at q ^ (r / 4 % 4). Eight lanes of a copy fill two lines, all 32 banks. A lane has
// rows 4*m .. 4*m + 3 (m: lane bits 1, 2) and columns 4*n .. 4*n + 3 (n: bits 0, 3, 4), and as many further on: a half warp reads four different addresses at a time,
// which the swizzle (in rows of B their neighbourhood) puts on different banks, and neighbouring lanes share addresses, so that a load of 16 bytes takes two
// wavefronts and one of 8 bytes one. That is 32 wavefronts (transposed) or 24 for 256 multiply-adds of a warp: with four schedulers at one a cycle (sm_90) shared
// memory is busy half of the time, at one every two cycles (sm_80) a quarter. Loads, addresses and barriers take 10 % of what a scheduler issues. The kernels of large
// tiles stand just below 128 registers, so that two blocks fit a multiprocessor: an epilogue that computes much may make them spill.
#pragma once
#include <cstdint>

#include "cuda/kernel.h"
#include "cuda/runtime.h"

namespace faibench::cuda {

using Size = std::int64_t;

/// One product, or the first or second of a sum: `steps` is the inner dimension, `a_stride` and `b_stride` the floats from one row in memory to the next. Nothing is
/// read where it is 0.
struct Product {
  const float* a = nullptr;
  const float* b = nullptr;
  Size a_stride = 0, b_stride = 0, steps = 0;
};

namespace tile_product {

constexpr int depth = 16, fours = depth / 4;  ///< steps of a tile
constexpr int rows_of_lanes = 4, columns_of_lanes = 8;

/// A thread has own x own outputs, a warp 4 x 8 threads, a block warp_rows x warp_columns warps.
template <int own_, int warp_rows, int warp_columns, int blocks_>
struct Tile {
  static constexpr int own = own_, blocks = blocks_, threads = 32 * warp_rows * warp_columns;
  static constexpr int warp_height = own * rows_of_lanes, warp_width = own * columns_of_lanes, across = warp_columns;
  static constexpr int rows = warp_height * warp_rows, columns = warp_width * warp_columns;
};
using Large = Tile<8, 4, 2, 2>;  // 128x128, 32 KiB, two blocks a multiprocessor: at most 128 registers
using Small = Tile<4, 2, 1, 8>;  // 32x32, 8 KiB

__device__ inline int place_in_lines(int line, int step) { return (line * fours + (step / 4 ^ (line / 4 % fours))) * 4 + step % 4; }
__device__ inline int clamped(Size value, int most) { return value < 0 ? 0 : value > most ? most : static_cast<int>(value); }  // 0 .. most

/// This thread's share of the copies that fill tile after tile of a matrix in device memory with lines of `width` floats, 16 bytes or one float at a time.
/// `lines` x `width` is a tile's shape; of the matrix `there` lines exist from the tile's first on, and `wide` floats of each.
template <int lines, int width, int threads, bool whole_fours>
struct Copies {
  static constexpr int unit = whole_fours ? 4 : 1, across = width / unit, lines_at_once = threads / across;
  static_assert(threads % across == 0 && lines % lines_at_once == 0);
  const float* at;
  Size stride;
  int line, column;

  __device__ Copies(const float* first, Size stride_)
      : stride(stride_), line(static_cast<int>(threadIdx.x) / across), column(static_cast<int>(threadIdx.x) % across * unit) {
    at = first + line * stride + column;
  }
  /// `place_of(line, column)`: index of a float in the tile.
  template <class PlaceOf>
  __device__ __forceinline__ void start(float* tile, int there, int wide, PlaceOf place_of) const {
    const int taken = clamped(wide - column, unit);
#pragma unroll(whole_fours ? lines / lines_at_once : 1)
    for (int c = 0; c < lines / lines_at_once; ++c) {
      const bool exists = line + c * lines_at_once < there && taken > 0;
      copy_async<4 * unit>(tile + place_of(line + c * lines_at_once, column), exists ? at + c * lines_at_once * stride : at, exists ? 4 * taken : 0);
    }
  }
};

/// The thread's i-th line (or column) of a tile, counted from its first: four neighbours, then as many from `lanes` * 4 further on, whose swizzle is the same.
template <int lanes>
__device__ constexpr int further(int i) { return i / 4 * 4 * lanes + i % 4; }

// The 16 steps of a tile: A's lines of steps times B's, or times a row of B for each step. row, column: this thread's first, multiples of 4. The outer loops stay
// loops: unrolled they want more than 128 registers, for addresses.
template <class T>
__device__ __forceinline__ void multiply_lines(float (&sums)[T::own][T::own], const float4* a_tile, const float4* b_tile, int row, int column) {
  const int a_swizzle = row / 4 % fours, b_swizzle = column / 4 % fours;
#pragma unroll 1
  for (int four = 0; four < fours; ++four) {
    float4 a[T::own];
#pragma unroll
    for (int i = 0; i < T::own; ++i) a[i] = a_tile[(row + further<rows_of_lanes>(i)) * fours + (four ^ a_swizzle)];
#pragma unroll
    for (int j = 0; j < T::own; ++j) {
      const float4 b = b_tile[(column + further<columns_of_lanes>(j)) * fours + (four ^ b_swizzle)];
#pragma unroll
      for (int i = 0; i < T::own; ++i) sums[i][j] = fmaf(a[i].w, b.w, fmaf(a[i].z, b.z, fmaf(a[i].y, b.y, fmaf(a[i].x, b.x, sums[i][j]))));
    }
  }
}

template <class T>
__device__ __forceinline__ void multiply_rows(float (&sums)[T::own][T::own], const float4* a_tile, const float4* b_tile, int row, int column) {
  const int swizzle = row / 4 % fours;
#pragma unroll 1
  for (int pair = 0; pair < depth / 2; ++pair) {
    float2 a[T::own];
#pragma unroll
    for (int i = 0; i < T::own; ++i) a[i] = reinterpret_cast<const float2*>(&a_tile[(row + further<rows_of_lanes>(i)) * fours + (pair / 2 ^ swizzle)])[pair % 2];
#pragma unroll
    for (int step = 0; step < 2; ++step)
#pragma unroll
      for (int j = 0; j < T::own; j += 4) {
        const float4 b = b_tile[(2 * pair + step) * (T::columns / 4) + (column + further<columns_of_lanes>(j)) / 4];
#pragma unroll
        for (int i = 0; i < T::own; ++i) {
          const float x = step == 0 ? a[i].x : a[i].y;
          sums[i][j] = fmaf(x, b.x, sums[i][j]);
          sums[i][j + 1] = fmaf(x, b.y, sums[i][j + 1]);
          sums[i][j + 2] = fmaf(x, b.z, sums[i][j + 2]);
          sums[i][j + 3] = fmaf(x, b.w, sums[i][j + 3]);
        }
      }
  }
}

/// Tile of this block: eight rows of tiles are walked column by column, so that blocks that run at one time share both operands in the L2 cache.
template <class T>
__device__ void tile_of_block(Size M, Size N, Size* row, Size* column) {
  const Size tall = (M + T::rows - 1) / T::rows, wide = (N + T::columns - 1) / T::columns, band = blockIdx.x / (8 * wide), in_band = blockIdx.x % (8 * wide);
  const Size height = tall - 8 * band < 8 ? tall - 8 * band : 8;
  *row = (8 * band + in_band % height) * T::rows;
  *column = in_band / height * T::columns;
}

template <class T, bool transposed, bool whole_fours, class Epilogue>
__global__ void __launch_bounds__(T::threads, T::blocks) multiply(Product first, Product second, Size M, Size N, Epilogue epilogue) {
  __shared__ float4 a_tiles[2][T::rows * fours];
  __shared__ float4 b_tiles[2][T::columns * fours];
  Size tile_row, tile_column;
  tile_of_block<T>(M, N, &tile_row, &tile_column);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int row = warp / T::across * T::warp_height + 4 * (lane / 2 % 4);
  const int column = warp % T::across * T::warp_width + 4 * (lane % 2 + lane / 8 * 2);

  const int height = clamped(M - tile_row, T::rows), width = clamped(N - tile_column, T::columns);

  float sums[T::own][T::own] = {};
#pragma unroll 1
  for (int part = 0; part < 2; ++part) {
    const float *a = part == 0 ? first.a : second.a, *b = part == 0 ? first.b : second.b;
    const Size a_stride = part == 0 ? first.a_stride : second.a_stride, b_stride = part == 0 ? first.b_stride : second.b_stride;
    Size left = part == 0 ? first.steps : second.steps;  // of which no copy has been started
    if (left == 0) continue;
    Copies<T::rows, depth, T::threads, whole_fours> a_copies(a + tile_row * a_stride, a_stride);
    Copies<transposed ? T::columns : depth, transposed ? depth : T::columns, T::threads, whole_fours> b_copies(
        b + (transposed ? tile_column * b_stride : tile_column), b_stride);
    int buffer = 0;
    const auto start_copies = [&] {
      const int steps = clamped(left, depth);
      a_copies.start(reinterpret_cast<float*>(a_tiles[buffer]), height, steps, place_in_lines);
      if constexpr (transposed) b_copies.start(reinterpret_cast<float*>(b_tiles[buffer]), width, steps, place_in_lines);
      else b_copies.start(reinterpret_cast<float*>(b_tiles[buffer]), steps, width, [](int step, int c) { return step * T::columns + c; });
      commit_copies();
      a_copies.at += depth;
      b_copies.at += transposed ? depth : depth * b_stride;
      left -= depth;
      buffer ^= 1;
    };
    __syncthreads();  // nobody reads the tiles of the first product any more
    start_copies();
    for (bool last = false; !last;) {
      wait_copies<0>();
      __syncthreads();  // this tile is there for all, and nobody reads the one before any more
      const int ready = buffer ^ 1;
      last = left <= 0;
      if (!last) start_copies();
      if constexpr (transposed) multiply_lines<T>(sums, a_tiles[ready], b_tiles[ready], row, column);
      else multiply_rows<T>(sums, a_tiles[ready], b_tiles[ready], row, column);
    }
  }

#pragma unroll
  for (int i = 0; i < T::own; ++i) {
    const Size r = tile_row + row + further<rows_of_lanes>(i);
#pragma unroll
    for (int j = 0; j < T::own; j += 4) {
      const Size c = tile_column + column + further<columns_of_lanes>(j);
      if (r < M && c < N) epilogue(r, c, clamped(N - c, 4), make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]));
    }
    __syncwarp();  // the compiler starts no row's loads before the last one's stores: their addresses and values together would not fit the registers
  }
}

template <class T, bool transposed, class Epilogue>
void launch_multiply(const char* name, bool whole_fours, const Product& first, const Product& second, Size M, Size N, const Epilogue& epilogue) {
  const auto blocks = static_cast<unsigned>((M + T::rows - 1) / T::rows * ((N + T::columns - 1) / T::columns));
  launch(name, whole_fours ? multiply<T, transposed, true, Epilogue> : multiply<T, transposed, false, Epilogue>, {blocks, T::threads}, first, second, M, N, epilogue);
}

inline bool of_fours(const Product& product) {
  const auto aligned = [](const float* at, Size stride) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0 && stride % 4 == 0; };
  return product.steps == 0 || (aligned(product.a, product.a_stride) && aligned(product.b, product.b_stride));
}

}  // namespace tile_product

/// Hands the M x N elements of first.a*first.b + second.a*second.b to the device functor `epilogue(Size row, Size column, int count, float4 values)`, four neighbours
/// of a row at a time (column is a multiple of 4, `count` of them exist), each once, in any order; zeros where there are no steps. `transposed`: b is [N, steps], else
/// [steps, N]. Accumulates in f32, steps ascending, by fused multiply-add. M or N may be 0. The inputs may not alias what the epilogue writes. `name` is the kernel's
/// in errors.
template <bool transposed, class Epilogue>
void multiply_tiles(const char* name, const Product& first, const Product& second, Size M, Size N, const Epilogue& epilogue) {
  using namespace tile_product;
  if (M == 0 || N == 0) return;
  const bool whole_fours = of_fours(first) && of_fours(second);
  const Size large = (M + Large::rows - 1) / Large::rows * ((N + Large::columns - 1) / Large::columns);
  if (large >= multiprocessors()) launch_multiply<Large, transposed>(name, whole_fours, first, second, M, N, epilogue);
  else launch_multiply<Small, transposed>(name, whole_fours, first, second, M, N, epilogue);
}

/// For epilogues: `count` of `values` from `at` on; one store of 16 bytes where `whole_fours` says that every row starts at a multiple of 16 bytes.
__device__ inline void store_four(float* at, int count, float4 values, bool whole_fours) {
  if (whole_fours && count == 4) {
    *reinterpret_cast<float4*>(at) = values;
    return;
  }
  at[0] = values.x;
  if (count > 1) at[1] = values.y;
  if (count > 2) at[2] = values.z;
  if (count > 3) at[3] = values.w;
}

}  // namespace faibench::cuda
