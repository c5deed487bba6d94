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
/// An object is used at an address that its type's alignment forbids. Vector types of 16-bit floats are copied half by half on the host: no access of theirs would tell.
void on_misaligned(std::uintptr_t address);

}  // namespace faibench::emulator
