// One pass over the keys with a running softmax (FlashAttention 2). A block of four warps has 128 queries of a head (64 beyond D = 128, of f32 beyond 64), each warp
// 32 (16) of them; keys and values come 32 at a time:
//
//   q --cp.async--> shared memory, once            16x16 pieces --ldmatrix--> registers --+
//   k, v --cp.async, two tiles in turn--> shared memory --ldmatrix (.trans for v)--> registers --mma.sync--> scores 32x32 --softmax--> weights, in the layout
//   of the next mma's operand --> out 32xD
//
// Scores, maxima, sums and the output stay in f32 registers: a weight's place in the accumulators of one product is its place in the operand of the next. f32 inputs
// go the same way with each operand as the sum of two tf32 numbers, three products for one (small*big + big*small + big*big, relative error 2^-21). A lane's k index
// there is a permutation of the keys, the same for p and v.
// The 16-byte column c of row r of a tile lies at c ^ (r % 8), so that eight rows of a matrix load are on 32 different banks, with no padding.
// Tiles past the last visible key of a block are not loaded, those past that of a warp not computed; blocks with the most keys start first. Masked scores become -inf
// by selection, never by arithmetic, and weights of them exact zeros: a row depends on nothing past its last visible key. exp(scale*s - m) has one rounding before the
// change of base.
// The sum of p*v can leave the range of f32 though the mean does not (v near the largest f32 or bf16): a flag then makes a second kernel compute those rows in f64.
//
// Bound of the workload (bf16, D = 128, 8192 keys, causal): 1.1 TFLOP in mma. Expected:
//   attend<bf16, 128>  sm_80 55 % of the tensor peak, sm_90 30 to 35 % (mma.sync alone reaches about 62 % there). Two blocks a multiprocessor (64 KiB and up to 255
//                      registers each) = two warps a scheduler: one computes exponentials while the other multiplies. A product of 16x8x16 reads 192 bytes of shared
//                      memory (128 + 64 for q, which does not fit the registers), 1.5 cycles at 128 bytes a cycle, of 2 cycles (sm_80) that it takes the tensor cores.
//                      A 32x32 step is 128 products = 1024 cycles of a tensor core and 32 exponentials a lane = 256.
//   attend<float, D>   a sixth of the half rate (three products at half the speed): still 2.5 times f32 multiply-adds. Not a scored size.
//   attend_wide        returns at once, 3 us; where it works, slowly.
//   the eager form     bound by memory: the scores are written or read nine times, 140 GB, for 17 GB of them.
#include <cstring>
#include <type_traits>

#include "cuda/kernel.h"
#include "cuda/runtime.h"
#include "cuda/tile_product.h"
#include "cuda/vector.h"
#include "kernels/sequence/flash_causal_attn_prefill/flash_causal_attn_prefill.h"

namespace faibench::flash_causal_attn_prefill {
namespace {

using Size = std::int64_t;
using faibench::cuda::aligned;
using faibench::cuda::launch;

// ---- both variants ----

template <class T>
struct Problem {
  const T *q, *k, *v;
  T* out;
  Size B, Lq, Lk, H, Hk, D;
  float scale;
  bool causal;

