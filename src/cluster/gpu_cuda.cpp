// Built where a CUDA toolkit was found; whether there is a driver and a GPU shows only here, at run time.
#include <cuda_runtime_api.h>

#include "cluster/topology.h"

namespace faibench {

int count_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // no driver, no device: not an error here, and not one for the next call
  return 0;
}

}  // namespace faibench
