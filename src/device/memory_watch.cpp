#include "device/memory_watch.h"

#include <algorithm>
#include <chrono>

namespace faibench {

DeviceMemoryWatch::DeviceMemoryWatch(CudaLibrary& cuda, int device) : cuda_(cuda), free_at_start_(cuda.memory().free_bytes), least_free_(free_at_start_) {
  thread_ = std::thread([this, device] {
    try {
      cuda_.use(device);  // the current device is a thread's own
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
  if (thread_.joinable()) thread_.join();
}

void DeviceMemoryWatch::look() { least_free_.store(std::min(least_free_.load(), cuda_.memory().free_bytes)); }

std::int64_t DeviceMemoryWatch::most_taken() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
  look();
  return std::max<std::int64_t>(0, free_at_start_ - least_free_.load());
}

}  // namespace faibench
