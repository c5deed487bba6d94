// See fake_gpu.h: the CUDA runtime's part.
#include <cuda_runtime_api.h>

#include <signal.h>

#include <cctype>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "fake_gpu.h"

namespace {

using faibench::testing_support::FakeGpuState;
using faibench::testing_support::fake_uuid;

struct Mapping {
  std::size_t bytes;
  int file;
  int device;
};

struct Event {
  std::int64_t ns = -1;
};

// This process's own.
struct Process {
  std::recursive_mutex mutex;
  FakeGpuState* state = nullptr;
  std::string folder, role;
  int device = 0;
  int made = 0;
  std::map<char*, Mapping> allocated, opened;
  std::map<char*, std::size_t> locked;
  cudaError_t last = cudaSuccess, lost = cudaSuccess;

  Process() {
    const char* where = std::getenv("FAKE_GPU");
    if (!where) std::abort();
    folder = where;
    const int file = open((folder + "/state").c_str(), O_RDWR | O_CLOEXEC);
    state = static_cast<FakeGpuState*>(mmap(nullptr, sizeof(FakeGpuState), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    std::ifstream line("/proc/self/cmdline");
    std::getline(line, role, '\0');
    std::getline(line, role, '\0');
  }
};

Process& process() {
  static auto* const one = new Process;
  return *one;
}

std::int64_t now_ns() {
  FakeGpuState& state = *process().state;
  const std::int64_t pending = state.pending_ns.exchange(0);
  if (state.clock_ns >= 0) return state.clock_ns += pending;
  timespec t{0, pending};
  nanosleep(&t, nullptr);
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

// The devices of the host that CUDA_VISIBLE_DEVICES leaves, in its order.
std::vector<int> visible() {
  std::vector<int> all;
  const int count = process().state->devices;
  const char* variable = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!variable) {
    for (int i = 0; i < count; ++i) all.push_back(i);
    return all;
  }
  std::string rest = variable;
  while (!rest.empty()) {
    const std::string token = rest.substr(0, rest.find(','));
    rest = token.size() < rest.size() ? rest.substr(token.size() + 1) : "";
    int device = -1;
    if (!token.empty() && std::isdigit(static_cast<unsigned char>(token[0]))) device = std::atoi(token.c_str());
    for (int i = 0; i < count && token.size() > 4; ++i)
      if (fake_uuid(i).starts_with(token)) device = i;
    if (device < 0 || device >= count) break;  // what comes after it is not visible either
    all.push_back(device);
  }
  return all;
}

cudaError_t fail(cudaError_t error) { return process().last = error; }
cudaError_t wrong(cudaError_t error) {
  ++process().state->wrong_calls;
  return fail(error);
}

// Into the journal; then a planned error, or what the context died of.
cudaError_t begin(const char* call) {
  Process& p = process();
  const std::uint32_t at = p.state->entries++;
  if (at < FakeGpuState::most_entries) {
    p.state->journal[at].pid = getpid();
    std::snprintf(p.state->journal[at].call, sizeof p.state->journal[at].call, "%s", call);
  }
  if (p.lost != cudaSuccess) return p.lost;
  for (auto& planned : p.state->errors) {
    if (std::strcmp(planned.call, call) != 0 || (planned.role[0] && p.role != planned.role)) continue;
    if (--planned.countdown != 0) continue;
    if (planned.sticky) p.lost = static_cast<cudaError_t>(planned.code);
    return fail(static_cast<cudaError_t>(planned.code));
  }
  return cudaSuccess;
}

template <class F>
cudaError_t call(const char* name, F body) {
  const std::lock_guard lock(process().mutex);
  if (const cudaError_t error = begin(name); error != cudaSuccess) return error;
  return body();
}

// The mapping that holds `at`, and how far in.
const std::pair<char* const, Mapping>* holding(const void* at, std::size_t bytes, bool& past_end) {
  for (const auto* all : {&process().allocated, &process().opened}) {
    auto next = all->upper_bound(static_cast<char*>(const_cast<void*>(at)));
    if (next == all->begin()) continue;
    const auto& found = *std::prev(next);
    const auto offset = static_cast<std::size_t>(static_cast<const char*>(at) - found.first);
    if (offset >= found.second.bytes) continue;
    past_end = offset + bytes > found.second.bytes;
    return &found;
  }
  past_end = false;
  return nullptr;
}

// Gives back what processes held that are gone.
void reap() {
  FakeGpuState& state = *process().state;
  for (auto& held : state.held) {
    std::int32_t pid = held.pid;
    if (pid == 0 || kill(pid, 0) == 0 || !held.pid.compare_exchange_strong(pid, 0)) continue;
    state.used_bytes[held.device] -= held.bytes;
  }
}

void hold(void* at, int device, std::size_t bytes) {
  for (auto& held : process().state->held) {
    if (std::int32_t none = 0; !held.pid.compare_exchange_strong(none, getpid())) continue;
    held.device = device;
    held.bytes = static_cast<std::int64_t>(bytes);
    held.at = at;
    process().state->used_bytes[device] += held.bytes;
    return;
  }
  std::abort();
}

void let_go(void* at) {
  for (auto& held : process().state->held) {
    if (held.pid != getpid() || held.at != at) continue;
    process().state->used_bytes[held.device] -= held.bytes;
    held.pid = 0;
    return;
  }
}

std::string file_of(int pid, int number) { return process().folder + "/memory-" + std::to_string(pid) + "-" + std::to_string(number); }

struct Handle {
  int magic, pid, number, device;
  std::size_t bytes;
};
constexpr int handle_magic = 0x6a9d;

std::map<char*, int>& numbers() {
  static std::map<char*, int> all;
  return all;
}

cudaError_t transfer(void* to, const void* from, std::size_t bytes) {
  bool past = false, past2 = false;
  const auto* target = holding(to, bytes, past);
  const auto* source = holding(from, bytes, past2);
  if (past || past2) return wrong(cudaErrorInvalidValue);
  std::vector<char> buffer(std::min<std::size_t>(bytes, 1 << 20));
  for (std::size_t at = 0; at < bytes; at += buffer.size()) {
    const std::size_t n = std::min(buffer.size(), bytes - at);
    const char* data = static_cast<const char*>(from) + at;
    if (source) {
      if (pread(source->second.file, buffer.data(), n, data - source->first) != static_cast<ssize_t>(n)) return wrong(cudaErrorUnknown);
      data = buffer.data();
    }
    char* there = static_cast<char*>(to) + at;
    if (!target) std::memcpy(there, data, n);
    else if (pwrite(target->second.file, data, n, there - target->first) != static_cast<ssize_t>(n)) return wrong(cudaErrorUnknown);
  }
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", [&] {
    *count = static_cast<int>(visible().size());
    return *count > 0 ? cudaSuccess : fail(static_cast<cudaError_t>(process().state->no_devices_error.load()));
  });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", [&] {
    const std::vector<int> all = visible();
    if (device < 0 || device >= static_cast<int>(all.size())) return fail(cudaErrorInvalidDevice);
    std::memset(properties, 0, sizeof *properties);
    const int real = all[static_cast<std::size_t>(device)];
    std::snprintf(properties->name, sizeof properties->name, "Fake GPU");
    properties->uuid.bytes[3] = properties->uuid.bytes[15] = static_cast<char>(real + 1);
    properties->totalGlobalMem = static_cast<std::size_t>(process().state->total_bytes);
    properties->multiProcessorCount = 4;
    properties->major = 9;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  return call("cudaDeviceGetAttribute", [&] {
    *value = attribute == cudaDevAttrL2CacheSize ? 4 << 20 : attribute == cudaDevAttrComputeMode ? static_cast<int>(process().state->exclusive) * 3 : 0;
    return cudaSuccess;
  });
}
cudaError_t cudaDriverGetVersion(int* version) {
  return call("cudaDriverGetVersion", [&] {
    *version = 13000;
    return cudaSuccess;
  });
}
cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&] {
    const std::vector<int> all = visible();
    if (device < 0 || device >= static_cast<int>(all.size())) return fail(cudaErrorInvalidDevice);
    process().device = all[static_cast<std::size_t>(device)];
    return cudaSuccess;
  });
}
cudaError_t cudaSetDeviceFlags(unsigned) {
  return call("cudaSetDeviceFlags", [] { return cudaSuccess; });
}
cudaError_t cudaMalloc(void** device, std::size_t bytes) {
  return call("cudaMalloc", [&] {
    Process& p = process();
    reap();
    if (p.state->used_bytes[p.device] + static_cast<std::int64_t>(bytes) > p.state->total_bytes) return fail(cudaErrorMemoryAllocation);
    const int number = p.made++;
    const int file = open(file_of(getpid(), number).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return fail(cudaErrorMemoryAllocation);
    auto* at = static_cast<char*>(mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0));
    p.allocated[at] = {bytes, file, p.device};
    numbers()[at] = number;
    hold(at, p.device, bytes);
    ++p.state->live[FakeGpuState::allocations];
    *device = at;
    return cudaSuccess;
  });
}
cudaError_t cudaFree(void* device) {
  return call("cudaFree", [&] {
    if (!device) return cudaSuccess;
    Process& p = process();
    const auto found = p.allocated.find(static_cast<char*>(device));
    if (found == p.allocated.end()) return wrong(cudaErrorInvalidValue);
    let_go(device);
    munmap(device, found->second.bytes);
    close(found->second.file);
    unlink(file_of(getpid(), numbers()[found->first]).c_str());
    p.allocated.erase(found);
    --p.state->live[FakeGpuState::allocations];
    return cudaSuccess;
  });
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* device) {
  return call("cudaIpcGetMemHandle", [&] {
    const auto found = process().allocated.find(static_cast<char*>(device));
    if (found == process().allocated.end()) return wrong(cudaErrorInvalidValue);
    const Handle text{handle_magic, getpid(), numbers()[found->first], found->second.device, found->second.bytes};
    std::memset(handle, 0, sizeof *handle);
    std::memcpy(handle, &text, sizeof text);
    return cudaSuccess;
  });
}
cudaError_t cudaIpcOpenMemHandle(void** device, cudaIpcMemHandle_t handle, unsigned) {
  return call("cudaIpcOpenMemHandle", [&] {
    Process& p = process();
    Handle text;
    std::memcpy(&text, &handle, sizeof text);
    if (text.magic != handle_magic || text.device != p.device) return wrong(cudaErrorInvalidValue);
    if (text.pid == getpid()) return wrong(cudaErrorDeviceUninitialized);
    const int file = open(file_of(text.pid, text.number).c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return wrong(cudaErrorInvalidResourceHandle);
    auto* at = static_cast<char*>(mmap(nullptr, text.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    p.opened[at] = {text.bytes, file, text.device};
    ++p.state->live[FakeGpuState::opened];
    *device = at;
    return cudaSuccess;
  });
}
cudaError_t cudaIpcCloseMemHandle(void* device) {
  return call("cudaIpcCloseMemHandle", [&] {
    Process& p = process();
    const auto found = p.opened.find(static_cast<char*>(device));
    if (found == p.opened.end()) return wrong(cudaErrorInvalidValue);
    munmap(device, found->second.bytes);
    close(found->second.file);
    p.opened.erase(found);
    --p.state->live[FakeGpuState::opened];
    return cudaSuccess;
  });
}
cudaError_t cudaHostRegister(void* host, std::size_t bytes, unsigned) {
  return call("cudaHostRegister", [&] {
    Process& p = process();
    auto* at = static_cast<char*>(host);
    for (const auto& [start, length] : p.locked)
      if (at < start + length && start < at + bytes) return wrong(cudaErrorHostMemoryAlreadyRegistered);
    p.locked[at] = bytes;
    ++p.state->live[FakeGpuState::locked];
    return cudaSuccess;
  });
}
cudaError_t cudaHostUnregister(void* host) {
  return call("cudaHostUnregister", [&] {
    if (process().locked.erase(static_cast<char*>(host)) == 0) return wrong(cudaErrorHostMemoryNotRegistered);
    --process().state->live[FakeGpuState::locked];
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return call("cudaStreamCreateWithFlags", [&] {
    *stream = reinterpret_cast<cudaStream_t>(new char);
    ++process().state->live[FakeGpuState::streams];
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call("cudaStreamDestroy", [&] {
    delete reinterpret_cast<char*>(stream);
    --process().state->live[FakeGpuState::streams];
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return call("cudaEventCreateWithFlags", [&] {
    *event = reinterpret_cast<cudaEvent_t>(new Event);
    ++process().state->live[FakeGpuState::events];
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call("cudaEventDestroy", [&] {
    delete reinterpret_cast<Event*>(event);
    --process().state->live[FakeGpuState::events];
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  return call("cudaEventRecord", [&] {
    reinterpret_cast<Event*>(event)->ns = now_ns();
    return cudaSuccess;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return call("cudaEventSynchronize", [] { return cudaSuccess; });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  return call("cudaEventElapsedTime", [&] {
    const std::int64_t from = reinterpret_cast<Event*>(start)->ns, to = reinterpret_cast<Event*>(stop)->ns;
    if (from < 0 || to < 0) return wrong(cudaErrorInvalidResourceHandle);
    *milliseconds = static_cast<float>(static_cast<double>(to - from) * 1e-6);
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  return call("cudaMemcpyAsync", [&] { return transfer(to, from, bytes); });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  const std::string name = "cudaMemsetAsync " + std::to_string(bytes);
  return call(name.c_str(), [&] {
    bool past = false;
    if (!holding(to, bytes, past) || past) return wrong(cudaErrorInvalidValue);
    const std::vector<char> filled(bytes, static_cast<char>(value));
    return transfer(to, filled.data(), bytes);
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return call("cudaStreamSynchronize", [] { return cudaSuccess; });
}
cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [] {
    if (process().role == "candidate") process().state->pending_ns = process().state->late_ns.load();
    return cudaSuccess;
  });
}
cudaError_t cudaCtxResetPersistingL2Cache() {
  return call("cudaCtxResetPersistingL2Cache", [] { return cudaSuccess; });
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call("cudaMemGetInfo", [&] {
    Process& p = process();
    reap();
    *total = static_cast<std::size_t>(p.state->total_bytes);
    *free = *total - static_cast<std::size_t>(p.state->used_bytes[p.device]);
    return cudaSuccess;
  });
}
cudaError_t cudaGetLastError() {
  const std::lock_guard lock(process().mutex);
  if (process().lost != cudaSuccess) return process().lost;
  return std::exchange(process().last, cudaSuccess);
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    default: return "cudaErrorOther";
  }
}
const char* cudaGetErrorString(cudaError_t) { return "planned or found by the double"; }

}  // extern "C"
