// Chosen where the build found no CUDA toolkit.
#include "device/cuda_library.h"

namespace faibench {

CudaLibrary* cuda_library(std::string& why) {
  why = "this faibench was built without a CUDA toolkit";
  return nullptr;
}

}  // namespace faibench
