#include "judge/ticker.h"

#include <chrono>

#include "judge/control_page.h"

namespace faibench {

Ticker& Ticker::instance() {
  static Ticker ticker;
  return ticker;
}

// A word whose memory is gone by now costs a failed system call, nothing else.
Ticker::Ticker()
    : thread_([this](std::stop_token stop) {
        while (!stop.stop_requested()) {
          std::this_thread::sleep_for(std::chrono::duration<double>(period_seconds));
          if (auto* word = word_.load()) wake(*word);
        }
      }) {}

}  // namespace faibench
