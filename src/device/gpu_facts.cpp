#include "device/gpu_facts.h"

#include <cstdio>

#include "device/cuda_library.h"
#include "device/nvml.h"

namespace faibench {

GpuList list_gpus() {
  GpuList list;
  CudaLibrary* cuda = cuda_library(list.why_none);
  if (!cuda) return list;
  try {
    const int count = cuda->count(list.why_none);
    for (int device = 0; device < count; ++device) list.gpus.push_back(cuda->facts(device));
    if (count > 0) list.driver = cuda->driver();
  } catch (const Error& e) {  // a GPU that answers nothing is none
    list.gpus.clear();
    list.why_none = e.what();
  }
  std::string why;
  Nvml* library = list.gpus.empty() ? nullptr : nvml(why);
  if (!library) return list;
  for (GpuFacts& gpu : list.gpus) library->add_limits(gpu);
  if (const std::string version = library->driver(); !version.empty()) list.driver = version;
  return list;
}

std::vector<std::string> uuids_of(const std::vector<GpuFacts>& gpus) {
  std::vector<std::string> uuids;
  for (const GpuFacts& gpu : gpus) uuids.push_back(gpu.uuid);
  return uuids;
}

std::string facts_text(const GpuFacts& gpu) {
  char text[160];
  const double gibibytes = static_cast<double>(gpu.memory_bytes) / (1 << 30), l2_mebibytes = static_cast<double>(gpu.l2_bytes) / (1 << 20);
  std::snprintf(text, sizeof text, ", sm_%d, %d SMs, %.1f GiB, L2 %.0f MiB", gpu.capability, gpu.multiprocessors, gibibytes, l2_mebibytes);
  std::string line = gpu.uuid + ": " + gpu.name + text;
  if (gpu.sm_clock_hz > 0) {
    std::snprintf(text, sizeof text, ", SM up to %.0f MHz, memory %.0f MHz", gpu.sm_clock_hz * 1e-6, gpu.memory_clock_hz * 1e-6);
    line += text;
  }
  if (gpu.power_limit_watts > 0) line += ", " + std::to_string(static_cast<int>(gpu.power_limit_watts + 0.5)) + " W";
  if (gpu.exclusive) line += ", exclusive mode";
  return line;
}

CudaLibrary& cuda_library_on(const std::string& uuid) {
  std::string why;
  CudaLibrary* cuda = cuda_library(why);
  const int count = cuda ? cuda->count(why) : 0;
  if (count == 0) throw Error(Error::Kind::device, "no GPU: " + why);
  for (int device = 0; device < count; ++device) {
    if (!uuid.empty() && cuda->facts(device).uuid != uuid) continue;
    cuda->use(device);
    return *cuda;
  }
  throw Error(Error::Kind::device, "the GPU " + uuid + " is not visible to this process (CUDA_VISIBLE_DEVICES)");
}

}  // namespace faibench
