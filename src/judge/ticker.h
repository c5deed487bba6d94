// Wakes a waiting judge now and then, so that it can look after its candidate.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>

namespace faibench {

/// While a word is watched, a thread wakes its futex every 20 ms. A wait with a timeout of its own would do the same, but arms a timer at every call:
/// 0.3 to 0.5 us of a 5 us hand-shake on a virtual machine, where the timer leaves the guest.
class Ticker {
 public:
  static constexpr double period_seconds = 0.02;
  /// The one of this process, started at the first call.
  static Ticker& instance();
  void watch(std::atomic<std::uint32_t>& word) { word_.store(&word); }
  void rest() { word_.store(nullptr); }

 private:
  Ticker();
  std::atomic<std::atomic<std::uint32_t>*> word_{nullptr};
  std::jthread thread_;
};

}  // namespace faibench
