// cuda/runtime.h on the emulator: everything becomes work of a stream (streams.h) and is done when the stream's turn has come.
#include "cuda/runtime.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "emulator/device.h"
#include "emulator/faults.h"
#include "emulator/streams.h"
#include "tensor/error.h"

namespace faibench::cuda {
namespace {

// Device memory starts with what nobody wants to read: signalling NaN as f32, far-off indices as integers.
constexpr unsigned char never_written = 0xAF;
constexpr std::align_val_t alignment{256};
// A driver takes small copies from pageable memory along at once; larger ones have been seen to arrive after later work of a non-blocking stream.
constexpr std::size_t largest_staged_copy = 64 << 10;

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

/// Ranges by their first byte.
class Ranges {
 public:
  void add(const void* first, std::size_t bytes) { ranges_[number(first)] = bytes; }
  void remove(const void* first) { ranges_.erase(number(first)); }
  [[nodiscard]] bool holds(const void* address) const {
    const auto next = ranges_.upper_bound(number(address));
    return next != ranges_.begin() && number(address) - std::prev(next)->first < std::prev(next)->second;
  }

 private:
  std::map<std::uintptr_t, std::size_t> ranges_;
};

struct Memory {
  Ranges workspaces, page_locked;  // from when the host asks for them until it gives them back
  std::map<const void*, std::unique_ptr<emulator::Lent>> lent;  // workspaces, from when their stream makes them until it frees them
};
Memory& memory() {
  static thread_local Memory all;
  return all;
}

bool on_device(const void* address) {
  if (memory().workspaces.holds(address)) return true;
  const auto* range = emulator::lent_memory().find(number(address), 1);
  return range && !range->page_locked;
}

using emulator::Fault;

void fault(Fault::Kind kind, const std::string& operation, const void* address, const std::string& what) {
  char hex[32];
  std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(number(address)));
  emulator::raise({kind, operation, {}, {}, number(address), operation + " on " + emulator::running_stream() + ", address " + hex + ": " + name_of(kind) + ": " + what});
}

/// Whether an operation may touch these bytes of device memory when it runs; a fault where it may not.
bool touch(const std::string& operation, const void* address, std::size_t bytes, bool writes) {
  const auto* range = emulator::lent_memory().find(number(address), bytes);
  if (!range) fault(Fault::Kind::out_of_bounds, operation, address, std::string(writes ? "write" : "read") + " of " + std::to_string(bytes) + " bytes: " + emulator::lent_memory().whereabouts(number(address)));
  else if (writes && !range->writable) fault(Fault::Kind::write_to_input, operation, address, "'" + range->name + "' is lent for reading");
  else if (const std::string wrong = emulator::touch_device(number(address), bytes, writes); !wrong.empty()) fault(Fault::Kind::unordered, operation, address, wrong);
  else return true;
  return false;
}

}  // namespace

Workspace::Workspace(std::size_t bytes) : bytes_(bytes), stream_(current_stream()) {
  if (bytes == 0) return;
  data_ = ::operator new(bytes, alignment);
  memory().workspaces.add(data_, bytes);
  emulator::enqueue(stream_, {"allocation of " + std::to_string(bytes) + " bytes",
                              [data = data_, bytes] {
                                std::memset(data, never_written, bytes);
                                emulator::forget_device(number(data), bytes);
                                memory().lent[data] = std::make_unique<emulator::Lent>(data, bytes, "workspace", emulator::Lent::Access::read_write);
                                touch("allocation of " + std::to_string(bytes) + " bytes", data, bytes, true);
                              },
                              true});
}
Workspace::~Workspace() {
  if (!data_) return;
  memory().workspaces.remove(data_);
  emulator::enqueue(stream_, {"freeing of " + std::to_string(bytes_) + " bytes",
                              [data = data_, bytes = bytes_] {
                                touch("freeing of " + std::to_string(bytes) + " bytes", data, bytes, true);
                                memory().lent.erase(data);
                                ::operator delete(data, alignment);
                              },
                              true});
}

HostBuffer::HostBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  data_ = ::operator new(bytes, alignment);
  std::memset(data_, never_written, bytes);
  memory().page_locked.add(data_, bytes);
}
HostBuffer::~HostBuffer() {
  if (!data_) return;
  memory().page_locked.remove(data_);
  if (const std::string user = emulator::pending_use(data_, bytes_); user.empty()) ::operator delete(data_, alignment);
  else  // what waits would touch it: better memory that is lost than memory that is another's
    emulator::raise({Fault::Kind::unfinished, user, {}, {}, number(data_), name_of(Fault::Kind::unfinished) + ": page-locked memory is given back before this has used it: " + user});
}

bool page_locked(const void* data) {
  if (memory().page_locked.holds(data)) return true;
  const auto* range = emulator::lent_memory().find(number(data), 1);
  return range && range->page_locked;
}

Stream::Stream() : stream_(static_cast<cudaStream_t>(const_cast<void*>(emulator::create_stream()))) {}
Stream::~Stream() { emulator::destroy_stream(stream_); }

// An event holds what was last recorded: a number of these handles to marks.
namespace {
emulator::MarkPointer& mark_of(cudaEvent_t event) { return *reinterpret_cast<emulator::MarkPointer*>(event); }
}  // namespace

Event::Event() : event_(reinterpret_cast<cudaEvent_t>(new emulator::MarkPointer)) {}
Event::~Event() { delete &mark_of(event_); }
void Event::record(cudaStream_t stream) { mark_of(event_) = emulator::mark(stream); }
void Event::hold(cudaStream_t stream) const { emulator::hold(stream, mark_of(event_)); }
void Event::wait() const { emulator::wait_for(mark_of(event_)); }

void copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return;
  const std::string name = "copy of " + std::to_string(bytes) + " bytes";
  const bool from_device = on_device(from), to_device = on_device(to);
  if (!from_device && !to_device) {
    emulator::wait_for(stream);
    std::memcpy(to, from, bytes);
  } else if (from_device && to_device) {
    emulator::enqueue(stream, {name, [=] {
                                 if (touch(name, from, bytes, false) && touch(name, to, bytes, true)) std::memmove(to, from, bytes);
                               }});
  } else if (from_device) {
    emulator::enqueue(stream, {name, [=] {
                                 if (touch(name, from, bytes, false)) std::memcpy(to, from, bytes);
                               }, false, to, bytes});
    if (!page_locked(to)) emulator::wait_for(stream);
  } else if (page_locked(from)) {
    emulator::enqueue(stream, {name, [=] {
                                 if (touch(name, to, bytes, true)) std::memcpy(to, from, bytes);
                               }, false, from, bytes});
  } else {
    const auto* const first = static_cast<const std::byte*>(from);
    const auto staged = std::make_shared<std::vector<std::byte>>(first, first + bytes);
    emulator::Work work{name + " from pageable memory", [=] {
                          if (touch(name + " from pageable memory", to, bytes, true)) std::memcpy(to, staged->data(), bytes);
                        }};
    if (stream != nullptr && bytes > largest_staged_copy) emulator::enqueue_unordered(stream, std::move(work));
    else emulator::enqueue(stream, std::move(work));
  }
}

void fill(void* to, unsigned char value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return;
  const std::string name = "fill of " + std::to_string(bytes) + " bytes";
  emulator::enqueue(stream, {name, [=] {
                               if (touch(name, to, bytes, true)) std::memset(to, value, bytes);
                             }});
}
void synchronize(cudaStream_t stream) { emulator::wait_for(stream); }
int multiprocessors() { return 4; }  // few, so that small cases fill them

}  // namespace faibench::cuda
