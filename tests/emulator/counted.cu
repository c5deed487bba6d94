// A kernel of which cuda_resources_test.sh knows what the compiler makes.
#include "cuda/kernel.h"

namespace faibench::counted {

__global__ void __launch_bounds__(64) known(const float4* __restrict__ x, float4* y, const __half* a, float* d) {
  __shared__ __align__(16) float4 lines[64];
  const unsigned t = threadIdx.x;
  faibench::cuda::copy_async<16>(&lines[t], a + 8 * t);
  faibench::cuda::commit_copies();
  faibench::cuda::wait_copies<0>();
  __syncthreads();
  std::uint32_t fragment[4];
  faibench::cuda::load_matrix_x4(fragment, &lines[t % 32]);
  const std::uint32_t right[2] = {fragment[0], fragment[2]};
  float sum[4] = {0, 0, 0, 0};
  faibench::cuda::multiply_16x8x16<__half>(sum, fragment, right);
  y[t] = x[t];
  d[t] = sum[0] + sum[1] + sum[2] + sum[3];
}

}  // namespace faibench::counted
