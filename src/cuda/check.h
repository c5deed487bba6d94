// Errors of the CUDA runtime as exceptions.
#pragma once
#include <cuda_runtime_api.h>

#include <string>

#include "tensor/error.h"

namespace faibench::cuda {

/// Throws Error(device) naming `what` where `status` is no success.
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw Error(Error::Kind::device, std::string(what) + ": " + cudaGetErrorName(status) + ": " + cudaGetErrorString(status));
}

}  // namespace faibench::cuda
