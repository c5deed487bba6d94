// The timing slots of a node: whoever holds one may time, the others wait.
#pragma once
#include <string>
#include <vector>

namespace faibench {

/// Holds exclusive locks on all files, taken in the order given, released by the destructor, and by the kernel when the process dies.
class SlotLock {
 public:
  SlotLock() = default;
  explicit SlotLock(const std::vector<std::string>& files);  ///< Blocks. Throws Error(io) when a file cannot be made.
  ~SlotLock();
  SlotLock(SlotLock&& other) noexcept;
  SlotLock& operator=(SlotLock&& other) noexcept;

 private:
  void release() noexcept;
  std::vector<int> descriptors_;
};

}  // namespace faibench
