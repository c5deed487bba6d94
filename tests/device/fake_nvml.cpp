// See fake_gpu.h: NVML's part. Every GPU draws 300 W of 700, is told of as busy with one process of 5 MiB, this one.
#include "fake_gpu.h"

namespace {

using faibench::testing_support::FakeGpuState;

FakeGpuState& state() {
  static FakeGpuState* const shared = [] {
    const int file = open((std::string(std::getenv("FAKE_GPU")) + "/state").c_str(), O_RDWR | O_CLOEXEC);
    auto* mapped = static_cast<FakeGpuState*>(mmap(nullptr, sizeof(FakeGpuState), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    return mapped;
  }();
  return *shared;
}

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
constexpr int success = 0, not_found = 6, insufficient_size = 7, driver_not_loaded = 9;

}  // namespace

extern "C" {

int nvmlInit_v2() { return state().nvml_works ? success : driver_not_loaded; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::snprintf(text, length, "580.65.06");
  return success;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  for (int i = 0; i < state().devices; ++i)
    if (faibench::testing_support::fake_uuid(i) == uuid) {
      *device = reinterpret_cast<void*>(static_cast<std::intptr_t>(i + 1));
      return success;
    }
  return not_found;
}
int nvmlDeviceGetClockInfo(void*, int clock, unsigned* megahertz) {
  *megahertz = clock == 1 ? static_cast<unsigned>(state().sm_mhz) : 3201;
  return success;
}
int nvmlDeviceGetMaxClockInfo(void*, int clock, unsigned* megahertz) {
  *megahertz = clock == 1 ? 1980 : 3201;
  return success;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 300'000;
  return success;
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  *milliwatts = 700'000;
  return success;
}
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) {
  *celsius = 41;
  return success;
}
int nvmlDeviceGetCurrentClocksEventReasons(void*, unsigned long long* reasons) {
  *reasons = state().throttle_reasons;
  return success;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, ProcessInfo* all) {
  constexpr unsigned running = 20;
  if (*count < running) {
    *count = running;
    return insufficient_size;
  }
  *count = running;
  for (unsigned i = 0; i < running; ++i) all[i] = {i + 1, 0, 0, 0};
  all[running - 1] = {static_cast<unsigned>(getpid()), 5ull << 20, 0, 0};
  return success;
}

}  // extern "C"
