// The entry of libfaibench_cuda.so.
#include "cuda/stream.h"
#include "task/device_library.h"

extern "C" __attribute__((visibility("default"))) const faibench::DeviceLibrary* faibench_device_library() {
  static const faibench::DeviceLibrary library{faibench::DeviceLibrary::version_now, faibench::all_device_tasks(),
                                               [](void* stream) { faibench::cuda::set_current_stream(static_cast<cudaStream_t>(stream)); }, nullptr};
  return &library;
}
