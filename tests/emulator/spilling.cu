// A kernel that cannot do without spilling: cuda_resources.sh must say so.
#include "cuda/kernel.h"

namespace faibench::counted {

__global__ void __launch_bounds__(1024) spilling(const float* x, float* y) {
  float all[96];
  for (int i = 0; i < 96; ++i) all[i] = x[i * 1024 + threadIdx.x];
  for (int round = 0; round < 8; ++round)
    for (int i = 0; i < 96; ++i) all[i] = all[i] * all[(i * 7 + round) % 96] + all[(i + 1) % 96];
  for (int i = 0; i < 96; ++i) y[i * 1024 + threadIdx.x] = all[i];
}

}  // namespace faibench::counted
