// A library of device variants whose kernels are loops of the host: on the double of a GPU, device memory is memory of theirs. $DOUBLE_KERNEL plants a fault into "cuda".
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "task/device_library.h"
#include "tensor/view.h"

namespace faibench {
namespace {

void transpose(View<const float, 2> x, View<float, 2> y) {
  for (std::int64_t m = 0; m < x.extent(0); ++m)
    for (std::int64_t n = 0; n < x.extent(1); ++n) y(n, m) = x(m, n);
}

void transpose_with_a_fault(View<const float, 2> x, View<float, 2> y) {
  transpose(x, y);
  const char* fault = std::getenv("DOUBLE_KERNEL");
  const std::string planted = fault ? fault : "";
  if (y.size() == 0) return;
  if (planted == "past the end") y.data()[y.size()] = 1;
  if (planted == "wrong") y.data()[y.size() - 1] += 1;
  if (planted == "input") const_cast<float*>(x.data())[0] += 1;
  if (planted == "hoards") {
    void* memory = nullptr;
    reinterpret_cast<int (*)(void**, std::size_t)>(dlsym(RTLD_DEFAULT, "cudaMalloc"))(&memory, 4 << 20);
    usleep(30'000);
    reinterpret_cast<int (*)(void*)>(dlsym(RTLD_DEFAULT, "cudaFree"))(memory);
  }
  if (planted == "fault") throw Error(Error::Kind::device, "transpose: cudaErrorLaunchFailure: unspecified launch failure");
}

const std::vector<DeviceTask>& tasks() {
  static const std::vector<DeviceTask> all = {
      {"coalesced_matrix_transpose", {{"cuda", Kernel({bind(transpose_with_a_fault, {"x", "y"})})}, {"cuda_baseline", Kernel({bind(transpose, {"x", "y"})})}}}};
  return all;
}

}  // namespace
}  // namespace faibench

extern "C" __attribute__((visibility("default"))) const faibench::DeviceLibrary* faibench_device_library() {
  static const faibench::DeviceLibrary library{faibench::DeviceLibrary::version_now, faibench::tasks(), [](void*) {}, nullptr};
  return &library;
}
