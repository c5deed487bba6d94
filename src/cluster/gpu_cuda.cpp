// Built where a CUDA toolkit was found; whether there is a driver and a GPU shows only here, at run time.
#include <cuda_runtime_api.h>

#include <array>
#include <cstdio>

#include "cluster/topology.h"

namespace faibench {

std::vector<std::string> find_gpus() {
  std::vector<std::string> uuids;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    std::string uuid = "GPU-?" + std::to_string(device);
    if (cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
      uuid = "GPU-";
      for (int byte = 0; byte < 16; ++byte) {
        std::array<char, 3> hex{};
        std::snprintf(hex.data(), hex.size(), "%02x", static_cast<unsigned char>(properties.uuid.bytes[byte]));
        if (byte == 4 || byte == 6 || byte == 8 || byte == 10) uuid += '-';
        uuid += hex.data();
      }
    }
    uuids.push_back(std::move(uuid));
  }
  cudaGetLastError();  // no driver, no device: not an error here, and not one for the next call
  return uuids;
}

}  // namespace faibench
