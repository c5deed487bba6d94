// Finds and loads the libraries of device variants that lie beside the program.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "task/device_library.h"
#include "task/task.h"

namespace faibench {

enum class DeviceKind { cuda, emulated };

/// "emulated:cuda" is the variant "cuda", run by the emulator on a CPU.
inline constexpr std::string_view emulated_prefix = "emulated:";

/// lib/faibench/libfaibench_<kind>.so beside the folder of this program (or of $FAIBENCH_WORKER), or in $FAIBENCH_DEVICE_LIBRARIES; empty where it is not there: the build has none.
std::optional<std::filesystem::path> find_device_library(DeviceKind kind);

/// Why find_device_library() found none, and what to do: one line.
std::string no_device_library(DeviceKind kind);

/// Loads it into this process, once, for good. Throws Error(bad_input) where there is none, or one of another build.
const DeviceLibrary& load_device_library(DeviceKind kind);

/// The kernel of a device variant. Throws Error(bad_input) where the library has none of that name.
const Kernel& device_kernel(const DeviceLibrary& library, const Task& task, std::string_view variant);

}  // namespace faibench
