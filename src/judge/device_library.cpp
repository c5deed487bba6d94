#include "judge/device_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

namespace faibench {
namespace {

const char* file_name(DeviceKind kind) { return kind == DeviceKind::cuda ? "libfaibench_cuda.so" : "libfaibench_emulated.so"; }

std::filesystem::path folder() {
  if (const char* path = std::getenv("FAIBENCH_DEVICE_LIBRARIES"); path && *path) return path;
  const char* worker = std::getenv("FAIBENCH_WORKER");
  std::error_code error;
  const auto program = worker && *worker ? std::filesystem::absolute(worker) : std::filesystem::read_symlink("/proc/self/exe", error);
  return program.parent_path().parent_path() / "lib" / "faibench";  // a tree that is moved takes them along
}

}  // namespace

std::optional<std::filesystem::path> find_device_library(DeviceKind kind) {
  std::error_code error;
  const std::filesystem::path path = folder() / file_name(kind);
  return std::filesystem::exists(path, error) ? std::optional(path) : std::nullopt;
}

std::string no_device_library(DeviceKind kind) {
  return "this build has no " + std::string(kind == DeviceKind::cuda ? "CUDA kernels" : "emulated kernels") + " (" + (folder() / file_name(kind)).string() + " is missing): build where there is " +
         (kind == DeviceKind::cuda ? "nvcc" : "a CUDA toolkit, whose headers it takes, and Boost.Context");
}

const DeviceLibrary& load_device_library(DeviceKind kind) {
  const auto path = find_device_library(kind);
  if (!path) throw Error(Error::Kind::bad_input, no_device_library(kind));
  void* handle = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw Error(Error::Kind::bad_input, dlerror());
  const auto entry = reinterpret_cast<DeviceLibraryEntry>(dlsym(handle, device_library_entry));
  if (!entry) throw Error(Error::Kind::bad_input, path->string() + ": no function " + device_library_entry);
  const DeviceLibrary* library = entry();
  if (library->version != DeviceLibrary::version_now)
    throw Error(Error::Kind::bad_input, path->string() + " is of another build: its version is " + std::to_string(library->version) + ", this program's " + std::to_string(DeviceLibrary::version_now));
  return *library;
}

const Kernel& device_kernel(const DeviceLibrary& library, const Task& task, std::string_view variant) {
  const auto of_task = std::ranges::find_if(library.tasks, [&](const DeviceTask& one) { return one.task == task.name; });
  if (of_task != library.tasks.end()) {
    const auto found = std::ranges::find_if(of_task->variants, [&](const DeviceVariant& one) { return one.name == variant; });
    if (found != of_task->variants.end()) return found->kernel;
  }
  throw Error(Error::Kind::bad_input, "the library of device variants has no '" + std::string(variant) + "' of " + task.name + ": it is of another build, or the variant cannot be emulated");
}

}  // namespace faibench
