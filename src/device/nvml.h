// Clocks, power and what slows a GPU down, by NVML where it loads.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "device/gpu_facts.h"

namespace faibench {

/// How a GPU is right now. What it does not tell stays 0.
struct GpuReading {
  double sm_clock_hz = 0, memory_clock_hz = 0, power_watts = 0, celsius = 0;
  std::uint64_t reasons = 0;  ///< NVML's clocks event reasons, a bit each
};

/// Why clocks are lower than they could be while the GPU works: "power cap, thermal slowdown"; empty where nothing holds them back (idleness and application clocks do not count).
std::string throttle_text(std::uint64_t reasons);

/// Loaded once and kept. All calls are about the GPU with that UUID and never throw: a GPU that NVML does not know reads as zeros.
class Nvml {
 public:
  virtual ~Nvml() = default;
  virtual std::string driver() = 0;
  /// Fills in the highest clocks and the power limit.
  virtual void add_limits(GpuFacts& gpu) = 0;
  virtual GpuReading reading(const std::string& uuid) = 0;
  /// Device memory that this process holds there, context included; -1 where it is not told (another process's name space).
  virtual std::int64_t memory_of(const std::string& uuid, int process) = 0;
};

/// $FAIBENCH_NVML where that is set, else the driver's libnvidia-ml. Null, and `why`, where there is none.
Nvml* nvml(std::string& why);

}  // namespace faibench
