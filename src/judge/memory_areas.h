// The areas of a process's address space, as the kernel lists them.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace faibench {

struct MemoryArea {
  std::uint64_t start = 0, end = 0;
  std::string rights;                           ///< "rw-p"
  std::pair<std::uint64_t, std::uint64_t> file;  ///< device and inode; the inode of anonymous memory is 0
  std::string name;                             ///< its first 15 characters: "[stack]", "/memfd:..."

  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(end - start); }
};

/// What the process `folder`, a /proc/PID, maps, in order of addresses; empty when the process is gone.
[[nodiscard]] std::vector<MemoryArea> memory_areas(const std::string& folder);

}  // namespace faibench
