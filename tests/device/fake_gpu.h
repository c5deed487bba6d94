// A double of GPUs: of the CUDA runtime and of NVML, as one library that takes the place of both ($FAIBENCH_CUDA_RUNTIME, $FAIBENCH_NVML), in any number of processes.
// Device memory is a file that is mapped; whoever allocated it cannot touch it but by copies, whoever opened its handle can: kernels for the emulator run there. Everything is done when it
// was asked for. What a real runtime leaves to crash or corrupt is counted: memory given back twice or not at all, copies past an end, handles opened by their own process.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "temporary_folder.h"

namespace faibench::testing_support {

/// Shared by all processes that load the double: a file named by $FAKE_GPU.
struct FakeGpuState {
  static constexpr int most_devices = 8, most_entries = 16384, most_errors = 4, most_held = 256;
  enum Live { allocations, opened, locked, streams, events, kinds };
  struct Entry { std::int32_t pid; char call[44]; };
  struct Held { std::atomic<std::int32_t> pid; std::int32_t device; std::int64_t bytes; void* at; };  ///< freed with its process, as a driver does
  /// The call of that name fails with `code` when it was made `countdown` times, in processes whose first argument is `role` (empty: in all).
  struct PlannedError {
    char role[16];
    char call[44];
    std::atomic<int> countdown;
    int code;
    bool sticky;
  };

  std::atomic<int> devices, no_devices_error;  ///< the error that counting gives where there is no device
  std::atomic<std::int64_t> total_bytes, used_bytes[most_devices];
  std::atomic<std::int64_t> clock_ns;          ///< of events; -1: the system's
  std::atomic<std::int64_t> pending_ns;        ///< work that another process left running: the next event waits for it
  std::atomic<std::int64_t> late_ns;           ///< the same, after every answer of a candidate: its last synchronisation leaves so much behind
  std::atomic<int> live[kinds], wrong_calls, exclusive;
  std::atomic<int> nvml_works, sm_mhz;
  std::atomic<std::uint64_t> throttle_reasons;
  std::atomic<std::uint32_t> entries;
  Entry journal[most_entries];
  PlannedError errors[most_errors];
  Held held[most_held];
};

/// "GPU-00000001-0000-0000-0000-000000000001" is device 0 of the host.
inline std::string fake_uuid(int device) {
  char text[48];
  std::snprintf(text, sizeof text, "GPU-%08x-0000-0000-0000-%012x", device + 1, device + 1);
  return text;
}

/// Owns the state and sets the variables by which this process and its children find the double. One a process: libraries are loaded once.
class FakeGpus {
 public:
  explicit FakeGpus(int devices) {
    const std::string path = (folder_.path() / "state").string();
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(FakeGpuState)) != 0) std::abort();
    state_ = new (mmap(nullptr, sizeof(FakeGpuState), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)) FakeGpuState;
    close(file);
    setenv("FAKE_GPU", folder_.path().c_str(), 1);
    setenv("FAIBENCH_CUDA_RUNTIME", std::getenv("FAKE_GPU_LIBRARY"), 1);
    setenv("FAIBENCH_NVML", std::getenv("FAKE_GPU_LIBRARY"), 1);
    reset(devices);
  }
  ~FakeGpus() { munmap(state_, sizeof(FakeGpuState)); }
  FakeGpus(const FakeGpus&) = delete;
  FakeGpus& operator=(const FakeGpus&) = delete;

  void reset(int devices) {
    state_->~FakeGpuState();
    std::memset(static_cast<void*>(state_), 0, sizeof *state_);
    state_->devices = devices;
    state_->no_devices_error = 100;  // cudaErrorNoDevice
    state_->total_bytes = std::int64_t{256} << 20;
    state_->clock_ns = -1;
    state_->nvml_works = 1;
    state_->sm_mhz = 1980;
  }
  FakeGpuState& state() { return *state_; }
  void fail(const std::string& call, int code, bool sticky, int countdown = 1, const std::string& role = "") {
    for (auto& error : state_->errors) {
      if (error.call[0]) continue;
      std::snprintf(error.role, sizeof error.role, "%s", role.c_str());
      error.code = code;
      error.sticky = sticky;
      error.countdown = countdown;
      std::snprintf(error.call, sizeof error.call, "%s", call.c_str());
      return;
    }
    std::abort();
  }
  /// Calls since reset(), of this process.
  [[nodiscard]] std::vector<std::string> calls() const {
    std::vector<std::string> all;
    const std::uint32_t count = std::min<std::uint32_t>(state_->entries, FakeGpuState::most_entries);
    for (std::uint32_t i = 0; i < count; ++i)
      if (state_->journal[i].pid == getpid()) all.emplace_back(state_->journal[i].call);
    return all;
  }
  /// What was made and not given back, by all processes that are not dead.
  [[nodiscard]] int live() const {
    int sum = 0;
    for (const auto& count : state_->live) sum += count;
    return sum;
  }

 private:
  TemporaryFolder folder_;
  FakeGpuState* state_ = nullptr;
};

}  // namespace faibench::testing_support
