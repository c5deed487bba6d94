// How much memory a process holds, told by the kernel alone.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "judge/memory_areas.h"
#include "judge/shared_memory.h"

namespace faibench {

/// Most bytes that a process held at one time beyond what it held when the meter was made. Four instruments, of which the highest counts:
///   touched   the kernel's high-water mark of resident memory, of whatever kind and in whatever thread, be it for a microsecond; pages that were resident before
///             (program text, the shared tensors) do not count
///   beside files   resident private and shared memory, looked at every millisecond: cannot be hidden by giving pages of files back meanwhile
///   private   resident private memory and all shared memory that was not there before, mapped or only open, looked at every millisecond: cannot be hidden by giving back the shared
///             tensors either
///   mapped    private memory that may be written, touched or not, and the same shared memory, looked at every millisecond; stacks of threads, known by the guard below them, are left out
///             where they are not touched
/// What other processes of its group hold alone, and shared memory that they have, looked at every 20 milliseconds and at the end of a call, is added to each.
/// The high-water mark is reset at the start of each call; where the system refuses that, it counts when a call raises it.
class MemoryMeter {
 public:
  /// Throws Error(io) when the process does not exist.
  explicit MemoryMeter(pid_t process);
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  void start_call();
  /// The peak since start_call(), 0 where nothing was taken. What is still held from before start_call() counts.
  [[nodiscard]] std::int64_t end_call();

 private:
  struct Held {
    std::int64_t resident = 0, high_water = 0, beside_files = 0, anonymous = 0, mapped = 0;  // bytes
    SharedMemory shared;
  };
  struct Group {
    std::int64_t alone = 0, alone_anonymous = 0;  // bytes
    SharedMemory shared;
  };
  [[nodiscard]] bool look(Held& held) const;
  [[nodiscard]] std::int64_t mapped(const std::vector<MemoryArea>& areas) const;
  [[nodiscard]] Group held_by_group() const;
  void take(const Held& held);

  pid_t process_;
  std::string folder_;
  Held before_;
  std::int64_t stack_bytes_ = 0, start_high_water_ = 0, peak_ = 0;
  Group group_;
  std::jthread sampler_;
};

}  // namespace faibench
