// A block at a time, a fiber a thread, all on the host's thread that launches: what runs does so in the same order every time.
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <boost/context/fiber.hpp>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "emulator/access.h"
#include "emulator/device.h"
#include "emulator/faults.h"
#include "emulator/memory.h"
#include "emulator/streams.h"
#include "emulator/thread.h"

namespace faibench::emulator {
namespace {

using boost::context::fiber;

constexpr std::size_t stack_bytes = 128 << 10;

/// As many as a block can have threads that wait at once; mapped when touched, used again by every block.
class Stacks {
 public:
  Stacks() : memory_(static_cast<std::byte*>(mmap(nullptr, most_threads * stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks() { munmap(memory_, most_threads * stack_bytes); }
  [[nodiscard]] std::byte* of(unsigned number) const { return memory_ + number * stack_bytes; }
  [[nodiscard]] bool holds(unsigned number, std::uintptr_t address) const { return address - reinterpret_cast<std::uintptr_t>(of(number)) < stack_bytes; }

 private:
  std::byte* memory_;
};
struct KeepStack {
  void deallocate(boost::context::stack_context&) {}
};

struct Copy {
  std::byte* to;
  const std::byte* from;
  std::size_t bytes, taken;
};

enum class State { ready, at_barrier, in_warp, ended };

struct Thread {
  fiber at;                      // where it stopped; empty while it runs, and before and after
  unsigned stack = 0;            // it runs on
  Self self;
  State state = State::ready;
  unsigned line = 0;             // of the barrier or operation it waits in
  const char* operation = "";
  unsigned mask = 0;
  const void* own = nullptr;
  void* all = nullptr;
  std::vector<Copy> open;                // not committed
  std::vector<std::vector<Copy>> groups;  // committed, oldest first
};

/// Everything of this host thread's device.
struct Device {
  LentMemory lent;
  SharedHistory shared;
  StaticStorage statics;
  std::optional<Stacks> stacks;
  std::optional<Fault> fault;
  std::uint32_t blocks = 0, epochs = 0;

  // Of the launch that runs.
  const std::string* kernel = nullptr;
  Shape shape;
  std::uintptr_t arguments = 0;
  std::size_t argument_bytes = 0;
  std::vector<std::byte> dynamic;
  std::byte* dynamic_start = nullptr;
  std::vector<Thread> threads;
  std::vector<std::uint32_t> warp_epochs;
  fiber scheduler;
  unsigned running = 0, started = 0;
  std::vector<unsigned> free_stacks;
  bool inside = false;  // of a kernel's thread
  bool host_watched = false;

  Thread& now() { return threads[running]; }
};

thread_local Device device;

std::string text(const Index& index) { return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," + std::to_string(index.z) + ")"; }

void note(Fault::Kind kind, unsigned thread, std::uintptr_t address, const std::string& what) {
  if (device.fault) return;
  const Self& self = device.threads[thread].self;
  char hex[32];
  std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(address));
  device.fault = Fault{kind, *device.kernel, self.block, self.thread, address,
                       "kernel " + *device.kernel + ", block " + text(self.block) + ", thread " + text(self.thread) + (address ? std::string(", address ") + hex : "") + ": " + name_of(kind) + ": " + what};
}

/// Back to the scheduler, until it resumes this thread.
void give_way() {
  device.inside = false;
  device.scheduler = std::move(device.scheduler).resume();
  device.inside = true;
}

Index index_of(unsigned number, const Index& size) { return {number % size.x, number / size.x % size.y, number / size.x / size.y}; }

/// Takes threads that have not started, one after another: most never wait, and share a stack.
fiber new_worker(void (*thread)(const void*), const void* arguments) {
  const unsigned number = device.free_stacks.back();
  device.free_stacks.pop_back();
  boost::context::stack_context stack;
  stack.size = stack_bytes;
  stack.sp = device.stacks->of(number) + stack_bytes;
  return fiber(std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack), KeepStack(), [=](fiber&& scheduler) {
    device.scheduler = std::move(scheduler);
    while (device.started < device.threads.size()) {
      device.running = device.started++;
      device.now().stack = number;
      device.inside = true;
      thread(arguments);
      device.inside = false;
      device.now().state = State::ended;
    }
    device.free_stacks.push_back(number);
    return std::move(device.scheduler);
  });
}

/// Until a thread waits, or the worker has nothing more to do.
void go_on(fiber worker) {
  worker = std::move(worker).resume();
  if (worker) device.now().at = std::move(worker);
}

/// What stands in the way when nobody can go on.
void explain_standstill() {
  const auto waits_at = [](State state) { return [state](const Thread& thread) { return thread.state == state; }; };
  const auto number = [](const Thread& thread) { return static_cast<unsigned>(&thread - device.threads.data()); };
  if (const auto stuck = std::ranges::find_if(device.threads, waits_at(State::in_warp)); stuck != device.threads.end()) {
    const unsigned warp = number(*stuck) / warp_lanes;
    for (unsigned l = 0; l < warp_lanes; ++l) {
      if ((stuck->mask >> l & 1) == 0) continue;
      const unsigned other = warp * warp_lanes + l;
      const std::string waits = std::string(stuck->operation) + " at line " + std::to_string(stuck->line) + " waits for lane " + std::to_string(l) + ", which ";
      if (other >= device.threads.size()) return note(Fault::Kind::divergent_warp, number(*stuck), 0, waits + "does not exist");
      const Thread& missing = device.threads[other];
      if (missing.state == State::ended) return note(Fault::Kind::divergent_warp, number(*stuck), 0, waits + "has ended");
      if (missing.state == State::at_barrier) return note(Fault::Kind::divergent_warp, number(*stuck), 0, waits + "is at the barrier of line " + std::to_string(missing.line));
      if (missing.operation != stuck->operation || missing.line != stuck->line || missing.mask != stuck->mask)
        return note(Fault::Kind::divergent_warp, number(*stuck), 0, waits + "is in " + missing.operation + " at line " + std::to_string(missing.line) + " with mask " + std::to_string(missing.mask));
    }
  }
  const auto waiting = std::ranges::find_if(device.threads, waits_at(State::at_barrier));
  const auto ended = std::ranges::find_if(device.threads, waits_at(State::ended));
  note(Fault::Kind::divergent_barrier, number(*waiting), 0,
       "waits at the barrier of line " + std::to_string(waiting->line) + (ended != device.threads.end() ? ", and thread " + text(ended->self.thread) + " has ended without it" : ""));
}

/// Lets those go on whose barrier is complete.
bool release_barrier() {
  const Thread& first = device.threads.front();
  for (const Thread& thread : device.threads)
    if (thread.state != State::at_barrier) return false;
  for (std::size_t k = 1; k < device.threads.size(); ++k) {
    if (device.threads[k].line == first.line) continue;
    note(Fault::Kind::divergent_barrier, static_cast<unsigned>(k), 0, "waits at the barrier of line " + std::to_string(device.threads[k].line) + ", thread " + text(first.self.thread) + " at that of line " + std::to_string(first.line));
    return false;
  }
  ++device.epochs;
  for (Thread& thread : device.threads) thread.state = State::ready;
  return true;
}

void run_block(const Index& block, void (*thread)(const void*), const void* arguments) {
  const Index size = device.shape.block;
  const unsigned count = size.x * size.y * size.z;
  ++device.blocks;
  ++device.epochs;
  device.threads.clear();
  device.threads.resize(count);
  device.warp_epochs.assign((count + warp_lanes - 1) / warp_lanes, 0);
  device.started = 0;
  device.free_stacks.resize(most_threads);
  std::iota(device.free_stacks.rbegin(), device.free_stacks.rend(), 0u);
  for (unsigned k = 0; k < count; ++k) device.threads[k].self = {index_of(k, size), block, size, device.shape.grid};
  while (!device.fault) {
    if (device.started < count) {
      go_on(new_worker(thread, arguments));
      continue;
    }
    bool went_on = false;
    for (unsigned k = 0; k < count && !device.fault; ++k) {
      if (device.threads[k].state != State::ready) continue;
      went_on = true;
      device.running = k;
      go_on(std::move(device.threads[k].at));
    }
    if (device.fault || std::ranges::all_of(device.threads, [](const Thread& t) { return t.state == State::ended; })) break;
    if (!went_on && !release_barrier() && !device.fault) explain_standstill();
  }
  for (Thread& left : device.threads)  // unwinding would run the kernel's code on: what a kernel leaves on its stack is nothing but numbers
    if (left.at) new fiber(std::move(left.at));
}

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

Lent::Lent(const void* data, std::size_t bytes, std::string name, Access access) : data_(data) { device.lent.add(number(data), bytes, std::move(name), access == Access::read_write, access == Access::page_locked); }
Lent::~Lent() { device.lent.remove(number(data_)); }

namespace {

void run_kernel(const std::string& kernel, const Shape& shape, void (*thread)(const void*), const void* arguments, std::size_t argument_bytes) {
  const Index& size = shape.block;
  const std::uint64_t threads = std::uint64_t{size.x} * size.y * size.z;
  const auto refuse = [&](const std::string& what) { device.fault = Fault{Fault::Kind::bad_launch, kernel, {}, {}, 0, "kernel " + kernel + ": " + name_of(Fault::Kind::bad_launch) + ": " + what}; };
  if (threads == 0 || threads > most_threads || size.z > 64) return refuse("blocks of " + text(size) + " threads; 1 to 1024 are possible");
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0 || shape.grid.x > 0x7fffffffu || shape.grid.y > 65535 || shape.grid.z > 65535) return refuse("a grid of " + text(shape.grid) + " blocks");
  if (shape.shared_bytes > most_shared_bytes) return refuse(std::to_string(shape.shared_bytes) + " bytes of shared memory");
  if (!device.stacks) device.stacks.emplace();
  device.kernel = &kernel;
  device.shape = shape;
  device.statics.look_up(number(reinterpret_cast<const void*>(thread)));
  device.arguments = number(arguments);
  device.argument_bytes = argument_bytes;
  constexpr std::size_t alignment = 1024;
  device.dynamic.assign(shape.shared_bytes + alignment, std::byte{0xAD});
  device.dynamic_start = device.dynamic.data() + (alignment - number(device.dynamic.data()) % alignment) % alignment;
  for (unsigned z = 0; z < shape.grid.z && !device.fault; ++z)
    for (unsigned y = 0; y < shape.grid.y && !device.fault; ++y)
      for (unsigned x = 0; x < shape.grid.x && !device.fault; ++x) run_block({x, y, z}, thread, arguments);
}

}  // namespace

void launch(const void* stream, const std::string& kernel, const Shape& shape, void (*thread)(const void*), const void* arguments, std::size_t argument_bytes) {
  constexpr std::align_val_t alignment{64};
  const std::shared_ptr<void> copy(::operator new(argument_bytes, alignment), [](void* data) { ::operator delete(data, alignment); });
  std::memcpy(copy.get(), arguments, argument_bytes);
  enqueue(stream, {"kernel " + kernel, [=] { run_kernel(kernel, shape, thread, copy.get(), argument_bytes); }});
}

std::optional<Fault> take_fault() { return std::exchange(device.fault, std::nullopt); }
void raise(Fault fault) {
  if (!device.fault) device.fault = std::move(fault);
}
bool has_fault() { return device.fault.has_value(); }
const std::string& fault_message() { return device.fault->message; }
const LentMemory& lent_memory() { return device.lent; }

const Self& self() { return device.now().self; }
unsigned lane() { return device.running % warp_lanes; }
std::byte* dynamic_shared() { return device.dynamic_start; }

void block_barrier(unsigned line) {
  Thread& it = device.now();
  it.state = State::at_barrier;
  it.line = line;
  give_way();
}

void warp_exchange(unsigned mask, const char* operation, unsigned line, const void* own, std::size_t bytes, void* all) {
  Thread& it = device.now();
  const unsigned warp = device.running / warp_lanes;
  if ((mask >> lane() & 1) == 0) fail(Fault::Kind::divergent_warp, 0, "the mask leaves out the lane itself");
  it.state = State::in_warp;
  it.line = line;
  it.operation = operation;
  it.mask = mask;
  it.own = own;
  it.all = all;
  std::vector<Thread*> together;
  for (unsigned l = 0; l < warp_lanes; ++l) {
    if ((mask >> l & 1) == 0) continue;
    const unsigned other = warp * warp_lanes + l;
    if (other >= device.threads.size()) break;
    Thread& thread = device.threads[other];
    if (thread.state == State::in_warp && thread.line == line && thread.mask == mask && thread.operation == operation) together.push_back(&thread);
  }
  if (together.size() == static_cast<std::size_t>(std::popcount(mask))) {  // the last to come serves all
    for (const Thread* to : together)
      for (const Thread* from : together)
        if (bytes > 0) std::memcpy(static_cast<std::byte*>(to->all) + static_cast<std::size_t>(from - &device.threads[warp * warp_lanes]) * bytes, from->own, bytes);
    ++device.warp_epochs[warp];
    for (Thread* thread : together) thread->state = State::ready;
  }
  if (it.state == State::in_warp) give_way();
}

void fail(Fault::Kind kind, std::uintptr_t address, const char* what) {
  note(kind, device.running, address, what);
  device.now().state = State::ended;
  for (;;) give_way();  // never resumed
}

// On a GPU it would be a segmentation fault, or worse, none.
void on_host_access(const Access& access) {
  if (!device.host_watched || device.fault) return;
  const auto* range = device.lent.find(access.address, access.bytes);
  if (range && !range->page_locked)
    raise({Fault::Kind::host_access, "", {}, {}, access.address, name_of(Fault::Kind::host_access) + ": host code " + (access.writes ? "writes to" : "reads") + " '" + range->name + "'"});
}

void watch_host(bool on) { device.host_watched = on; }

void on_access(const Access& access) {
  const auto [address, bytes, writes, atomic, aligned] = access;
  if (!device.inside) return on_host_access(access);
  device.inside = false;  // what follows is the emulator's
  struct Back { ~Back() { device.inside = true; } } back;
  const auto within = [&, address = address, bytes = bytes](std::uintptr_t first, std::size_t size) { return address - first < size && bytes <= size - (address - first); };
  if (device.stacks->holds(device.now().stack, address)) return;
  if (!writes && (within(device.arguments, device.argument_bytes) || within(number(&self()), sizeof(Self)))) return;
  if (aligned && bytes > 1 && bytes <= 16 && std::has_single_bit(bytes) && address % bytes != 0) fail(Fault::Kind::misaligned, address, (std::to_string(bytes) + " bytes at an address that is no multiple of as many").c_str());
  const bool dynamic = address - number(device.dynamic_start) < device.shape.shared_bytes;
  if (dynamic && !within(number(device.dynamic_start), device.shape.shared_bytes)) fail(Fault::Kind::out_of_bounds, address, "past the end of dynamic shared memory");
  if (!dynamic) {
    if (const auto* range = device.lent.find(address, bytes)) {
      if (writes && !range->writable) fail(Fault::Kind::write_to_input, address, ("'" + range->name + "' is lent for reading").c_str());
      if (const std::string wrong = touch_device(address, bytes, writes, atomic); !wrong.empty()) fail(Fault::Kind::unordered, address, ("on " + running_stream() + ", " + wrong).c_str());
      return;
    }
    const StaticStorage::Kind kind = device.statics.at(address);
    if (kind == StaticStorage::Kind::constant && !writes) return;
    if (kind != StaticStorage::Kind::variable) {
      const auto past = address - number(device.dynamic_start) - device.shape.shared_bytes;
      fail(Fault::Kind::out_of_bounds, address,
           (past < 4096 && device.shape.shared_bytes > 0 ? std::to_string(past) + " bytes past the end of dynamic shared memory"
                                                         : std::string(writes ? "write" : "read") + " of " + std::to_string(bytes) + " bytes: " + device.lent.whereabouts(address))
               .c_str());
    }
  }
  const Moment now{device.blocks, device.epochs, device.warp_epochs[device.running / warp_lanes], device.running};
  Fault::Kind kind{};
  if (const std::string wrong = device.shared.access(address, bytes, writes, atomic, now, kind); !wrong.empty()) fail(kind, address, wrong.c_str());
}

void on_bad_index() {
  if (device.inside) fail(Fault::Kind::out_of_bounds, 0, "an index past the extent of its array");
}

void on_misaligned(std::uintptr_t address) {
  if (device.inside) fail(Fault::Kind::misaligned, address, "an object at an address that is no multiple of its alignment");
}

void touch(const void* address, std::size_t bytes, bool writes, bool atomic) { on_access({number(address), bytes, writes, atomic}); }

void copy_later(void* shared, const void* from, std::size_t bytes, std::size_t taken) {
  if (number(shared) % bytes != 0) fail(Fault::Kind::misaligned, number(shared), "an asynchronous copy to an address that is no multiple of its size");
  if (taken > 0) touch(from, taken, false);
  if (number(from) % bytes != 0 && taken > 0) fail(Fault::Kind::misaligned, number(from), "an asynchronous copy from an address that is no multiple of its size");
  device.now().open.push_back({static_cast<std::byte*>(shared), static_cast<const std::byte*>(from), bytes, taken});
}

void commit_copies() {
  Thread& it = device.now();
  it.groups.push_back(std::move(it.open));
  it.open.clear();
}

void wait_copies(unsigned pending) {
  Thread& it = device.now();
  while (it.groups.size() > pending) {
    for (const Copy& copy : it.groups.front()) {
      touch(copy.to, copy.bytes, true);
      std::memset(copy.to, 0, copy.bytes);
      std::memcpy(copy.to, copy.from, copy.taken);
    }
    it.groups.erase(it.groups.begin());
  }
}

}  // namespace faibench::emulator
