// K is split over blocks: a grid of (tiles of C) x (segments of k), one round of blocks that are all resident. A block walks its segment in steps that cp.async keeps two or three ahead:
//
//   A[TM rows, step]   16 bytes along k    -> As[TM][step + 4]     rows four floats further apart than a power of two: no two of a phase in one bank
//   B[step, TN]        16 bytes of a row   -> Bs[step][TN]         with one column, 16 bytes along k
//
// Its 256 threads are groups; a group holds the whole tile, 4 x 4 (4 x 8 where TN = 64, 4 x 1 where TN = 1) sums a thread, and takes four k at a time, so that A too is read 16 bytes a time. The
// groups' sums meet by shuffles and in shared memory, the segments' in a workspace [segments][M][N], which sum_segments adds up in f64 in fixed order: nothing has to be zeroed, no block waits.
// Rows, columns and terms past the end are zeros that cp.async fills in. A chain of f32 additions is 64 terms long, chains are added in f32.
//
// Bound: 4*K*(M+N) bytes. Expected on 16 x 16 over 4194304 terms:
//   multiply_segments<16, 16>  85 to 90 % of what memory gives on sm_90 and sm_80: 3 blocks of 256 threads (about 80 registers, 34 KiB) have 75 KiB under way a multiprocessor where latency times
//                              bandwidth wants 40; shared memory is read for 4 of the 9 cycles that the 128 bytes of one k take to arrive, multiply-adds issue for 2.
//   sum_segments               latency: 400 partial tiles of 1 KiB in two rounds of loads, about 3 us with its launch, 2 % of the whole.
//   add_along_k (baseline)     below 1 %: one multiprocessor, every load in the way of the next addition.
#include "cuda/kernel.h"
#include "cuda/runtime.h"
#include "cuda/vector.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/splitk_tall_skinny_gemm.h"

