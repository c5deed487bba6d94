// How much device memory calls take at most, counted from outside.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "device/cuda_library.h"

namespace faibench {

/// Looks at the free memory of the whole device, again and again, while it lives: what a process allocates and gives back between two looks, some 50 us apart, is not seen; what others
/// allocate meanwhile is. So: one candidate on the device, in its timing slot, and calls that are not timed.
class DeviceMemoryWatch {
 public:
  /// On the device in use, which has this UUID. Throws Error(device).
  DeviceMemoryWatch(CudaLibrary& cuda, std::string uuid);
  ~DeviceMemoryWatch();
  DeviceMemoryWatch(const DeviceMemoryWatch&) = delete;
  DeviceMemoryWatch& operator=(const DeviceMemoryWatch&) = delete;

  void start_call();
  /// Bytes that were free when the watch began and taken at some time since start_call(): what is still held from before it counts.
  std::int64_t most_taken();

 private:
  void look();
  CudaLibrary& cuda_;
  std::int64_t free_at_start_;
  std::atomic<std::int64_t> least_free_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace faibench
