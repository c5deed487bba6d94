// A block makes a tile of C with mma.sync; A and B come through shared memory, in steps of 32 along k, four steps deep:
//
//   global --cp.async, 16 B, three steps ahead--> stage[4] {A 128x32, B 32x128} --ldmatrix, one half step ahead--> fragments --mma m16n8k16--> 64x64 f32 sums a warp
//   sums --f16, once--> shared memory --16 B--> C
//
// Shared memory is swizzled so that neither side has a bank conflict: chunk c of 16 bytes lies in row r of A (4 chunks) at c ^ (r/2 % 4), in row r of B or C (16 chunks) at c ^ (r % 8).
// What lies past the edges of A and B is never read: cp.async fills it with zeros, and zero rows or columns of the sums are not stored, so that no Inf meets a padding zero of its own k.
// Rows that do not start at multiples of 16 bytes (odd K or N) are first copied to rows that do: 2 to 4 bytes moved more for each byte of A or B, less than direct 2-byte loads would cost.
// Up to 32 rows take a tile of 32x128. Where there are fewer tiles than multiprocessors the sum over k is split; the parts stay in f32 and are added in their order: equal bits every time.
// Tiles are walked in bands of 8 rows of tiles, so that those under way at once share their A and B in L2.
//
// Expected share of the roofline (no device was at hand: reasoned from the compiler's report and the throughputs that NVIDIA documents, not measured):
//   multiply_tiles<128x128>  a warp's half step reads 4 KiB of fragments by 8 ldmatrix for 32 MMAs: 32 cycles of shared memory under the 64 that the tensor cores of an A100 take, 53 at the rate
//                            that mma.sync reaches on an H100. 242 to 245 of 255 registers and 64 KiB of stages: two blocks of 4 warps a multiprocessor, one computes while the other waits at
//                            its barrier. 75 to 85 % of the f16 peak on sm_80; on sm_90 mma.sync reaches 60 to 65 % of what wgmma does: 55 to 60 % of the peak. A form with TMA and wgmma
//                            belongs into a file of its own.
//   multiply_tiles<32x128>   bound by reading B once: 30 KiB under way in each of four blocks a multiprocessor, where latency times bandwidth wants about 40 KiB: 75 to 85 % of the memory bandwidth.
//   align_rows               16-byte stores, 2-byte loads of which seven of eight hit L1: 60 to 80 % of the memory bandwidth.
//   sum_parts                4 bytes a thread and part, mostly from L2: 70 % of its bandwidth, and small beside the product.
//   multiply_elements        (baseline) two loads from L1 for an FMA: a few per cent of the f32 peak.
// Tried, and lost: row and k offsets computed anew in every step (36 to 48 bytes of registers spilled; pointers that move on do not).
#include <cuda_fp16.h>

#include "cuda/kernel.h"
#include "cuda/runtime.h"
#include "cuda/vector.h"
#include "kernels/linalg/fp16_tensorcore_mma_gemm/fp16_tensorcore_mma_gemm.h"