  /// Number of keys that query i sees: keys 0 .. n-1.
  __device__ Size visible(Size i) const {
    if (!causal) return Lk;
    const Size n = i + (Lk - Lq) + 1;
    return n < 0 ? 0 : n > Lk ? Lk : n;
  }
};

/// The types of cuda_fp16.h and cuda_bf16.h for those of the tensors.
template <class T>
using OnDevice = std::conditional_t<std::is_same_v<T, f16>, __half, std::conditional_t<std::is_same_v<T, bf16>, __nv_bfloat16, float>>;

template <class T>
Problem<OnDevice<T>> problem(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, float scale, bool causal, View<T, 4> out) {
  using U = OnDevice<T>;
  const auto typed = [](const T* at) { return reinterpret_cast<const U*>(at); };
  return {typed(q.data()), typed(k.data()), typed(v.data()), reinterpret_cast<U*>(out.data()), q.extent(0),
          q.extent(1), k.extent(1), q.extent(2), k.extent(2), q.extent(3), scale, causal};
}

__device__ float widened(float x) { return x; }
__device__ float widened(__half x) { return __half2float(x); }
__device__ float widened(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ T narrowed(float x) {
  if constexpr (std::is_same_v<T, __half>) return __float2half_rn(x);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16_rn(x);
  else return x;
}

constexpr float minus_infinity = -__builtin_huge_valf();

unsigned at_most(Size count, Size most) { return static_cast<unsigned>(count < most ? count : most); }

// ---- cuda_baseline ----

/// A matrix for each batch and head.
template <class T>
struct Matrices {
  T* data;
  Size batch, head, row;
  __device__ T* at(Size b, Size h) const { return data + b * batch + h * head; }
};

__global__ void __launch_bounds__(256) repeat_heads(const unsigned short* from, unsigned short* to, Size B, Size H, Size L, Size group, Size row) {
  const Size count = B * H * L * row;
  for (Size e = Size{blockIdx.x} * blockDim.x + threadIdx.x; e < count; e += Size{gridDim.x} * blockDim.x) {
    const Size d = e % row, j = e / row % L, h = e / row / L % H, b = e / row / L / H;
    to[e] = from[((b * L + j) * (H / group) + h / group) * row + d];
  }
}

constexpr int side = 64, depth = 32, threads = 128;
constexpr int line = depth / 8 + 1, row_of_b = side / 8 + 1;  // chunks of eight halves; the odd one keeps matrix loads on different banks

/// tile[row][column], `width` wide: `there` rows of `wide` elements, then zeros.
template <class T, int rows, int width>
__device__ void fill_tile(uint4* tile, const T* from, Size stride, Size there, Size wide, bool whole_chunks) {
  constexpr int chunks = width / 8;
  if (whole_chunks) {
    for (int c = static_cast<int>(threadIdx.x); c < rows * chunks; c += threads) {
      const int row = c / chunks, chunk = c % chunks;
      const Size left = row < there ? wide - 8 * chunk : 0;
      const int taken = left <= 0 ? 0 : left < 8 ? static_cast<int>(left) : 8;
      faibench::cuda::copy_async<16>(&tile[row * (chunks + 1) + chunk], taken > 0 ? from + row * stride + 8 * chunk : from, 2 * taken);
    }
  } else {
    for (int e = static_cast<int>(threadIdx.x); e < rows * width; e += threads) {
      const int row = e / width, d = e % width;
      reinterpret_cast<T*>(&tile[row * (chunks + 1)])[d] = row < there && d < wide ? from[row * stride + d] : narrowed<T>(0);
    }
  }
}

/// C[M, N] = A[M, K] * B of each batch and head, B as rows [K, N] or lines [N, K]: 64x64 tiles, four warps of 32x32.
template <class T, bool b_rows, class Out>
__global__ void __launch_bounds__(threads) multiply_halves(Matrices<const T> a, Matrices<const T> b, Matrices<Out> c, Size H, Size M, Size N, Size K, bool whole_chunks) {
  __shared__ uint4 a_tiles[2][side * line];
  __shared__ uint4 b_tiles[2][b_rows ? depth * row_of_b : side * line];
  const Size wide = (N + side - 1) / side, tiles = (M + side - 1) / side * wide, batch = blockIdx.x / tiles / H, head = blockIdx.x / tiles % H;
  const Size first_row = blockIdx.x % tiles / wide * side, first_column = blockIdx.x % tiles % wide * side;
  const T *a_at = a.at(batch, head) + first_row * a.row, *b_at = b.at(batch, head) + first_column * (b_rows ? 1 : b.row);
  const int lane = static_cast<int>(threadIdx.x) % 32, row = static_cast<int>(threadIdx.x) / 64 * 32, column = static_cast<int>(threadIdx.x) / 32 % 2 * 32;
  const auto start_copies = [&](Size k, int buffer) {
    fill_tile<T, side, depth>(a_tiles[buffer], a_at + k, a.row, M - first_row, K - k, whole_chunks);
    if constexpr (b_rows) fill_tile<T, depth, side>(b_tiles[buffer], b_at + k * b.row, b.row, K - k, N - first_column, whole_chunks);
    else fill_tile<T, side, depth>(b_tiles[buffer], b_at + k, b.row, N - first_column, K - k, whole_chunks);
    faibench::cuda::commit_copies();
  };

  float sums[2][4][4] = {};
  const bool idle = first_row + row >= M || first_column + column >= N;
  if (K > 0) start_copies(0, 0);
  int buffer = 0;
  for (Size k = 0; k < K; k += depth, buffer ^= 1) {
    faibench::cuda::wait_copies<0>();
    __syncthreads();
    if (k + depth < K) start_copies(k + depth, buffer ^ 1);
#pragma unroll
    for (int step = 0; step < depth; step += 16) {
      if (idle || k + step >= K) break;
      std::uint32_t of_a[2][4];
#pragma unroll
      for (int f = 0; f < 2; ++f) faibench::cuda::load_matrix_x4(of_a[f], &a_tiles[buffer][(row + 16 * f + lane % 16) * line + step / 8 + lane / 16]);
#pragma unroll
      for (int n = 0; n < 4; n += 2) {
        std::uint32_t r[4];
        if constexpr (b_rows) faibench::cuda::load_matrix_x4_transposed(r, &b_tiles[buffer][(step + lane % 16) * row_of_b + column / 8 + n + lane / 16]);
        else faibench::cuda::load_matrix_x4(r, &b_tiles[buffer][(column + 8 * n + lane % 8 + lane / 16 * 8) * line + step / 8 + lane / 8 % 2]);
        const std::uint32_t of_b[2][2] = {{r[0], r[1]}, {r[2], r[3]}};
#pragma unroll
        for (int f = 0; f < 2; ++f) {
          faibench::cuda::multiply_16x8x16<T>(sums[f][n], of_a[f], of_b[0]);
          faibench::cuda::multiply_16x8x16<T>(sums[f][n + 1], of_a[f], of_b[1]);
        }
      }
    }
  }
  Out* to = c.at(batch, head);
#pragma unroll
  for (int f = 0; f < 2; ++f)
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Size i = first_row + row + 16 * f + e / 2 * 8 + lane / 4, j = first_column + column + 8 * n + lane % 4 * 2 + e % 2;
        if (i < M && j < N) to[i * c.row + j] = narrowed<Out>(sums[f][n][e]);
      }
}

struct StoreProduct {
  float* to;
  Size stride;
  bool whole_fours;
  __device__ void operator()(Size row, Size column, int count, float4 values) const {
    faibench::cuda::store_four(to + row * stride + column, count, values, whole_fours);
  }
};

/// The product of each batch and head. f32: one launch each, in the tiles of cuda/tile_product.h.
template <bool b_rows, class T, class Out>
void multiply_all(const char* name, const Matrices<const T>& a, const Matrices<const T>& b, const Matrices<Out>& c, Size B, Size H, Size M, Size N, Size K) {
  const auto of_chunks = [](const auto& m) { return aligned(m.data, m.batch, m.head, m.row); };
  if constexpr (std::is_same_v<T, float>) {
    for (Size i = 0; i < B * H; ++i) {
      const Size batch = i / H, head = i % H;
      const faibench::cuda::Product product{a.data + batch * a.batch + head * a.head, b.data + batch * b.batch + head * b.head, a.row, b.row, K};
      faibench::cuda::multiply_tiles<!b_rows>(name, product, {}, M, N, StoreProduct{c.data + batch * c.batch + head * c.head, c.row, of_chunks(c)});
    }
  } else {
    const Size blocks = B * H * ((M + side - 1) / side) * ((N + side - 1) / side);
    if (blocks > 0) launch(name, multiply_halves<T, b_rows, Out>, {static_cast<unsigned>(blocks), threads}, a, b, c, H, M, N, K, of_chunks(a) && of_chunks(b));
  }
}

__global__ void __launch_bounds__(256) multiply_by(float* s, Size count, float scale) {
  for (Size e = Size{blockIdx.x} * blockDim.x + threadIdx.x; e < count; e += Size{gridDim.x} * blockDim.x) s[e] *= scale;
}

template <class T>
__global__ void __launch_bounds__(256) mask(float* s, Size count, Problem<T> problem) {
  for (Size e = Size{blockIdx.x} * blockDim.x + threadIdx.x; e < count; e += Size{gridDim.x} * blockDim.x)
    if (e % problem.Lk >= problem.visible(e / problem.Lk % problem.Lq)) s[e] = minus_infinity;
}

/// Of a value of each thread of the block.
template <class Op>
__device__ float reduced(float value, float* of_warps, Op op) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value = op(value, __shfl_xor_sync(~0u, value, lanes));
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warps[0];
  for (unsigned w = 1; w < blockDim.x / 32; ++w) value = op(value, of_warps[w]);
  __syncthreads();
  return value;
}

/// A block a row; zeros where every element is -inf.
__global__ void __launch_bounds__(256) softmax(float* s, Size rows, Size columns) {
  __shared__ float of_warps[8];
  for (Size r = blockIdx.x; r < rows; r += gridDim.x) {
    float* row = s + r * columns;
    float largest = minus_infinity, sum = 0;
    for (Size j = threadIdx.x; j < columns; j += blockDim.x) largest = fmaxf(largest, row[j]);
    largest = reduced(largest, of_warps, [](float a, float b) { return fmaxf(a, b); });
    if (largest == minus_infinity) largest = 0;
    for (Size j = threadIdx.x; j < columns; j += blockDim.x) sum += expf(row[j] - largest);
    sum = reduced(sum, of_warps, [](float a, float b) { return a + b; });
    for (Size j = threadIdx.x; j < columns; j += blockDim.x) row[j] = sum > 0 ? expf(row[j] - largest) / sum : 0;
  }
}

template <class T>
__global__ void __launch_bounds__(256) cast(const float* from, T* to, Size count) {
  for (Size e = Size{blockIdx.x} * blockDim.x + threadIdx.x; e < count; e += Size{gridDim.x} * blockDim.x) to[e] = narrowed<T>(from[e]);
}

// As many threads as run at one time, each for many elements.
faibench::cuda::Shape elementwise(Size count) { return {at_most((count + 255) / 256, 8 * faibench::cuda::multiprocessors()), 256}; }

template <class T>
void attend_eagerly(const Problem<T>& p) {
  const Size scores = p.B * p.H * p.Lq * p.Lk, repeated = p.B * p.H * p.Lk * p.D, halves = sizeof(T) / 2;
  const auto memory = [](Size elements, std::size_t size) { return faibench::cuda::Workspace(static_cast<std::size_t>(elements) * size); };
  const auto k = memory(repeated, sizeof(T)), v = memory(repeated, sizeof(T)), s = memory(scores, sizeof(float));
  const auto repeat = [&](const T* from, T* to) {
    launch("repeat_heads", repeat_heads, elementwise(repeated * halves), reinterpret_cast<const unsigned short*>(from),
           reinterpret_cast<unsigned short*>(to), p.B, p.H, p.Lk, p.H / p.Hk, p.D * halves);
  };
  if (repeated > 0) {
    repeat(p.k, k.template data<T>());
    repeat(p.v, v.template data<T>());
  }
  const Matrices<const T> queries{p.q, p.Lq * p.H * p.D, p.D, p.H * p.D}, keys{k.template data<T>(), p.H * p.Lk * p.D, p.Lk * p.D, p.D},
      values{v.template data<T>(), p.H * p.Lk * p.D, p.Lk * p.D, p.D};
  const Matrices<float> weights{s.template data<float>(), p.H * p.Lq * p.Lk, p.Lq * p.Lk, p.Lk};
  const Matrices<T> out{p.out, p.Lq * p.H * p.D, p.D, p.H * p.D};
  if (scores > 0) {
    multiply_all<false, T, float>("scores", queries, keys, weights, p.B, p.H, p.Lq, p.Lk, p.D);
    launch("multiply_by", multiply_by, elementwise(scores), weights.data, scores, p.scale);
    if (p.causal) launch("mask", mask<T>, elementwise(scores), weights.data, scores, p);
    const Size rows = p.B * p.H * p.Lq;
    launch("softmax", softmax, {at_most(rows, 1 << 30), at_most((p.Lk + 255) / 256 * 32, 256)}, weights.data, rows, p.Lk);
  }
  if constexpr (std::is_same_v<T, float>) {
    multiply_all<true, T, T>("weighted_values", {weights.data, weights.batch, weights.head, weights.row}, values, out, p.B, p.H, p.Lq, p.D, p.Lk);
  } else {
    const auto narrow = memory(scores, sizeof(T));
    if (scores > 0) launch("cast", cast<T>, elementwise(scores), static_cast<const float*>(weights.data), narrow.template data<T>(), scores);
    multiply_all<true, T, T>("weighted_values", {narrow.template data<T>(), weights.batch, weights.head, weights.row}, values, out, p.B, p.H, p.Lq, p.D, p.Lk);
  }
}

// ---- cuda ----

constexpr float largest_float = 3.402823466e38f, log2e = 1.44269504f;

/// Sizes of a block for rows of `width` elements, which D is rounded up to.
template <class T, int width>
struct Tile {
  static constexpr int fragments = width > (sizeof(T) == 4 ? 64 : 128) ? 1 : 2;  // of 16 queries, a warp
  static constexpr int warps = 4, threads = 32 * warps, warp_queries = 16 * fragments, queries = warps * warp_queries;
  static constexpr int keys = width > 128 && sizeof(T) == 4 ? 16 : 32;
  static constexpr int in_chunk = 16 / sizeof(T), chunks = width / in_chunk;  // of 16 bytes, a row
  static constexpr std::size_t shared_bytes = std::size_t{16} * chunks * (queries + 4 * keys);

