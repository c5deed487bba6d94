// What a library of device variants gives to the process that loads it. There are two, built from the same device.cpp and cuda.cu files by the compiler of the program:
// libfaibench_cuda.so (src/cuda/library.cpp) and libfaibench_emulated.so (src/emulator/library.cpp). Nothing is linked to them.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "task/device_variants.h"
#include "tensor/error.h"

namespace faibench {

struct DeviceLibrary {
  static constexpr int version_now = 1;
  int version;
  std::span<const DeviceTask> tasks;
  /// What this thread's kernels launch goes to this cudaStream_t from now on; null: the default stream. Nothing on the emulator.
  void (*set_stream)(void* stream);
  /// `kernel` for tensors in host memory, of which all but scalar inputs and those of `on_host` take the place of device memory during a call. Null where there is a device.
  Kernel (*emulated)(const Kernel& kernel, const std::vector<std::string>& on_host);
};

/// What a kernel did wrong, where it is known better than by a wrong result.
struct KernelFault : Error {
  KernelFault(std::string fault, const std::string& message) : Error(Kind::device, message), fault(std::move(fault)) {}
  std::string fault;  ///< "race on shared memory"; the message names kernel, block, thread and address
};

/// The one function that a library exports, and its name.
using DeviceLibraryEntry = const DeviceLibrary* (*)();
inline constexpr const char* device_library_entry = "faibench_device_library";

}  // namespace faibench