namespace faibench::fp16_tensorcore_mma_gemm {
namespace {

using Size = std::int64_t;
namespace gpu = faibench::cuda;

constexpr int threads = 128, stages = 4;
constexpr int step = 32;                       // of k, a stage
constexpr int chunk = 8;                       // halves in 16 bytes
constexpr int step_chunks = step / chunk;
constexpr int band = 8;                        // rows of tiles walked together
constexpr int fewest_steps = 8;                // of k in a part, where the sum is split

/// One multiplication; strides in elements, multiples of 8. With `parts` every blockIdx.y adds `depth` of K and leaves f32 sums at parts + blockIdx.y * M * N.
struct Problem {
  const __half *A, *B;
  __half* C;
  float* parts;
  Size M, N, K, stride_a, stride_b;
  int depth;
  bool whole_chunks;  // rows of C start at multiples of 16 bytes
};

template <int Rows, int Columns, int WarpsAcross, int Blocks>
struct Tile {
  static constexpr int rows = Rows, columns = Columns, row_chunks = Columns / chunk, blocks = Blocks;  // blocks: on a multiprocessor at once
  static constexpr int warps_across = WarpsAcross, warps_down = threads / 32 / WarpsAcross;
  static constexpr int warp_rows = Rows / warps_down, warp_columns = Columns / WarpsAcross;
  static constexpr int a_chunks = Rows * step_chunks, b_chunks = step * row_chunks, stage_chunks = a_chunks + b_chunks;
  static constexpr std::size_t shared_bytes = stages * stage_chunks * sizeof(uint4);
  static_assert(Rows * row_chunks <= stages * stage_chunks, "C passes through the stages' memory");
};
using LargeTile = Tile<128, 128, 2, 2>;
using LowTile = Tile<32, 128, 4, 4>;

__device__ __forceinline__ int place_in_a(int row, int c) { return row * step_chunks + (c ^ (row / 2 % step_chunks)); }
template <class T>
__device__ __forceinline__ int place_in_row(int row, int c) { return row * T::row_chunks + (c ^ (row % 8)); }  // of B and C

/// What a thread copies of each step: the same chunks of every stage, `threads` chunks apart. k counts in int: K <= 2^20.
template <class T>
struct Copier {
  static constexpr int a_rows_apart = threads / step_chunks, b_rows_apart = threads / T::row_chunks;
  static_assert(a_rows_apart % 8 == 0 && b_rows_apart % 8 == 0, "one swizzle for all chunks of a thread");
  const __half *a, *b;  // its first chunks of the next step
  Size a_apart, b_apart, b_next;
  int a_place, b_place;
  int a_rows;             // of the tile that A has, from this thread's first on
  int a_depth, b_depth;   // of K, from the next step's first chunks on; 0 where B has no such column

  __device__ __forceinline__ Copier(const Problem& p, Size row, Size column, int begin, int end) {
    const int t = static_cast<int>(threadIdx.x), a_row = t / step_chunks, a_chunk = t % step_chunks, b_row = t / T::row_chunks, b_chunk = t % T::row_chunks;
    a = p.A + (row + a_row) * p.stride_a + begin + a_chunk * chunk;
    b = p.B + (begin + b_row) * p.stride_b + column + b_chunk * chunk;
    a_apart = a_rows_apart * p.stride_a;
    b_apart = b_rows_apart * p.stride_b;
    b_next = step * p.stride_b;
    a_place = place_in_a(a_row, a_chunk);
    b_place = T::a_chunks + place_in_row<T>(b_row, b_chunk);
    const Size rows = p.M - row - a_row;
    a_rows = rows < T::rows ? static_cast<int>(rows) : T::rows;
    a_depth = end - begin - a_chunk * chunk;
    b_depth = column + b_chunk * chunk < p.N ? end - begin - b_row : 0;
  }