  /// Chunk c of a row lies at column(c, swizzle(row)); an odd number in `swizzle` with an even c makes it the neighbour's.
  static constexpr int swizzled = chunks < 8 ? chunks : 8;
  static __device__ __forceinline__ int swizzle(int row) { return swizzled == 8 ? row % 8 : row / 2 % 4; }
  static __device__ __forceinline__ int column(int chunk, int swizzle) { return chunk / swizzled * swizzled + (chunk % swizzled ^ swizzle); }
  /// Index of a chunk in a tile.
  static __device__ __forceinline__ int place(int row, int chunk) { return row * chunks + column(chunk, swizzle(row)); }
};

/// tile[row][chunk]: `there` rows of D elements, then zeros.
template <class T, int width, int rows>
__device__ void copy_rows(uint4* tile, const T* from, Size stride, Size there, int D, bool whole_chunks) {
  using S = Tile<T, width>;
  if (whole_chunks) {
    const int chunk = static_cast<int>(threadIdx.x) % S::chunks, more = S::threads / S::chunks;
    const T* at = from + static_cast<int>(threadIdx.x) / S::chunks * stride + chunk * S::in_chunk;
#pragma unroll 1  // addresses made in advance would take registers from the sums
    for (int row = static_cast<int>(threadIdx.x) / S::chunks; row < rows; row += more, at += more * stride) {
      const bool exists = row < there && chunk * S::in_chunk < D;
      faibench::cuda::copy_async<16>(&tile[S::place(row, chunk)], exists ? at : from, exists ? 16 : 0);
    }
  } else {
#pragma unroll 1
    for (int e = static_cast<int>(threadIdx.x); e < rows * width; e += S::threads) {
      const int row = e / width, d = e % width;
      reinterpret_cast<T*>(&tile[S::place(row, d / S::in_chunk)])[d % S::in_chunk] = row < there && d < D ? from[row * stride + d] : narrowed<T>(0);
    }
  }
}

/// Sums in the accumulator layout of a 16x8 product: row lane / 4 (0, 1) or 8 more (2, 3), columns 2 * (lane % 4) and the next.
using Sums = float[4];

/// Operand of one product; of f32 as the sum of two tf32 numbers.
template <class T, int registers>
struct Operand {
  std::uint32_t of[registers];
  __device__ __forceinline__ void set(int r, std::uint32_t bits) { of[r] = bits; }
};
template <int registers>
struct Operand<float, registers> {
  std::uint32_t of[registers], rest[registers];
  __device__ __forceinline__ void set(int r, std::uint32_t bits) {
    const std::uint32_t leading = bits & 0xffffe000u;
    of[r] = leading;
    rest[r] = __float_as_uint(__uint_as_float(bits) - __uint_as_float(leading));
  }
};

/// 32 bytes of k or d of 16 rows, or of 8.
template <class T>
__device__ __forceinline__ void multiply(Sums& sums, const Operand<T, 4>& a, const Operand<T, 2>& b) {
  if constexpr (std::is_same_v<T, float>) {
    faibench::cuda::multiply_16x8x8(sums, a.rest, b.of);
    faibench::cuda::multiply_16x8x8(sums, a.of, b.rest);
    faibench::cuda::multiply_16x8x8(sums, a.of, b.of);
  } else {
    faibench::cuda::multiply_16x8x16<T>(sums, a.of, b.of);
  }
}

/// Two operands of eight columns each from four registers.
template <class T>
__device__ __forceinline__ void two_operands(Operand<T, 2> (&b)[2], const std::uint32_t (&r)[4]) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    b[n].set(0, r[2 * n]);
    b[n].set(1, r[2 * n + 1]);
  }
}

