#include "emulator/planted.h"

#include "cuda/kernel.h"

namespace faibench::planted {
namespace {

__global__ void add_one_kernel(const float* x, float* y, int n, Bug bug) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (bug == Bug::past_the_end ? i <= n : i < n) y[bug == Bug::before_the_start ? i - 1 : i] = x[i < n ? i : 0] + 1;
  if (bug == Bug::writes_input && i == 5) const_cast<float*>(x)[i] = 0;
  if (bug == Bug::misaligned && i == 7) *reinterpret_cast<float4*>(y + 1) = *reinterpret_cast<const float4*>(x + 1);
}

__global__ void reverse_kernel(const float* x, float* y, SharedBug bug) {
  __shared__ float part[64];
  const int t = static_cast<int>(threadIdx.x), first = static_cast<int>(blockIdx.x) * 64;
  if (bug == SharedBug::past_dynamic_memory) faibench::cuda::dynamic_shared<float>()[16 + t] = 1;
  for (int round = 0; round < 2; ++round) {
    if (bug != SharedBug::half_written || t < 32) part[bug == SharedBug::past_the_array && t == 63 ? 64 : t] = x[first + t];
    if (bug != SharedBug::no_barrier) __syncthreads();
    y[first + t] = part[63 - t];
    if (bug != SharedBug::no_second_barrier) __syncthreads();
  }
}

__global__ void sum_kernel(const int* x, int* sums, SyncBug bug) {
  __shared__ int total;
  const int t = static_cast<int>(threadIdx.x);
  if (t == 0) total = 0;
  if (bug == SyncBug::early_exit && t == 40) return;
  if (bug == SyncBug::two_barriers && t >= 32) __syncthreads();
  else __syncthreads();
  int value = x[blockIdx.x * 64 + threadIdx.x];
  if (bug == SyncBug::missing_lane && t == 3) value = 0;
  else if (bug == SyncBug::other_mask) value += __shfl_xor_sync(t % 32 == 3 ? 0xfu : ~0u, value, 1);
  else if (bug == SyncBug::read_outside_mask) value += t % 32 < 16 ? __shfl_down_sync(0xffffu, value, 8) : 0;
  else value += __shfl_xor_sync(~0u, value, 1);
  for (int lanes = 2; lanes < 32; lanes *= 2) value += __shfl_xor_sync(~0u, value, lanes);
  if (t % 32 == 0 && bug != SyncBug::plain_add) atomicAdd(&total, value);
  if (t % 32 == 0 && bug == SyncBug::plain_add) total += value;
  __syncthreads();
  if (t == 0) sums[blockIdx.x] = total;
}

__global__ void copy_kernel(const float* x, float* y, bool waits) {
  float* part = faibench::cuda::dynamic_shared<float>();
  const int t = static_cast<int>(threadIdx.x), first = static_cast<int>(blockIdx.x) * 32;
  if (t < 8) faibench::cuda::copy_async<16>(part + 4 * t, x + first + 4 * t, t == 7 ? 8 : 16);
  faibench::cuda::commit_copies();
  if (waits) faibench::cuda::wait_copies<0>();
  __syncthreads();
  y[first + t] = part[t];
}

template <class T>
__global__ void half_kernel(const T* a, const T* b, float* d, bool swapped) {
  __shared__ __align__(16) T rows[16][16];
  __shared__ __align__(16) T more[16][8];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 256; i += 32) rows[i / 16][i % 16] = a[i];
  for (int i = lane; i < 128; i += 32) more[i / 8][i % 8] = b[i];
  __syncwarp();
  std::uint32_t x[4], y[4];
  faibench::cuda::load_matrix_x4(x, &rows[lane % 16][lane / 16 * 8]);
  faibench::cuda::load_matrix_x4_transposed(y, &more[lane % 16][0]);
  if (swapped) {
    const std::uint32_t kept = x[1];
    x[1] = x[2];
    x[2] = kept;
  }
  float sums[4] = {0, 0, 0, 0};
  const std::uint32_t two[2] = {y[0], y[1]};
  faibench::cuda::multiply_16x8x16<T>(sums, x, two);
  for (int i = 0; i < 4; ++i) d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}

__global__ void tf32_kernel(const float* a, const float* b, float* d) {
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  const auto bits = [](float v) { return __float_as_uint(v); };
  const std::uint32_t x[4] = {bits(a[g * 8 + t]), bits(a[(g + 8) * 8 + t]), bits(a[g * 8 + t + 4]), bits(a[(g + 8) * 8 + t + 4])}, y[2] = {bits(b[t * 8 + g]), bits(b[(t + 4) * 8 + g])};
  float sums[4] = {0, 0, 0, 0};
  faibench::cuda::multiply_16x8x8(sums, x, y);
  for (int i = 0; i < 4; ++i) d[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = sums[i];
}

__global__ void number_kernel(int* out) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  out[y * gridDim.x * blockDim.x + x] = static_cast<int>(1000 * y + x);
}

}  // namespace

using faibench::cuda::launch;

void add_one(const float* x, float* y, int n, Bug bug) { launch("add_one", add_one_kernel, {static_cast<unsigned>(n + 32) / 32, 32}, x, y, n, bug); }
void reverse_blocks(const float* x, float* y, int blocks, SharedBug bug) { launch("reverse_blocks", reverse_kernel, {static_cast<unsigned>(blocks), 64, 64}, x, y, bug); }
void sum_blocks(const int* x, int* sums, int blocks, SyncBug bug) { launch("sum_blocks", sum_kernel, {static_cast<unsigned>(blocks), 64}, x, sums, bug); }
void copy_through(const float* x, float* y, int blocks, bool waits) { launch("copy_through", copy_kernel, {static_cast<unsigned>(blocks), 32, 128}, x, y, waits); }
void multiply_half(const void* a, const void* b, float* d, bool bfloat, bool swapped) {
  if (bfloat) launch("multiply_half", half_kernel<__nv_bfloat16>, {1, 32}, static_cast<const __nv_bfloat16*>(a), static_cast<const __nv_bfloat16*>(b), d, swapped);
  else launch("multiply_half", half_kernel<__half>, {1, 32}, static_cast<const __half*>(a), static_cast<const __half*>(b), d, swapped);
}
void multiply_tf32(const float* a, const float* b, float* d) { launch("multiply_tf32", tf32_kernel, {1, 32}, a, b, d); }
void number_threads(int* out, int blocks_x, int blocks_y, int threads_x, int threads_y) {
  launch("number_threads", number_kernel, {dim3(static_cast<unsigned>(blocks_x), static_cast<unsigned>(blocks_y)), dim3(static_cast<unsigned>(threads_x), static_cast<unsigned>(threads_y))}, out);
}
void add_one_on_the_host(const float* x, float* y) { *y = *x + 1; }
float read_on_the_host(const float* x) { return *x; }

void too_many_threads(float* y) { launch("too_many_threads", add_one_kernel, {1, 2048}, static_cast<const float*>(y), y, 1, Bug::none); }

}  // namespace faibench::planted