  __device__ __forceinline__ void copy(uint4* stage) {
#pragma unroll
    for (int i = 0; i < T::a_chunks / threads; ++i) {
      const bool inside = i * a_rows_apart < a_rows && a_depth > 0;
      gpu::copy_async<16>(stage + a_place + i * threads, a + i * a_apart, inside ? 16 : 0);
    }
#pragma unroll
    for (int i = 0; i < T::b_chunks / threads; ++i) {
      const bool inside = i * b_rows_apart < b_depth;
      gpu::copy_async<16>(stage + b_place + i * threads, b + i * b_apart, inside ? 16 : 0);
    }
    a += step;
    b += b_next;
    a_depth -= step;
    b_depth -= step;
  }
};

/// What a warp multiplies in half a step.
template <class T>
struct Fragments {
  std::uint32_t a[T::warp_rows / 16][4];     // 16x16 each
  std::uint32_t b[T::warp_columns / 16][4];  // 16x16 each: two of 16x8
};

/// `a_place`, `b_place`: where this lane's rows of the warp's first fragments lie in a stage. A step of 16 along k or along the columns of B only changes bits of the chunk's number.
template <class T>
__device__ __forceinline__ void load_fragments(Fragments<T>& f, const uint4* stage, int a_place, int b_place, int half_step) {
#pragma unroll
  for (int i = 0; i < T::warp_rows / 16; ++i) gpu::load_matrix_x4(f.a[i], stage + (a_place ^ (2 * half_step)) + 16 * i * step_chunks);
#pragma unroll
  for (int j = 0; j < T::warp_columns / 16; ++j) gpu::load_matrix_x4_transposed(f.b[j], stage + (b_place ^ (2 * j)) + 16 * half_step * T::row_chunks);
}

template <class T>
using Sums = float[T::warp_rows / 16][T::warp_columns / 8][4];

template <class T>
__device__ __forceinline__ void multiply(Sums<T>& sums, const Fragments<T>& f) {
#pragma unroll
  for (int i = 0; i < T::warp_rows / 16; ++i)
#pragma unroll
    for (int j = 0; j < T::warp_columns / 8; ++j) {
      const std::uint32_t b[2] = {f.b[j / 2][j % 2 * 2], f.b[j / 2][j % 2 * 2 + 1]};
      gpu::multiply_16x8x16<__half>(sums[i][j], f.a[i], b);
    }
}

/// sums += the product along this part's k.
template <class T>
__device__ __forceinline__ void add_products(Copier<T>& copier, uint4* shared, int warp_row, int warp_column, int steps, Sums<T>& sums) {
  if (steps <= 0) return;
#pragma unroll
  for (int s = 0; s < stages - 1; ++s) {
    if (s < steps) copier.copy(shared + s * T::stage_chunks);
    gpu::commit_copies();  // an empty group where there is no step: groups are counted like steps
  }
  gpu::wait_copies<stages - 2>();
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int a_place = place_in_a(warp_row + lane % 16, lane / 16), b_place = T::a_chunks + place_in_row<T>(lane % 16, warp_column / chunk + lane / 16);
  Fragments<T> fragments[2];
  load_fragments<T>(fragments[0], shared, a_place, b_place, 0);
  int stage = 0, free_stage = stages - 1;
  for (int s = 0; s < steps; ++s) {
    load_fragments<T>(fragments[1], shared + stage * T::stage_chunks, a_place, b_place, 1);
    // The free stage was last read before the barrier below, a step ago.
    if (s + stages - 1 < steps) copier.copy(shared + free_stage * T::stage_chunks);
    gpu::commit_copies();
    multiply<T>(sums, fragments[0]);
    free_stage = stage;
    stage = (stage + 1) % stages;
    gpu::wait_copies<stages - 2>();
    __syncthreads();
    if (s + 1 < steps) load_fragments<T>(fragments[0], shared + stage * T::stage_chunks, a_place, b_place, 0);
    multiply<T>(sums, fragments[1]);
  }
}

/// f32 sums to this part's plane.
template <class T>
__device__ __forceinline__ void store_part(const Problem& p, Size row, Size column, const Sums<T>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* const plane = p.parts + Size{blockIdx.y} * p.M * p.N;
#pragma unroll
  for (int i = 0; i < T::warp_rows / 16; ++i)
#pragma unroll
    for (int j = 0; j < T::warp_columns / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Size r = row + 16 * i + lane / 4 + e / 2 * 8, c = column + 8 * j + lane % 4 * 2 + e % 2;
        if (r < p.M && c < p.N) plane[r * p.N + c] = sums[i][j][e];
      }
}

/// Rounds and stores a tile, whole lines at a time.
template <class T>
__device__ __forceinline__ void store_tile(const Problem& p, uint4* shared, Size row, Size column, int warp_row, int warp_column, const Sums<T>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < T::warp_rows / 16; ++i)
#pragma unroll
    for (int j = 0; j < T::warp_columns / 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = warp_row + 16 * i + lane / 4 + 8 * half;
        reinterpret_cast<__half2*>(shared + place_in_row<T>(r, warp_column / chunk + j))[lane % 4] = __floats2half2_rn(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
      }
  __syncthreads();
  if (p.whole_chunks) {
    for (int at = static_cast<int>(threadIdx.x); at < T::rows * T::row_chunks; at += threads) {
      const int r = at / T::row_chunks, c = at % T::row_chunks;
      if (row + r < p.M && column + c * chunk < p.N) *reinterpret_cast<uint4*>(p.C + (row + r) * p.N + column + c * chunk) = shared[place_in_row<T>(r, c)];
    }
  } else {
    for (int at = static_cast<int>(threadIdx.x); at < T::rows * T::columns; at += threads) {
      const int r = at / T::columns, c = at % T::columns;
      if (row + r < p.M && column + c < p.N) p.C[(row + r) * p.N + column + c] = reinterpret_cast<const __half*>(shared + place_in_row<T>(r, c / chunk))[c % chunk];
    }
  }
}

template <class T>
__global__ void __launch_bounds__(threads, T::blocks) multiply_tiles(Problem p) {
  uint4* const shared = gpu::dynamic_shared<uint4>();
  const Size down = (p.M + T::rows - 1) / T::rows, across = (p.N + T::columns - 1) / T::columns;
  const Size first_row = blockIdx.x / (band * across) * band, in_band = blockIdx.x % (band * across), rows = down - first_row < band ? down - first_row : band;
  const Size row = (first_row + in_band % rows) * T::rows, column = in_band / rows * T::columns;
  const int warp = static_cast<int>(threadIdx.x) / 32, warp_row = warp / T::warps_across * T::warp_rows, warp_column = warp % T::warps_across * T::warp_columns;
  const int K = static_cast<int>(p.K), begin = static_cast<int>(blockIdx.y) * p.depth, end = p.depth < K - begin ? begin + p.depth : K;
  Sums<T> sums = {};
  Copier<T> copier(p, row, column, begin, end);
  add_products<T>(copier, shared, warp_row, warp_column, (end - begin + step - 1) / step, sums);
  if (p.parts) {
    store_part<T>(p, row + warp_row, column + warp_column, sums);
    return;
  }
  // All copies have come and all fragments been read before the last barrier of the loop: the stages make room for C.
  store_tile<T>(p, shared, row, column, warp_row, warp_column, sums);
}

__global__ void sum_parts(const float* parts, int count, __half* C, Size size) {
  for (Size i = Size{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += Size{gridDim.x} * blockDim.x) {
    float sum = 0;
    for (int part = 0; part < count; ++part) sum += parts[part * size + i];
    C[i] = __float2half_rn(sum);
  }
}

union Chunk {
  uint4 whole;
  __half halves[chunk];
};

/// Rows of `columns` elements to rows `stride` apart, zeros behind them; a thread makes a chunk.
__global__ void align_rows(const __half* from, __half* to, Size rows, Size columns, Size stride) {
  const Size row_chunks = stride / chunk;
  for (Size at = Size{blockIdx.x} * blockDim.x + threadIdx.x; at < rows * row_chunks; at += Size{gridDim.x} * blockDim.x) {
    const Size row = at / row_chunks, column = at % row_chunks * chunk;
    Chunk taken;
#pragma unroll
    for (int i = 0; i < chunk; ++i) taken.halves[i] = column + i < columns ? from[row * columns + column + i] : __half(__half_raw{0});
    *reinterpret_cast<uint4*>(to + row * stride + column) = taken.whole;
  }
}

__global__ void multiply_elements(const __half* A, const __half* B, __half* C, Size M, Size N, Size K) {
  const Size j = Size{blockIdx.x} * blockDim.x + threadIdx.x;
  if (j >= N) return;
  for (Size i = Size{blockIdx.y} * blockDim.y + threadIdx.y; i < M; i += Size{gridDim.y} * blockDim.y) {
    float sum = 0;
    for (Size k = 0; k < K; ++k) sum = fmaf(__half2float(A[i * K + k]), __half2float(B[k * N + j]), sum);
    C[i * N + j] = __float2half_rn(sum);
  }
}

const __half* halves(View<const f16, 2> x) { return reinterpret_cast<const __half*>(x.data()); }
Size ceil_div(Size a, Size b) { return (a + b - 1) / b; }
unsigned at_most(Size count, Size most) { return static_cast<unsigned>(count < most ? count : most); }

/// A matrix whose rows start at multiples of 16 bytes: the given one, or a copy.
struct AlignedRows {
  gpu::Workspace copy;
  const __half* data;
  Size stride;

  AlignedRows(View<const f16, 2> x, bool in_place) : copy(in_place ? 0 : static_cast<std::size_t>(x.extent(0) * padded(x)) * sizeof(__half)), data(halves(x)), stride(padded(x)) {
    if (in_place || x.empty()) return;
    gpu::launch("align_rows", align_rows, {at_most(ceil_div(x.extent(0) * stride / chunk, 256), 65535), 256}, data, copy.data<__half>(), x.extent(0), x.extent(1), stride);
    data = copy.data<__half>();
  }
  explicit AlignedRows(View<const f16, 2> x) : AlignedRows(x, gpu::aligned(x.data(), x.extent(1))) {}
  static Size padded(View<const f16, 2> x) { return ceil_div(x.extent(1), chunk) * chunk; }
};

template <class T>
void multiply_with(Problem p) {
  const Size tiles = ceil_div(p.M, T::rows) * ceil_div(p.N, T::columns), steps = ceil_div(p.K, step), at_once = Size{gpu::multiprocessors()} * T::blocks;
  Size parts = tiles < gpu::multiprocessors() ? at_once / tiles : 1;
  if (parts > steps / fewest_steps) parts = steps / fewest_steps;
  if (parts < 1) parts = 1;
  const Size steps_each = ceil_div(steps, parts);
  if (steps_each > 0) parts = ceil_div(steps, steps_each);  // none is empty
  p.depth = static_cast<int>(steps_each) * step;
  const gpu::Workspace room(parts > 1 ? static_cast<std::size_t>(parts * p.M * p.N) * sizeof(float) : 0);
  p.parts = room.data<float>();
  gpu::launch("multiply_tiles", multiply_tiles<T>, {{static_cast<unsigned>(tiles), static_cast<unsigned>(parts)}, threads, T::shared_bytes}, p);
  if (parts > 1) gpu::launch("sum_parts", sum_parts, {at_most(ceil_div(p.M * p.N, 256), 65535), 256}, p.parts, static_cast<int>(parts), p.C, p.M * p.N);
}

}  // namespace

void cuda_baseline::gemm(View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C) {
  const Size M = C.extent(0), N = C.extent(1);
  if (M == 0 || N == 0) return;
  gpu::launch("multiply_elements", multiply_elements, {{static_cast<unsigned>(ceil_div(N, 32)), at_most(ceil_div(M, 8), 65535)}, {32, 8}}, halves(A), halves(B), reinterpret_cast<__half*>(C.data()), M, N, A.extent(1));
}

void cuda::gemm(View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C) {
  const Size M = C.extent(0), N = C.extent(1), K = A.extent(1);
  if (M == 0 || N == 0) return;
  const AlignedRows a(A), b(B);
  const Problem problem{a.data, b.data, reinterpret_cast<__half*>(C.data()), nullptr, M, N, K, a.stride, b.stride, 0, gpu::aligned(C.data(), N)};
  if (M <= LowTile::rows) multiply_with<LowTile>(problem);
  else multiply_with<LargeTile>(problem);
}

}  // namespace faibench::fp16_tensorcore_mma_gemm
