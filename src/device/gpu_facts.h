// GPUs as this process sees them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace faibench {

/// What does not change while a process runs. Figures that nobody tells are 0.
struct GpuFacts {
  std::string uuid;                   ///< "GPU-5f0c1c2a-...": the same in every process and on every rank, whatever the numbers are
  std::string name;                   ///< "NVIDIA H200"
  std::int64_t memory_bytes = 0, l2_bytes = 0;
  int multiprocessors = 0;
  int capability = 0;                 ///< 80 for sm_80
  bool exclusive = false;             ///< takes the context of one process at a time: judge and candidate cannot share it
  double sm_clock_hz = 0, memory_clock_hz = 0, power_limit_watts = 0;  ///< the highest, by NVML
};

struct GpuList {
  std::vector<GpuFacts> gpus;         ///< in the runtime's order, which CUDA_VISIBLE_DEVICES decides
  std::string why_none;               ///< where there is none
  std::string driver;                 ///< version of the GPU driver, by NVML; else of the CUDA that it supports
};

/// Asks the CUDA runtime and NVML. No toolkit, no driver and no GPU are the same: an empty list, never an error.
GpuList list_gpus();
std::vector<std::string> uuids_of(const std::vector<GpuFacts>& gpus);
/// "GPU-5f0c1c2a-...: NVIDIA H200, sm_90, 132 SMs, 139.8 GiB, SM 1980 MHz, memory 3201 MHz, 700 W".
std::string facts_text(const GpuFacts& gpu);

}  // namespace faibench