template <class T>
__device__ __forceinline__ std::uint32_t packed(float low, float high) {
  using Two = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
  Two two;
  if constexpr (std::is_same_v<T, __half>) two = __floats2half2_rn(low, high);
  else two = __floats2bfloat162_rn(low, high);
  std::uint32_t bits;
  memcpy(&bits, &two, sizeof bits);
  return bits;
}

/// s = q*k^T: the warp's queries from `row` of the tile on, all keys of theirs; the first `used_chunks` of a row are not all zero.
template <class T, int width>
__device__ __forceinline__ void score(Sums (&s)[Tile<T, width>::fragments][Tile<T, width>::keys / 8], const uint4* q_tile, int row,
                                      const uint4* k_tile, int used_chunks) {
  using S = Tile<T, width>;
  const int lane = static_cast<int>(threadIdx.x) % 32, q_row = row + lane % 16, q_swizzle = S::swizzle(q_row) ^ lane / 16;
  const int k_row = lane % 8 + lane / 16 * 8, k_swizzle = S::swizzle(k_row) ^ lane / 8 % 2;
#pragma unroll
  for (int f = 0; f < S::fragments; ++f)
#pragma unroll
    for (int n = 0; n < S::keys / 8; ++n) s[f][n][0] = s[f][n][1] = s[f][n][2] = s[f][n][3] = 0;
#pragma unroll(sizeof(T) == 4 ? 1 : 2)
  for (int chunk = 0; chunk < used_chunks; chunk += 2) {
    Operand<T, 4> a[S::fragments];
#pragma unroll
    for (int f = 0; f < S::fragments; ++f) {
      std::uint32_t r[4];
      faibench::cuda::load_matrix_x4(r, &q_tile[(q_row + 16 * f) * S::chunks + S::column(chunk, q_swizzle)]);
#pragma unroll
      for (int n = 0; n < 4; ++n) a[f].set(n, r[n]);
    }
#pragma unroll
    for (int n = 0; n < S::keys / 8; n += 2) {
      std::uint32_t r[4];
      faibench::cuda::load_matrix_x4(r, &k_tile[(k_row + 8 * n) * S::chunks + S::column(chunk, k_swizzle)]);
      Operand<T, 2> b[2];
      two_operands<T>(b, r);
#pragma unroll
      for (int f = 0; f < S::fragments; ++f) {
        multiply<T>(s[f][n], a[f], b[0]);
        multiply<T>(s[f][n + 1], a[f], b[1]);
      }
    }
  }
}

