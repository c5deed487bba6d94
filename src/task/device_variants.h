// Kernels of variants that run on a GPU. They live in libraries of their own, one built by nvcc and one for the emulator, so that the program itself needs neither:
// a task with a cuda.cu has a device.cpp beside it that binds them, and its task.cpp lists their names with on_device().
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "task/kernel.h"

namespace faibench {

struct DeviceVariant {
  std::string name;
  /// Gets tensors in device memory, outputs of rank 0 too, but scalar inputs and those of Variant::on_host. What it launches goes to cuda::current_stream() and may still run when it returns.
  Kernel kernel;
};

/// Each device.cpp defines one function here, named like its folder.
namespace device {}

struct DeviceTask {
  std::string_view task;
  std::vector<DeviceVariant> variants;
};

/// All of this library. The list is generated from the folders.
std::span<const DeviceTask> all_device_tasks();

}  // namespace faibench