namespace faibench::splitk_tall_skinny_gemm {
namespace {

using Size = std::int64_t;

constexpr int threads = 256;
constexpr int chain_terms = 64;

/// How a tile of TM x TN outputs is shared out.
template <int TM, int TN>
struct Tile {
  static constexpr int rows = 4, columns = TN == 1 ? 1 : TN == 64 ? 8 : 4;  // of sums a thread
  static constexpr int group = (TM / rows) * (TN / columns);                 // threads that hold the tile together
  static constexpr int groups = threads / group;
  static constexpr int step = groups * 4 < 64 ? 64 : groups * 4;             // k at a time
  static constexpr int a_pitch = step + 4;
  static constexpr int stage = TM * a_pitch + step * TN;                     // floats
  static constexpr int stages = stage <= 3072 ? 4 : stage <= 6144 ? 3 : 2;
  static constexpr int copies = group < 32 ? threads / 32 : groups;          // of the tile that meet in shared memory
  static constexpr int shared_floats = stages * stage > copies * TM * TN ? stages * stage : copies * TM * TN;
  static constexpr int resident = shared_floats * 4 * 3 <= 160 << 10 ? 3 : shared_floats * 4 * 2 <= 160 << 10 ? 2 : 1;  // blocks a multiprocessor
};

struct Problem {
  const float *A, *B;
  Size M, N, K;
  Size segment;        // terms of a block, a multiple of its step
  Size segments;
  bool a_fours, b_fours;  // rows start at multiples of 16 bytes
};

/// One step's A and B to shared memory, zeros for what is not there.
template <class T, int TM, int TN>
__device__ void load_step(const Problem& p, Size row, Size column, Size k, Size end, float* stage) {
  using faibench::cuda::copy_async;
  const int thread = static_cast<int>(threadIdx.x);
  for (int c = thread; c < TM * T::step / 4; c += threads) {
    const int i = c / (T::step / 4), kk = c % (T::step / 4) * 4;
    float* const to = stage + i * T::a_pitch + kk;
    const Size left = row + i < p.M ? end - k - kk : 0;  // elements from here on
    const float* const from = left > 0 ? p.A + (row + i) * p.K + k + kk : p.A;
    if (p.a_fours) copy_async<16>(to, from, left >= 4 ? 16 : left > 0 ? static_cast<int>(left) * 4 : 0);
    else
      for (int e = 0; e < 4; ++e) copy_async<4>(to + e, left > e ? from + e : p.A, left > e ? 4 : 0);
  }
  float* const b = stage + TM * T::a_pitch;
  constexpr int width = TN == 1 ? 1 : TN / 4;  // fours in a row of B; a column is one long row
  constexpr int count = TN == 1 ? T::step / 4 : T::step * width;
  for (int c = thread; c < count; c += threads) {
    const Size kk = TN == 1 ? k + c * 4 : k + c / width, j = TN == 1 ? 0 : column + c % width * 4;
    const Size left = TN == 1 ? end - kk : kk < end ? p.N - j : 0;
    const float* const from = left > 0 ? p.B + kk * p.N + j : p.B;
    if (p.b_fours) copy_async<16>(b + c * 4, from, left >= 4 ? 16 : left > 0 ? static_cast<int>(left) * 4 : 0);
    else
      for (int e = 0; e < 4; ++e) copy_async<4>(b + c * 4 + e, left > e ? from + e : p.B, left > e ? 4 : 0);
  }
}

/// sums += four k of the thread's rows of A times its columns of B.
template <class T, int TN>
__device__ void add_four(const float* a, const float* b, float (&sums)[T::rows][T::columns]) {
  float4 row[T::rows];
  for (int i = 0; i < T::rows; ++i) row[i] = *reinterpret_cast<const float4*>(a + i * T::a_pitch);
  if constexpr (TN == 1) {
    const float4 column = *reinterpret_cast<const float4*>(b);
    for (int i = 0; i < T::rows; ++i) sums[i][0] = fmaf(row[i].w, column.w, fmaf(row[i].z, column.z, fmaf(row[i].y, column.y, fmaf(row[i].x, column.x, sums[i][0]))));
  } else {
#pragma unroll
    for (int q = 0; q < 4; ++q)
#pragma unroll
      for (int half = 0; half < T::columns / 4; ++half) {
        const float4 of_b = *reinterpret_cast<const float4*>(b + q * TN + half * (TN / 2));
#pragma unroll
        for (int i = 0; i < T::rows; ++i) {
          const float of_a = q == 0 ? row[i].x : q == 1 ? row[i].y : q == 2 ? row[i].z : row[i].w;
          sums[i][half * 4 + 0] = fmaf(of_a, of_b.x, sums[i][half * 4 + 0]);
          sums[i][half * 4 + 1] = fmaf(of_a, of_b.y, sums[i][half * 4 + 1]);
          sums[i][half * 4 + 2] = fmaf(of_a, of_b.z, sums[i][half * 4 + 2]);
          sums[i][half * 4 + 3] = fmaf(of_a, of_b.w, sums[i][half * 4 + 3]);
        }
      }
  }
}

/// Block (tile * segments + s): the tile's products over segment s, to out[s][M][N].
template <int TM, int TN>
__global__ void __launch_bounds__(threads) multiply_segments(Problem p, float* out) {
  using T = Tile<TM, TN>;
  using namespace faibench::cuda;
  float* const shared = dynamic_shared<float>();
  const Size across = (p.N + TN - 1) / TN, tile = blockIdx.x / p.segments, s = blockIdx.x % p.segments;
  const Size row = tile / across * TM, column = tile % across * TN;
  const Size first = s * p.segment, end = first + p.segment < p.K ? first + p.segment : p.K;
  const int steps = static_cast<int>((end - first + T::step - 1) / T::step);

  const int thread = static_cast<int>(threadIdx.x), member = thread % T::group, group = thread / T::group;
  const int i0 = member / (TN / T::columns) * T::rows, j0 = member % (TN / T::columns) * (TN == 1 ? 1 : 4);  // with 8 columns, the other four are TN/2 further on
  float chain[T::rows][T::columns] = {}, sums[T::rows][T::columns] = {};
  const auto end_chain = [&] {
    for (int i = 0; i < T::rows; ++i)
      for (int j = 0; j < T::columns; ++j) {
        sums[i][j] += chain[i][j];
        chain[i][j] = 0;
      }
  };

  for (int ahead = 0; ahead < T::stages - 1; ++ahead) {
    if (ahead < steps) load_step<T, TM, TN>(p, row, column, first + Size{ahead} * T::step, end, shared + ahead * T::stage);
    commit_copies();
  }
  constexpr int terms_a_step = T::step / T::groups;
  for (int t = 0; t < steps; ++t) {
    wait_copies<T::stages - 2>();
    __syncthreads();  // step t is there for all, and all have left the stage that is filled next
    if (const int next = t + T::stages - 1; next < steps) load_step<T, TM, TN>(p, row, column, first + Size{next} * T::step, end, shared + next % T::stages * T::stage);
    commit_copies();
    const float* const stage = shared + t % T::stages * T::stage;
    const float* const a = stage + i0 * T::a_pitch;
    const float* const b = stage + TM * T::a_pitch + j0;
    for (int k = group * 4; k < T::step; k += T::groups * 4) add_four<T, TN>(a + k, b + k * TN, chain);
    if ((t + 1) % (chain_terms / terms_a_step) == 0) end_chain();
  }
  end_chain();
  wait_copies<0>();
  __syncthreads();

  // The groups of a warp by shuffles, what is left in shared memory.
  for (int lanes = T::group; lanes < 32; lanes *= 2)
    for (int i = 0; i < T::rows; ++i)
      for (int j = 0; j < T::columns; ++j) sums[i][j] += __shfl_xor_sync(~0u, sums[i][j], lanes);
  if (T::group >= 32 || thread % 32 < T::group) {
    float* const copy = shared + (T::group < 32 ? thread / 32 : group) * TM * TN;
    for (int i = 0; i < T::rows; ++i)
      for (int j = 0; j < T::columns; ++j) copy[(i0 + i) * TN + j0 + (j / 4) * (TN / 2) + j % 4] = sums[i][j];
  }
  __syncthreads();
  for (int e = thread; e < TM * TN; e += threads) {
    float total = 0;
    for (int copy = 0; copy < T::copies; ++copy) total += shared[copy * TM * TN + e];
    const Size i = row + e / TN, j = column + e % TN;
    if (i < p.M && j < p.N) out[(s * p.M + i) * p.N + j] = total;
  }
}

constexpr int lanes_of_segments = 16;

/// c[e] = sum of partial[s][e] over s: 32 outputs a block, a sixteenth of the segments a row of its threads.
__global__ void __launch_bounds__(32 * lanes_of_segments) sum_segments(const float* __restrict__ partial, float* __restrict__ c, Size outputs, Size segments) {
  __shared__ double sums[lanes_of_segments][32];
  const Size e = Size{blockIdx.x} * 32 + threadIdx.x;
  double sum = 0;
  if (e < outputs) {
#pragma unroll 8
    for (Size s = threadIdx.y; s < segments; s += lanes_of_segments) sum += static_cast<double>(partial[s * outputs + e]);
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && e < outputs) {
    for (int y = 1; y < lanes_of_segments; ++y) sum += sums[y][threadIdx.x];
    c[e] = static_cast<float>(sum);
  }
}

template <int TM, int TN>
void multiply_in_tiles(View<const float, 2> A, View<const float, 2> B, View<float, 2> C) {
  using T = Tile<TM, TN>;
  using faibench::cuda::aligned;
  const Size M = C.extent(0), N = C.extent(1), K = A.extent(1);
  const auto up = [](Size a, Size b) { return (a + b - 1) / b; };
  const Size tiles = up(M, TM) * up(N, TN), blocks = Size{faibench::cuda::multiprocessors()} * T::resident;
  // One round of blocks, each with two steps at least.
  const Size wanted = blocks / tiles > 1 ? blocks / tiles : 1, most = up(K, 2 * T::step) > 1 ? up(K, 2 * T::step) : 1;
  const Size steps = up(K, T::step), steps_each = up(steps > 0 ? steps : 1, wanted < most ? wanted : most);
  const Size segment = steps_each * T::step, segments = K > 0 ? up(K, segment) : 1;
  const Problem p{A.data(), B.data(), M, N, K, segment, segments, aligned(A.data(), K), (N % 4 == 0 || (TN == 1 && N == 1)) && aligned(B.data())};
  const faibench::cuda::Workspace partial(segments > 1 ? static_cast<std::size_t>(segments * M * N) * sizeof(float) : 0);
  float* const out = segments > 1 ? partial.data<float>() : C.data();
  faibench::cuda::launch("multiply_segments", multiply_segments<TM, TN>, {static_cast<unsigned>(tiles * segments), threads, T::shared_floats * sizeof(float)}, p, out);
  if (segments > 1)
    faibench::cuda::launch("sum_segments", sum_segments, {static_cast<unsigned>(up(M * N, 32)), {32, lanes_of_segments}}, static_cast<const float*>(out), C.data(), M * N, segments);
}

template <int TM>
void multiply_in_rows(View<const float, 2> A, View<const float, 2> B, View<float, 2> C) {
  const Size N = C.extent(1);
  if (N == 1) multiply_in_tiles<TM, 1>(A, B, C);
  else if (N <= 4) multiply_in_tiles<TM, 4>(A, B, C);
  else if (N <= 16) multiply_in_tiles<TM, 16>(A, B, C);
  else multiply_in_tiles<TM, 64>(A, B, C);
}

__global__ void add_along_k(const float* a, const float* b, float* c, Size M, Size N, Size K) {
  const Size j = Size{blockIdx.x} * blockDim.x + threadIdx.x;
  for (Size i = Size{blockIdx.y} * blockDim.y + threadIdx.y; i < M; i += Size{gridDim.y} * blockDim.y) {
    if (j >= N) continue;
    double acc = 0;
    for (Size k = 0; k < K; ++k) acc += static_cast<double>(a[i * K + k]) * static_cast<double>(b[k * N + j]);
    c[i * N + j] = static_cast<float>(acc);
  }
}

}  // namespace

void cuda_baseline::multiply(View<const float, 2> A, View<const float, 2> B, View<float, 2> C) {
  const Size M = C.extent(0), N = C.extent(1);
  if (M == 0 || N == 0) return;
  const Size down = (M + 15) / 16;
  faibench::cuda::launch("add_along_k", add_along_k, {{static_cast<unsigned>((N + 15) / 16), static_cast<unsigned>(down < 65535 ? down : 65535)}, {16, 16}}, A.data(), B.data(), C.data(), M, N, A.extent(1));
}

void cuda::multiply(View<const float, 2> A, View<const float, 2> B, View<float, 2> C) {
  const Size M = C.extent(0);
  if (M == 0 || C.extent(1) == 0) return;
  if (M <= 4) multiply_in_rows<4>(A, B, C);
  else if (M <= 16) multiply_in_rows<16>(A, B, C);
  else multiply_in_rows<64>(A, B, C);
}

}  // namespace faibench::splitk_tall_skinny_gemm
