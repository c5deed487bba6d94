#include "device/nvml.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

namespace faibench {
namespace {

// NVML's interface as its reference manual has it: the toolkit does not always bring the header, the driver always brings the library.
using Status = int;
constexpr Status success = 0, insufficient_size = 7;
using Handle = struct nvmlDevice_st*;
enum Clock : int { sm_clock = 1, memory_clock = 2 };
constexpr int gpu_temperature = 0;
constexpr std::uint64_t not_told = ~std::uint64_t{0};
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

struct EntryPoints {
  Status (*init)();
  Status (*driver_version)(char*, unsigned);
  Status (*handle_by_uuid)(const char*, Handle*);
  Status (*clock)(Handle, Clock, unsigned*);
  Status (*max_clock)(Handle, Clock, unsigned*);
  Status (*power)(Handle, unsigned*);
  Status (*power_limit)(Handle, unsigned*);
  Status (*temperature)(Handle, int, unsigned*);
  Status (*reasons)(Handle, unsigned long long*);
  Status (*processes)(Handle, unsigned*, ProcessInfo*);
};

class LoadedNvml final : public Nvml {
 public:
  explicit LoadedNvml(const EntryPoints& nvml) : nvml_(nvml) {}

  std::string driver() override {
    std::array<char, 96> text{};
    return nvml_.driver_version(text.data(), static_cast<unsigned>(text.size() - 1)) == success ? text.data() : "";
  }
  void add_limits(GpuFacts& gpu) override {
    Handle device;
    if (!find(gpu.uuid, device)) return;
    gpu.sm_clock_hz = 1e6 * read(nvml_.max_clock, device, sm_clock);
    gpu.memory_clock_hz = 1e6 * read(nvml_.max_clock, device, memory_clock);
    gpu.power_limit_watts = 1e-3 * read(nvml_.power_limit, device);
  }
  GpuReading reading(const std::string& uuid) override {
    GpuReading now;
    Handle device;
    if (!find(uuid, device)) return now;
    now.sm_clock_hz = 1e6 * read(nvml_.clock, device, sm_clock);
    now.memory_clock_hz = 1e6 * read(nvml_.clock, device, memory_clock);
    now.power_watts = 1e-3 * read(nvml_.power, device);
    now.celsius = read(nvml_.temperature, device, gpu_temperature);
    unsigned long long reasons = 0;
    if (nvml_.reasons(device, &reasons) == success) now.reasons = reasons;
    return now;
  }
  std::int64_t memory_of(const std::string& uuid, int process) override {
    Handle device;
    if (!find(uuid, device)) return -1;
    std::vector<ProcessInfo> all(16);
    for (;;) {
      auto count = static_cast<unsigned>(all.size());
      const Status status = nvml_.processes(device, &count, all.data());
      if (status == insufficient_size) {
        all.resize(count + 16);
        continue;
      }
      if (status != success) return -1;
      for (unsigned i = 0; i < count; ++i)
        if (static_cast<int>(all[i].pid) == process && all[i].used_bytes != not_told) return static_cast<std::int64_t>(all[i].used_bytes);
      return -1;
    }
  }

 private:
  // The runtime does not say whether a UUID is that of a slice.
  bool find(const std::string& uuid, Handle& device) const {
    if (nvml_.handle_by_uuid(uuid.c_str(), &device) == success) return true;
    return uuid.starts_with("GPU-") && nvml_.handle_by_uuid(("MIG-" + uuid.substr(4)).c_str(), &device) == success;
  }
  template <class... P, class... A>
  static double read(Status (*call)(Handle, P...), Handle device, A... arguments) {
    unsigned value = 0;
    return call(device, arguments..., &value) == success ? value : 0;
  }

  const EntryPoints& nvml_;
};

std::string load(EntryPoints& e) {
  const char* asked = std::getenv("FAIBENCH_NVML");
  void* library = dlopen(asked && *asked ? asked : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return "NVML cannot be loaded: " + std::string(dlerror());
  std::string missing;
  const auto find = [&](auto& entry, const char* name, const char* older = nullptr) {
    using Entry = std::remove_reference_t<decltype(entry)>;
    entry = reinterpret_cast<Entry>(dlsym(library, name));
    if (!entry && older) entry = reinterpret_cast<Entry>(dlsym(library, older));
    if (!entry && missing.empty()) missing = std::string("NVML has no ") + name;
  };
  find(e.init, "nvmlInit_v2");
  find(e.driver_version, "nvmlSystemGetDriverVersion");
  find(e.handle_by_uuid, "nvmlDeviceGetHandleByUUID");
  find(e.clock, "nvmlDeviceGetClockInfo");
  find(e.max_clock, "nvmlDeviceGetMaxClockInfo");
  find(e.power, "nvmlDeviceGetPowerUsage");
  find(e.power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  find(e.temperature, "nvmlDeviceGetTemperature");
  find(e.reasons, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons");
  find(e.processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  if (!missing.empty()) return missing;
  const Status status = e.init();
  return status == success ? "" : "nvmlInit answers error " + std::to_string(status);
}

}  // namespace

std::string throttle_text(std::uint64_t reasons) {
  constexpr std::array<std::pair<std::uint64_t, const char*>, 6> slow = {{{0x04, "power cap"},
                                                                           {0x08, "hardware slowdown"},
                                                                           {0x10, "sync boost"},
                                                                           {0x20, "thermal slowdown"},
                                                                           {0x40, "hardware thermal slowdown"},
                                                                           {0x80, "power brake"}}};
  std::string text;
  for (const auto& [bit, name] : slow)
    if (reasons & bit) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

Nvml* nvml(std::string& why) {
  static EntryPoints entries{};
  static const std::string problem = load(entries);
  static Nvml* const loaded = problem.empty() ? new LoadedNvml(entries) : nullptr;
  why = problem;
  return loaded;
}

}  // namespace faibench