/// out += p*v.
template <class T, int width>
__device__ __forceinline__ void add_values(Sums (&out)[Tile<T, width>::fragments][width / 8],
                                           const Sums (&p)[Tile<T, width>::fragments][Tile<T, width>::keys / 8], const uint4* v_tile) {
  using S = Tile<T, width>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (std::is_same_v<T, float>) {
    const int v_row = lane % 4 * 2, v_swizzle = v_row ^ lane / 16;
    const auto* values = reinterpret_cast<const std::uint32_t*>(v_tile) + lane / 4 % 4;
#pragma unroll
    for (int k = 0; k < S::keys / 8; ++k) {  // in the k index, key 2*i is i and key 2*i + 1 is i + 4
      Operand<T, 4> a[S::fragments];
#pragma unroll
      for (int f = 0; f < S::fragments; ++f) {
        a[f].set(0, __float_as_uint(p[f][k][0]));
        a[f].set(1, __float_as_uint(p[f][k][2]));
        a[f].set(2, __float_as_uint(p[f][k][1]));
        a[f].set(3, __float_as_uint(p[f][k][3]));
      }
#pragma unroll
      for (int n = 0; n < width / 8; ++n) {
        Operand<T, 2> b;
        b.set(0, values[((v_row + 8 * k) * S::chunks + S::column(2 * n, v_swizzle)) * 4]);
        b.set(1, values[((v_row + 8 * k + 1) * S::chunks + S::column(2 * n, v_swizzle ^ 1)) * 4]);
#pragma unroll
        for (int f = 0; f < S::fragments; ++f) multiply<T>(out[f][n], a[f], b);
      }
    }
  } else {
    const int v_row = lane % 16, v_swizzle = S::swizzle(v_row) ^ lane / 16;
#pragma unroll
    for (int k = 0; k < S::keys / 8; k += 2) {
      Operand<T, 4> a[S::fragments];
#pragma unroll
      for (int f = 0; f < S::fragments; ++f)
#pragma unroll
        for (int r = 0; r < 4; ++r) a[f].of[r] = packed<T>(p[f][k + r / 2][r % 2 * 2], p[f][k + r / 2][r % 2 * 2 + 1]);
#pragma unroll
      for (int n = 0; n < width / 8; n += 2) {
        std::uint32_t r[4];
        faibench::cuda::load_matrix_x4_transposed(r, &v_tile[(v_row + 8 * k) * S::chunks + S::column(n, v_swizzle)]);
        Operand<T, 2> b[2];
        two_operands<T>(b, r);
#pragma unroll
        for (int f = 0; f < S::fragments; ++f) {
          multiply<T>(out[f][n], a[f], b[0]);
          multiply<T>(out[f][n + 1], a[f], b[1]);
        }
      }
    }
  }
}

