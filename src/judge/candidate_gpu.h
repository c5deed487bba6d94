// The candidate's side of a GPU: its own context, the judge's buffers opened there, and calls of device variants.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device/owners.h"
#include "judge/control_page.h"
#include "task/kernel.h"

namespace faibench {

class CandidateGpu {
 public:
  /// On the GPU with this UUID; `data` is the shared memory's data region. Throws Error(device).
  CandidateGpu(const std::string& uuid, std::byte* data);

  /// Opens the memory that the page tells of, where it is another than before, and locks the data region's pages where inputs of calls lie there.
  void follow(const ControlPage& page);

  /// `kernel` for tensors whose places in device memory correspond to those in the data region, but scalar inputs and those of `on_host`. A call ends when the device has nothing left to do.
  /// What goes wrong on the device is thrown as a KernelFault that says whether the context is lost.
  Kernel call(const Kernel& kernel, const std::vector<std::string>& on_host);

 private:
  CudaLibrary& cuda_;
  std::byte* data_;
  OpenedGpuMemory memory_;
  LockedPages locked_;
  std::int64_t generation_ = 0, bytes_ = 0;
};

/// KernelFault::fault of one.
inline constexpr const char* device_error = "device error";
inline constexpr const char* out_of_device_memory = "out of device memory";

}  // namespace faibench
