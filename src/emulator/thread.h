// What the code of a kernel asks of the emulator: who am I, and operations that many threads do together. Call it from inside a launch alone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "emulator/fault.h"

namespace faibench::emulator {

struct Self { Index thread, block, block_size, grid_size; };
const Self& self();
/// Lane of this thread in its warp.
unsigned lane();

/// `line` tells one barrier of the source from another.
void block_barrier(unsigned line);
/// Every thread of the warp named in `mask` gives `bytes` bytes and gets those of all: `all` has room for 32 times as many, lane after lane; lanes outside the mask give nothing.
/// Orders their accesses to shared memory. `operation` tells them apart: all must do the same one.
void warp_exchange(unsigned mask, const char* operation, unsigned line, const void* own, std::size_t bytes, void* all);
/// Those of the launch's dynamic shared memory, 1024-byte aligned.
std::byte* dynamic_shared();

/// Reads and writes on behalf of the thread: for operations the compiler does not see as such (copies, matrix loads, atomics).
void touch(const void* address, std::size_t bytes, bool writes, bool atomic = false);
/// A copy of `bytes` from device to shared memory that is there only after wait_copies(): nothing before that may count on it. Zero-fills after the first `taken` bytes.
void copy_later(void* shared, const void* device, std::size_t bytes, std::size_t taken);
void commit_copies();
/// Until at most `pending` of the groups committed are still under way.
void wait_copies(unsigned pending);
/// Ends the kernel with this fault of this thread.
[[noreturn]] void fail(Fault::Kind kind, std::uintptr_t address, const char* what);

}  // namespace faibench::emulator
