// What submissions that hold memory share. They answer coalesced_matrix_transpose; the limit of the test is 8 MiB.
#pragma once
#include <chrono>
#include <cstdlib>
#include <thread>

#include "../faults/transpose.h"

inline constexpr long mebibyte = 1 << 20;

/// Writes to every page.
inline void touch(void* memory, long bytes) {
  for (long i = 0; i < bytes; i += 4096) static_cast<volatile char*>(memory)[i] = 1;
}

/// Long enough to be looked at.
inline void wait_a_while() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }
