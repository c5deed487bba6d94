#include "judge/memory_areas.h"

#include <sys/sysmacros.h>

#include <cstdio>
#include <fstream>

namespace faibench {

std::vector<MemoryArea> memory_areas(const std::string& folder) {
  std::vector<MemoryArea> areas;
  std::ifstream lines(folder + "/maps");
  for (std::string line; std::getline(lines, line);) {
    unsigned long start = 0, end = 0, inode = 0;
    unsigned major = 0, minor = 0;
    char rights[5] = "", name[16] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %*x %x:%x %lu %15s", &start, &end, rights, &major, &minor, &inode, name) < 6) continue;
    areas.push_back({start, end, rights, {makedev(major, minor), inode}, name});
  }
  return areas;
}

}  // namespace faibench
