// What the emulator finds wrong in a kernel, or in how the host asked for work.
#pragma once
#include <cstdint>
#include <string>

namespace faibench::emulator {

struct Index { unsigned x = 0, y = 0, z = 0; };

struct Fault {
  enum class Kind { out_of_bounds, misaligned, write_to_input, never_written, race, divergent_barrier, divergent_warp, bad_launch, unordered, unfinished, bad_stream, host_access };
  Kind kind;
  std::string kernel;
  Index block, thread;
  std::uintptr_t address = 0;  ///< 0 where none is at fault
  std::string message;         ///< one line: kernel, block, thread, address, and what is wrong there
};

std::string name_of(Fault::Kind kind);

}  // namespace faibench::emulator
