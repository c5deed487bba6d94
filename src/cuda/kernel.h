// What a .cu file includes: kernels read as plain CUDA, and this is the one place where the device and the emulator differ. Beyond CUDA's own names there are
//   launch(name, kernel, {grid, block, shared bytes}, arguments...)           instead of <<<>>>
//   dynamic_shared<T>()                                                         instead of an extern array
//   copy_async<16>(shared, global, bytes_taken), commit_copies(), wait_copies<n>()   cp.async
//   load_matrix_x4(registers, row), ..._transposed                              ldmatrix
//   multiply_16x8x16(...), multiply_16x8x8(...)                                 mma.sync, f32 accumulators, fragments as in the PTX manual
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace faibench::cuda {

struct Shape {
  dim3 grid{1, 1, 1}, block{1, 1, 1};
  std::size_t shared_bytes = 0;  ///< dynamic shared memory
};

}  // namespace faibench::cuda

#if defined(__CUDACC__)
#include "cuda/kernel_on_device.h"
#else
#include "cuda/kernel_emulated.h"
#endif