/// exp(x), x <= 0 but for a rounding error.
__device__ __forceinline__ float exponential(float x) { return exp2f(x * log2e); }

/// What a row has seen: its largest score, of those with the sign of the scale (-inf: none), and this lane's share of its sum.
struct Row {
  float largest = minus_infinity, sum = 0;
};

template <class T, int width>
__global__ void __launch_bounds__(Tile<T, width>::threads, 2) attend(Problem<T> problem, float sign, bool whole_chunks, int* overflowed) {
  using S = Tile<T, width>;
  auto* q_tile = faibench::cuda::dynamic_shared<uint4>();       // [queries][chunks]
  uint4* k_tiles = q_tile + S::queries * S::chunks;             // [2][keys][chunks]
  uint4* v_tiles = k_tiles + 2 * S::keys * S::chunks;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, D = static_cast<int>(problem.D);
  const Size heads = problem.B * problem.H, tiles = (problem.Lq + S::queries - 1) / S::queries;
  const Size first = (tiles - 1 - blockIdx.x / heads) * S::queries;  // the last queries see the most keys: they start first
  const Size b = blockIdx.x % heads / problem.H, h = blockIdx.x % heads % problem.H, key_head = h / (problem.H / problem.Hk);
  const Size q_stride = problem.H * D, k_stride = problem.Hk * D, q_start = ((b * problem.Lq + first) * problem.H + h) * D;
  Size k_start = (b * problem.Lk * problem.Hk + key_head) * D;  // of the next tile to be loaded

  const auto last_visible = [&](Size from, int count) { return problem.visible((from + count < problem.Lq ? from + count : problem.Lq) - 1); };
  const int row = warp * S::warp_queries;  // the warp's first, in the tile
  const auto key_tiles = [](Size keys) { return static_cast<int>((keys + S::keys - 1) / S::keys); };
  const int block_tiles = key_tiles(last_visible(first, S::queries)), warp_tiles = first + row < problem.Lq ? key_tiles(last_visible(first + row, S::warp_queries)) : 0;
  const int whole_tiles = static_cast<int>(problem.visible(first + row) / S::keys);  // that all of the warp's queries see
  const auto start_copies = [&](int tile) {
    const Size there = problem.Lk - Size{tile} * S::keys;
    copy_rows<T, width, S::keys>(k_tiles + tile % 2 * S::keys * S::chunks, problem.k + k_start, k_stride, there, D, whole_chunks);
    copy_rows<T, width, S::keys>(v_tiles + tile % 2 * S::keys * S::chunks, problem.v + k_start, k_stride, there, D, whole_chunks);
    faibench::cuda::commit_copies();
    k_start += S::keys * k_stride;
  };

  copy_rows<T, width, S::queries>(q_tile, problem.q + q_start, q_stride, problem.Lq - first, D, whole_chunks);
  if (block_tiles > 0) start_copies(0);
  Sums out[S::fragments][width / 8] = {};
  Row rows[S::fragments][2];
  for (int tile = 0; tile < block_tiles; ++tile) {
    faibench::cuda::wait_copies<0>();
    __syncthreads();  // this tile is there for all, and nobody reads the one before any more
    if (tile + 1 < block_tiles) start_copies(tile + 1);
    if (tile >= warp_tiles) continue;

    Sums s[S::fragments][S::keys / 8];
    score<T, width>(s, q_tile, row, k_tiles + tile % 2 * S::keys * S::chunks, (D + S::in_chunk - 1) / S::in_chunk);
    // Of this tile, row r of the warp sees keys 0 .. left + r * more - 1.
    const bool masked = tile >= whole_tiles;
    const int left = static_cast<int>((problem.causal ? first + row + problem.Lk - problem.Lq + 1 : problem.Lk) - Size{tile} * S::keys), more = problem.causal ? 1 : 0;
    float factors[S::fragments][2];
    bool moved = false;
#pragma unroll
    for (int f = 0; f < S::fragments; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Row& of = rows[f][half];
        const int visible = masked ? left + (16 * f + 8 * half + lane / 4) * more : S::keys;
        float largest = of.largest;
#pragma unroll
        for (int n = 0; n < S::keys / 8; ++n)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            const float score = 8 * n + lane % 4 * 2 + e % 2 >= visible ? minus_infinity : sign * s[f][n][e];
            largest = fmaxf(largest, score);
            s[f][n][e] = score;
          }
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
        const float m = largest == minus_infinity ? 0 : largest * problem.scale;
        const float factor = of.largest == minus_infinity ? 0 : exponential(of.largest * problem.scale - m);
        moved = moved || largest != of.largest;
        of.largest = largest;
        factors[f][half] = factor;
        float sum = of.sum * factor;
#pragma unroll
        for (int n = 0; n < S::keys / 8; ++n)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            const float weight = exponential(fmaf(s[f][n][e], problem.scale, -m));
            sum += weight;
            s[f][n][e] = weight;
          }
        of.sum = sum;
      }
    if (__any_sync(~0u, moved)) {
#pragma unroll
      for (int f = 0; f < S::fragments; ++f)
#pragma unroll
        for (int n = 0; n < width / 8; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) out[f][n][e] *= factors[f][e / 2];
    }
    add_values<T, width>(out, s, v_tiles + tile % 2 * S::keys * S::chunks);
  }

  // The warp's queries were read by itself alone: their place takes its output, which then leaves in rows of 16 bytes a lane.
  faibench::cuda::wait_copies<0>();
  __syncthreads();
  bool finite = true;
