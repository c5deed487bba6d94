// The judge's side of a GPU: its own context, the clock of calls there, what NVML says meanwhile; and the device memory that candidates work on.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "device/gpu_facts.h"
#include "device/nvml.h"
#include "device/owners.h"
#include "device/timing_window.h"
#include "judge/arena.h"

namespace faibench {

/// One a judge. Its context is the judge's: what a candidate does to its own is nothing to it.
class GpuBench {
 public:
  /// On the GPU with this UUID, or the first visible one. Throws Error(device) where there is none.
  explicit GpuBench(const std::string& uuid);

  [[nodiscard]] CudaLibrary& cuda() { return cuda_; }
  [[nodiscard]] const GpuFacts& facts() const { return facts_; }
  [[nodiscard]] TimingWindow& window() { return window_; }
  /// Right now; zeros without NVML.
  [[nodiscard]] GpuReading reading();

 private:
  CudaLibrary& cuda_;
  GpuFacts facts_;
  TimingWindow window_;
  Nvml* nvml_;
};

/// What stands in one candidate's arena, again in device memory, at the same distances: tensors with their guard zones and poison. Scalars and the inputs named in `on_host` stay where they are.
class DeviceTensors {
 public:
  DeviceTensors(GpuBench& bench, std::vector<std::string> on_host);

  /// Room for `bytes` of the data region, told in the page. The memory before lives until the next call of retire(): the candidate may have it open.
  void make_room(std::int64_t bytes, Arena& arena, ControlPage& page);
  void retire() { before_ = {}; }
  /// After a layout: all device tensors there.
  void send(const Arena& arena);
  /// After a call: back into the arena, guard zones too.
  void fetch(const Arena& arena);
  /// In device memory: what corresponds to the data region's first byte.
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }
  /// Whether the tensor of that name and rank lies in device memory.
  [[nodiscard]] bool holds(const std::string& name, const TensorRef& tensor, bool output) const;

 private:
  void copy(const Arena& arena, bool to_device);

  GpuBench& bench_;
  std::vector<std::string> on_host_;
  GpuStream stream_;
  GpuMemory memory_, before_;
  LockedPages locked_;
  std::int64_t bytes_ = 0;
};

}  // namespace faibench
