// A thread that acts when something takes too long, because the thread that does it cannot.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace faibench {

/// Calls `expired` on its own thread unless destroyed within `seconds`.
class Deadline {
 public:
  Deadline(double seconds, std::function<void()> expired) : thread_([this, seconds, expired = std::move(expired)] {
    std::unique_lock lock(mutex_);
    if (!met_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return done_; })) expired();
  }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    met_.notify_all();
    thread_.join();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable met_;
  bool done_ = false;
  std::thread thread_;  // last: starts when the rest is there
};

}  // namespace faibench
