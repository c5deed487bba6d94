// Where the instrumentation of kernels reports what they do.
#pragma once
#include <cstddef>
#include <cstdint>

namespace faibench::emulator {

struct Access {
  std::uintptr_t address;
  std::size_t bytes;
  bool writes, atomic = false, aligned = true;  ///< aligned: to its size, or it is at fault
};
/// Nothing outside a kernel. Does not return if the access is at fault.
void on_access(const Access& access);
/// An array was indexed beyond its extent.
void on_bad_index();

}  // namespace faibench::emulator
