#include "judge/memory_meter.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "tensor/error.h"

namespace faibench {
namespace {

constexpr auto sampling_period = std::chrono::milliseconds(1);
constexpr int samples_a_look_at_the_group = 20;

std::int64_t stack_of_a_thread() {
  rlimit limit{};
  constexpr std::int64_t of_glibc = std::int64_t{2} << 20;  // where the limit is none
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return of_glibc;
  return static_cast<std::int64_t>(limit.rlim_cur) + sysconf(_SC_PAGESIZE);
}

}  // namespace

MemoryMeter::MemoryMeter(pid_t process)
    : process_(process), folder_("/proc/" + std::to_string(process)), stack_bytes_(stack_of_a_thread()) {
  if (!look(before_)) throw Error(Error::Kind::io, "cannot read " + folder_ + "/status");
}

bool MemoryMeter::look(Held& held) const {
  std::ifstream status(folder_ + "/status");
  held = {};
  for (std::string line; std::getline(status, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view name(line.data(), colon);
    const std::int64_t value = std::atoll(line.c_str() + colon + 1);
    if (name == "VmHWM") held.high_water = value * 1024;
    else if (name == "VmRSS") held.resident = value * 1024;
    else if (name == "RssAnon" || name == "VmSwap") held.anonymous += value * 1024;
    else if (name == "RssShmem") held.beside_files += value * 1024;
  }
  held.beside_files += held.anonymous;
  const std::vector<MemoryArea> areas = memory_areas(folder_);
  held.mapped = mapped(areas);
  held.shared = shared_memory(folder_, areas);
  return held.resident > 0;
}

// Stacks are known by their guard and not by the number of threads: a stack is mapped before its thread counts, and stays mapped, for another one, after it ended.
std::int64_t MemoryMeter::mapped(const std::vector<MemoryArea>& areas) const {
  std::int64_t bytes = 0;
  std::uint64_t guard_end = 0;  // of a guard just read
  for (const MemoryArea& area : areas) {
    const bool anonymous = area.file.second == 0, behind_guard = guard_end != 0 && guard_end == area.start;
    guard_end = area.rights == "---p" && anonymous ? area.end : 0;  // of any length: the next stack begins as one area with the guard above it
    if (area.rights[1] != 'w' || area.rights[3] != 'p' || area.name == "[stack]") continue;  // that one grows as it is touched
    bytes += behind_guard && anonymous ? std::max<std::int64_t>(0, area.bytes() - stack_bytes_) : area.bytes();
  }
  return bytes;
}

// Pages that no other process maps: children share theirs with the process until one of them writes.
MemoryMeter::Group MemoryMeter::held_by_group() const {
  Group group;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const pid_t pid = static_cast<pid_t>(std::atol(entry.path().filename().c_str()));
    if (pid <= 0 || pid == process_ || getpgid(pid) != process_) continue;
    std::int64_t dirty = 0, shared = 0;
    std::ifstream sums(entry.path() / "smaps_rollup");
    for (std::string line; std::getline(sums, line);) {
      if (line.starts_with("Private_Dirty:")) dirty = std::atoll(line.c_str() + 14) * 1024;
      else if (line.starts_with("Pss_Shmem:")) shared = std::atoll(line.c_str() + 10) * 1024;
    }
    group.alone += dirty;
    group.alone_anonymous += std::max<std::int64_t>(0, dirty - shared);
    for (const auto& [file, bytes] : shared_memory(entry.path(), memory_areas(entry.path()))) group.shared[file] = std::max(group.shared[file], bytes);
  }
  return group;
}

void MemoryMeter::take(const Held& held) {
  SharedMemory taken = group_.shared;
  for (const auto& [file, bytes] : held.shared) taken[file] = std::max(taken[file], bytes);
  std::int64_t shared = 0;
  for (const auto& [file, bytes] : taken)
    if (!before_.shared.contains(file)) shared += bytes;
  peak_ = std::max({peak_, group_.alone + held.resident - before_.resident, group_.alone + held.beside_files - before_.beside_files,
                    group_.alone_anonymous + shared + held.anonymous - before_.anonymous, group_.alone_anonymous + shared + held.mapped - before_.mapped});
}

void MemoryMeter::start_call() {
  if (const int file = open((folder_ + "/clear_refs").c_str(), O_WRONLY | O_CLOEXEC); file >= 0) {
    [[maybe_unused]] const ssize_t written = write(file, "5", 1);  // resets VmHWM to what is resident now
    close(file);
  }
  Held held;
  peak_ = 0;
  group_ = {};
  if (look(held)) take(held);
  start_high_water_ = held.high_water;
  sampler_ = std::jthread([this](const std::stop_token& stop) {
    for (int sample = 0; !stop.stop_requested(); ++sample) {
      if (sample % samples_a_look_at_the_group == 0) group_ = held_by_group();
      if (Held now; look(now)) take(now);
      std::this_thread::sleep_for(sampling_period);
    }
  });
}

std::int64_t MemoryMeter::end_call() {
  sampler_ = {};  // joins
  group_ = held_by_group();
  if (Held held; look(held)) {
    take(held);
    if (held.high_water > start_high_water_) peak_ = std::max(peak_, held.high_water - before_.resident);
  }
  return peak_;
}

}  // namespace faibench
