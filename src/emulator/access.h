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
/// Does not return if a kernel's access is at fault. Outside kernels: the host code of a variant, which may touch no device memory while watch_host() is on.
void on_access(const Access& access);
void watch_host(bool on);
/// An array was indexed beyond its extent.
void on_bad_index();
/// An object is used at an address that its type's alignment forbids. Vector types of 16-bit floats are copied half by half on the host: no access of theirs would tell.
void on_misaligned(std::uintptr_t address);

}  // namespace faibench::emulator
