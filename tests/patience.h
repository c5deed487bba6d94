// Waiting in tests: for what is to happen, with an end that a busy machine moves.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace faibench::testing_support {

/// How many times longer than on a quiet machine a limit is: runnable processes a core, of the last minute or the last five.
inline double patience() {
  double load[2] = {};
  if (getloadavg(load, 2) < 2) return 4;
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  return std::max({1.0, load[0] / cores, load[1] / cores});
}

/// Whether `holds` comes true: asked again and again, for `seconds` at most where it does not.
template <class Holds>
bool wait_until(Holds holds, double seconds = 60) {
  const auto start = std::chrono::steady_clock::now();
  while (!holds()) {
    if (std::chrono::steady_clock::now() - start > std::chrono::duration<double>(seconds * patience())) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace faibench::testing_support
