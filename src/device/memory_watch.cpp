#include "device/memory_watch.h"

#include <algorithm>
#include <chrono>

namespace faibench {

DeviceMemoryWatch::DeviceMemoryWatch(CudaLibrary& cuda, std::string uuid) : cuda_(cuda), free_at_start_(cuda.memory().free_bytes), least_free_(free_at_start_) {
  thread_ = std::thread([this, uuid = std::move(uuid)] {
    try {
      cuda_library_on(uuid);  // the current device is a thread's own
      while (!ends_.load(std::memory_order_relaxed)) {
        look();
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    } catch (const Error&) {  // the device is gone: whoever works on it hears of it
    }
  });
}

DeviceMemoryWatch::~DeviceMemoryWatch() {
  ends_ = true;
  thread_.join();
}

void DeviceMemoryWatch::look() {
  const std::int64_t now = cuda_.memory().free_bytes;
  std::int64_t least = least_free_.load();
  while (now < least && !least_free_.compare_exchange_weak(least, now)) {}
}

void DeviceMemoryWatch::start_call() {
  least_free_ = free_at_start_;
  look();
}

std::int64_t DeviceMemoryWatch::most_taken() {
  look();
  return std::max<std::int64_t>(0, free_at_start_ - least_free_.load());
}

}  // namespace faibench