#pragma unroll
  for (int f = 0; f < S::fragments; ++f)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = rows[f][half].sum;
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      const float factor = sum > 0 ? 1 / sum : 0;
      const int to_row = row + 16 * f + 8 * half + lane / 4;
      const int to_swizzle = S::swizzle(to_row) ^ (std::is_same_v<T, float> ? lane % 4 / 2 : 0);
      uint4* to = q_tile + to_row * S::chunks;
#pragma unroll
      for (int n = 0; n < width / 8; ++n) {  // two elements: half of a chunk of f32, a quarter of one of halves
        const float low = out[f][n][2 * half] * factor, high = out[f][n][2 * half + 1] * factor;
        finite = finite && fabsf(low) <= largest_float && fabsf(high) <= largest_float;
        if constexpr (std::is_same_v<T, float>) reinterpret_cast<float2*>(to + S::column(2 * n, to_swizzle))[lane % 2] = make_float2(low, high);
        else reinterpret_cast<std::uint32_t*>(to + S::column(n, to_swizzle))[lane % 4] = packed<T>(low, high);
      }
    }
  if (!finite) atomicExch(overflowed, 1);
  __syncwarp();
  T* to = problem.out + q_start;
  const Size there = problem.Lq - first;
  if (whole_chunks) {
    for (int c = lane; c < S::warp_queries * S::chunks; c += 32) {
      const int r = row + c / S::chunks, chunk = c % S::chunks;
      if (r < there && chunk * S::in_chunk < D) *reinterpret_cast<uint4*>(to + r * q_stride + chunk * S::in_chunk) = q_tile[S::place(r, chunk)];
    }
  } else {
    for (int e = lane; e < S::warp_queries * width; e += 32) {
      const int r = row + e / width, d = e % width;
      if (r < there && d < D) to[r * q_stride + d] = reinterpret_cast<const T*>(&q_tile[S::place(r, d / S::in_chunk)])[d % S::in_chunk];
    }
  }
}

