#include "judge/memory_meter.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include "tensor/error.h"

namespace faibench {
namespace {

constexpr auto sampling_period = std::chrono::milliseconds(1);

std::int64_t stack_of_a_thread() {
  rlimit limit{};
  constexpr std::int64_t of_glibc = std::int64_t{2} << 20;  // where the limit is none
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return of_glibc;
  return static_cast<std::int64_t>(limit.rlim_cur) + sysconf(_SC_PAGESIZE);
}

}  // namespace

MemoryMeter::MemoryMeter(pid_t process)
    : status_("/proc/" + std::to_string(process) + "/status"), clear_("/proc/" + std::to_string(process) + "/clear_refs"), stack_bytes_(stack_of_a_thread()) {
  if (!look(before_)) throw Error(Error::Kind::io, "cannot read " + status_);
}

bool MemoryMeter::look(Held& held) const {
  std::ifstream status(status_);
  held = {};
  for (std::string line; std::getline(status, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view name(line.data(), colon);
    const std::int64_t value = std::atoll(line.c_str() + colon + 1);
    if (name == "VmHWM") held.high_water = value * 1024;
    else if (name == "VmRSS") held.resident = value * 1024;
    else if (name == "RssAnon" || name == "RssShmem" || name == "VmSwap") held.beside_files += value * 1024;
    else if (name == "VmData") held.mapped = value * 1024;
    else if (name == "Threads") held.threads = value;
  }
  return held.resident > 0;
}

void MemoryMeter::take(const Held& held) {
  most_threads_ = std::max(most_threads_, held.threads - before_.threads);  // the system keeps stacks of threads that ended
  const std::int64_t stacks = most_threads_ * stack_bytes_;
  peak_ = std::max({peak_, held.resident - before_.resident, held.beside_files - before_.beside_files, held.mapped - before_.mapped - stacks});
}

void MemoryMeter::start_call() {
  if (const int file = open(clear_.c_str(), O_WRONLY | O_CLOEXEC); file >= 0) {
    [[maybe_unused]] const ssize_t written = write(file, "5", 1);  // resets VmHWM to what is resident now
    close(file);
  }
  Held held;
  peak_ = 0;
  if (look(held)) take(held);
  start_high_water_ = held.high_water;
  sampler_ = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (Held now; look(now)) take(now);
      std::this_thread::sleep_for(sampling_period);
    }
  });
}

std::int64_t MemoryMeter::end_call() {
  sampler_ = {};  // joins
  if (Held held; look(held)) {
    take(held);
    if (held.high_water > start_high_water_) peak_ = std::max(peak_, held.high_water - before_.resident);
  }
  return peak_;
}

}  // namespace faibench
