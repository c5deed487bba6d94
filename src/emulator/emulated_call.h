// A variant of a GPU as one that is called with tensors in host memory.
#pragma once
#include <string>
#include <vector>

#include "task/kernel.h"

namespace faibench::emulator {

/// `kernel` with the tensors of each call lent to the emulated device while it lasts: inputs to read, outputs to read and write. Scalars are the host's
/// alone, the inputs named in `on_host` lie in its page-locked memory. The call has a stream of its own (run_call in device.h). What the kernels do wrong is thrown as a KernelFault (task/device_library.h) when the call returns.
Kernel emulated_call(const Kernel& kernel, const std::vector<std::string>& on_host);

}  // namespace faibench::emulator
