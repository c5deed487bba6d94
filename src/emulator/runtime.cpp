// cuda/runtime.h on the emulator, where everything is done when it was asked for.
#include "cuda/runtime.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <new>

#include "emulator/device.h"

namespace faibench::cuda {
namespace {

// Device memory starts with what nobody wants to read: signalling NaN as f32, far-off indices as integers.
constexpr unsigned char never_written = 0xAF;
constexpr std::align_val_t alignment{256};

std::map<void*, std::unique_ptr<emulator::Lent>>& workspaces() {
  static thread_local std::map<void*, std::unique_ptr<emulator::Lent>> all;
  return all;
}

}  // namespace

Workspace::Workspace(std::size_t bytes) : bytes_(bytes), stream_(current_stream()) {
  if (bytes == 0) return;
  data_ = ::operator new(bytes, alignment);
  std::memset(data_, never_written, bytes);
  workspaces()[data_] = std::make_unique<emulator::Lent>(data_, bytes, "workspace", emulator::Lent::Access::read_write);
}
Workspace::~Workspace() {
  if (!data_) return;
  workspaces().erase(data_);
  ::operator delete(data_, alignment);
}

Stream::Stream() = default;
Stream::~Stream() = default;
Event::Event() = default;
Event::~Event() = default;
void Event::record(cudaStream_t) {}
void Event::hold(cudaStream_t) const {}

void copy(void* to, const void* from, std::size_t bytes, cudaStream_t) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
void fill(void* to, unsigned char value, std::size_t bytes, cudaStream_t) {
  if (bytes > 0) std::memset(to, value, bytes);
}
void synchronize(cudaStream_t) {}
int multiprocessors() { return 4; }  // few, so that small cases fill them

}  // namespace faibench::cuda