/// Computes rows of `out` that are not finite anew in f64, a warp each, keys over the lanes, then elements.
template <class T>
__global__ void __launch_bounds__(128) attend_wide(Problem<T> problem, const int* overflowed) {
  if (*overflowed == 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Size D = problem.D, warps = Size{gridDim.x} * (blockDim.x / 32), count = problem.B * problem.Lq * problem.H;
  for (Size r = (Size{blockIdx.x} * blockDim.x + threadIdx.x) / 32; r < count; r += warps) {
    bool finite = true;
    for (Size d = lane; d < D; d += 32) finite = finite && fabsf(widened(problem.out[r * D + d])) <= largest_float;
    if (__all_sync(~0u, finite)) continue;
    const Size h = r % problem.H, i = r / problem.H % problem.Lq, b = r / problem.H / problem.Lq, key_head = h / (problem.H / problem.Hk), visible = problem.visible(i);
    const auto row_of = [&](Size j) { return ((b * problem.Lk + j) * problem.Hk + key_head) * D; };
    const auto scored = [&](Size j) {
      double sum = 0;
      for (Size d = 0; d < D; ++d) sum += static_cast<double>(widened(problem.q[r * D + d])) * widened(problem.k[row_of(j) + d]);
      return problem.scale * sum;
    };
    double largest = -__builtin_huge_val(), total = 0, sums[8] = {};
    for (Size j = lane; j < visible; j += 32) largest = fmax(largest, scored(j));
    for (int lanes = 16; lanes > 0; lanes /= 2) largest = fmax(largest, __shfl_xor_sync(~0u, largest, lanes));
    for (Size j = 0; j < visible; j += 32) {
      const double own = j + lane < visible ? exp(scored(j + lane) - largest) : 0;
      for (int from = 0; from < 32; ++from) {
        const double weight = __shfl_sync(~0u, own, from);
        if (j + from >= visible) continue;
        total += weight;
        for (Size d = lane, n = 0; d < D; d += 32, ++n) sums[n] += weight * widened(problem.v[row_of(j + from) + d]);
      }
    }
    for (Size d = lane, n = 0; d < D; d += 32, ++n) problem.out[r * D + d] = narrowed<T>(static_cast<float>(sums[n] / total));
  }
}

template <class T, int width>
void launch_attend(const Problem<T>& problem, float sign, bool whole_chunks, int* overflowed) {
  using S = Tile<T, width>;
  const Size blocks = problem.B * problem.H * ((problem.Lq + S::queries - 1) / S::queries);
  launch("attend", attend<T, width>, {static_cast<unsigned>(blocks), S::threads, S::shared_bytes}, problem, sign, whole_chunks, overflowed);
}

}  // namespace

template <class T>
void cuda_baseline::causal_attention(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, float scale, bool causal, View<T, 4> out) {
  if (!q.empty()) attend_eagerly(problem(q, k, v, scale, causal, out));
}

template <class T>
void cuda::causal_attention(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, float scale, bool causal, View<T, 4> out) {
  if (q.empty()) return;
  auto p = problem(q, k, v, scale, causal, out);
  const bool whole_chunks = aligned(p.q, p.D) && aligned(p.k) && aligned(p.v) && aligned(p.out);
  const faibench::cuda::Workspace flag(sizeof(int));
  faibench::cuda::fill(flag.data<int>(), 0, sizeof(int), faibench::cuda::current_stream());
  // Scores get the sign of the scale in the kernel, so that the largest of them is the largest scaled; a scale of 0 makes them 0 there and is 1 after that, so that
  // masked ones stay -inf.
  auto positive = p;
  positive.scale = scale == 0 ? 1 : scale < 0 ? -scale : scale;
  const float sign = scale == 0 ? 0.0f : scale < 0 ? -1.0f : 1.0f;
  if (p.D <= 32) launch_attend<OnDevice<T>, 32>(positive, sign, whole_chunks, flag.data<int>());
  else if (p.D <= 64) launch_attend<OnDevice<T>, 64>(positive, sign, whole_chunks, flag.data<int>());
  else if (p.D <= 128) launch_attend<OnDevice<T>, 128>(positive, sign, whole_chunks, flag.data<int>());
  else launch_attend<OnDevice<T>, 256>(positive, sign, whole_chunks, flag.data<int>());
  const int* overflowed = flag.data<int>();
  launch("attend_wide", attend_wide<OnDevice<T>>, {at_most((p.B * p.Lq * p.H + 3) / 4, 4 * faibench::cuda::multiprocessors()), 128}, p, overflowed);
}

template void cuda_baseline::causal_attention<float>(View<const float, 4>, View<const float, 4>, View<const float, 4>, float, bool, View<float, 4>);
template void cuda_baseline::causal_attention<f16>(View<const f16, 4>, View<const f16, 4>, View<const f16, 4>, float, bool, View<f16, 4>);
template void cuda_baseline::causal_attention<bf16>(View<const bf16, 4>, View<const bf16, 4>, View<const bf16, 4>, float, bool, View<bf16, 4>);
template void cuda::causal_attention<float>(View<const float, 4>, View<const float, 4>, View<const float, 4>, float, bool, View<float, 4>);
template void cuda::causal_attention<f16>(View<const f16, 4>, View<const f16, 4>, View<const f16, 4>, float, bool, View<f16, 4>);
template void cuda::causal_attention<bf16>(View<const bf16, 4>, View<const bf16, 4>, View<const bf16, 4>, float, bool, View<bf16, 4>);

}  // namespace faibench::flash_causal_attn_prefill
