// Memory that belongs to files of the kernel's own: shared anonymous mappings, memfd, System V segments and what lies in /dev/shm.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "judge/memory_areas.h"

namespace faibench {

/// Bytes by file, the file by device and inode.
using SharedMemory = std::map<std::pair<std::uint64_t, std::uint64_t>, std::int64_t>;

/// What the process `folder`, a /proc/PID, with these areas maps or has open. Of an open file it is what the file holds, mapped or not; of one that is only mapped, the length of its mappings.
/// Empty when the process is gone.
[[nodiscard]] SharedMemory shared_memory(const std::string& folder, const std::vector<MemoryArea>& areas);

}  // namespace faibench
