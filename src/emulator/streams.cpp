// Queues, and who is ordered after whom: every queue counts its work, and a piece of work carries a clock that says, for every queue, how much of it is known to have ended before.
#include "emulator/streams.h"

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <unordered_map>
#include <utility>

#include "cuda/stream.h"
#include "emulator/access.h"
#include "emulator/device.h"
#include "emulator/faults.h"
#include "tensor/error.h"

namespace faibench::emulator {
namespace {

/// How many pieces of each queue's work have ended, as far as one can know; by number of the queue.
class Clock {
 public:
  [[nodiscard]] std::uint64_t of(std::size_t queue) const { return queue < ended_.size() ? ended_[queue] : 0; }
  void set(std::size_t queue, std::uint64_t count) {
    if (queue >= ended_.size()) ended_.resize(queue + 1);
    ended_[queue] = std::max(ended_[queue], count);
  }
  void join(const Clock& other) {
    for (std::size_t queue = 0; queue < other.ended_.size(); ++queue) set(queue, other.ended_[queue]);
  }

 private:
  std::vector<std::uint64_t> ended_;
};

struct Queue;
using QueuePointer = std::shared_ptr<Queue>;

struct Item {
  Work work;            // or, with none to run,
  MarkPointer awaited;  // something to wait for
  std::uint64_t position;
  Clock clock;
};

struct Queue {
  std::size_t number;
  std::string name;
  std::deque<Item> items = {};
  std::uint64_t asked = 0, ran = 0;
  Clock clock = {};
  bool destroyed = false;
  QueuePointer unordered = {};  // its work that nothing waits for
};

}  // namespace

struct Mark {
  QueuePointer queue;
  std::uint64_t position;
  Clock clock;
};

namespace {

/// Who touched each word of device memory last, among the work of this call.
class DeviceHistory {
 public:
  struct Toucher {
    std::size_t queue;
    std::uint64_t position;
    Clock clock;
    std::string name;
  };

  void start(Toucher who) { touchers_.push_back(std::move(who)); }
  [[nodiscard]] const Toucher& now() const { return touchers_.back(); }
  void clear() {
    pages_.clear();
    last_ = nullptr;
    touchers_.resize(1);
  }

  std::string touch(std::uintptr_t address, std::size_t bytes, bool writes, bool atomic) {
    const std::uint32_t self = static_cast<std::uint32_t>(touchers_.size() - 1);
    for (std::uintptr_t word = (address + word_bytes - 1) / word_bytes; (word + 1) * word_bytes <= address + bytes; ++word) {
      Cell& cell = at(word);
      if (cell.writer != 0 && !ended(cell.writer) && !(atomic && cell.atomic)) return explain(writes, "written", cell.writer);
      if (writes) {
        for (const std::uint32_t reader : cell.readers)
          if (reader != 0 && !ended(reader)) return explain(true, "read", reader);
        cell = {self, {}, atomic};
      } else if (std::ranges::find(cell.readers, self) == cell.readers.end()) {
        const auto place = std::ranges::find_if(cell.readers, [&](std::uint32_t reader) { return reader == 0 || ended(reader); });
        if (place != cell.readers.end()) *place = self;  // else four streams read at once already: a write is unordered with one of them all the same
      }
    }
    return {};
  }
  void forget(std::uintptr_t address, std::size_t bytes) {
    for (std::uintptr_t word = address / word_bytes; word * word_bytes < address + bytes; ++word) at(word) = {};
  }

 private:
  static constexpr std::size_t word_bytes = 4, page_words = 1024;
  struct Cell {
    std::uint32_t writer = 0;
    std::array<std::uint32_t, 4> readers{};
    bool atomic = false;  // the last write was
  };
  Cell& at(std::uintptr_t word) {
    if (!last_ || word / page_words != last_number_) {
      auto& page = pages_[word / page_words];
      if (!page) page = std::make_unique<std::array<Cell, page_words>>();
      last_ = page.get();
      last_number_ = word / page_words;
    }
    return (*last_)[word % page_words];
  }
  /// Before the work that runs was allowed to start.
  [[nodiscard]] bool ended(std::uint32_t toucher) const {
    const Toucher& then = touchers_[toucher];
    return toucher + 1 == touchers_.size() || now().clock.of(then.queue) >= then.position;
  }
  [[nodiscard]] std::string explain(bool writes, const char* before, std::uint32_t toucher) const {
    return std::string(writes ? "written" : "read") + " by work that nothing orders after " + touchers_[toucher].name + ", which has " + before + " it";
  }

  std::vector<Toucher> touchers_ = {{0, 0, {}, "nothing"}};
  std::unordered_map<std::uintptr_t, std::unique_ptr<std::array<Cell, page_words>>> pages_;
  std::array<Cell, page_words>* last_ = nullptr;
  std::uintptr_t last_number_ = 0;
};

struct Streams {
  QueuePointer of_default = std::make_shared<Queue>(Queue{0, "the default stream"});
  std::vector<QueuePointer> queues = {of_default};  // by number while they live
  std::size_t numbers = 1;
  Clock host;  // what the host has waited for
  DeviceHistory history;
  std::string running;
  bool inside = false;   // of a piece of work
  bool several = false;  // queues have been used since the history began: with one everything is ordered

  void look_for_several() { several = several || queues.size() > 2 || (queues.size() == 2 && of_default->asked > 0); }
  void forget_history() {
    history.clear();
    several = false;
    look_for_several();
  }
  QueuePointer add(std::string name) {
    queues.push_back(std::make_shared<Queue>(Queue{numbers, std::move(name)}));
    ++numbers;
    look_for_several();
    return queues.back();
  }
  void drop_the_dead() {
    std::erase_if(queues, [](const QueuePointer& queue) { return queue->destroyed && queue->items.empty(); });
    if (queues.size() > 1) return;
    numbers = 1;
    of_default->asked = of_default->ran = 0;
    of_default->clock = host = {};
    forget_history();
  }
};

Streams& streams() {
  static thread_local Streams all;
  return all;
}

/// Null where there is none such, which is a fault.
QueuePointer find(StreamHandle handle) {
  if (handle == nullptr) return streams().of_default;
  for (const QueuePointer& queue : streams().queues)
    if (queue.get() == handle && !queue->destroyed) return queue;
  raise({Fault::Kind::bad_stream, "", {}, {}, 0, name_of(Fault::Kind::bad_stream) + ": work is asked of a stream that was destroyed"});
  return nullptr;
}

void run(Queue& queue, const Item& item) {
  if (!item.work.run || (has_fault() && !item.work.after_faults)) return;
  Streams& all = streams();
  if (all.several) all.history.start({queue.number, item.position, item.clock, item.work.name + " on " + queue.name});
  all.running = queue.name;
  all.inside = true;
  item.work.run();
  all.inside = false;
}

void run_to(const QueuePointer& queue, std::uint64_t position) {
  while (queue->ran < position) {
    const Item item = std::move(queue->items.front());
    queue->items.pop_front();
    if (item.awaited) run_to(item.awaited->queue, item.awaited->position);
    run(*queue, item);
    ++queue->ran;
  }
}

void ask(const QueuePointer& queue, Work work, const MarkPointer& awaited) {
  queue->clock.join(streams().host);
  if (awaited) queue->clock.join(awaited->clock);
  Item item{std::move(work), awaited, ++queue->asked, queue->clock};
  queue->clock.set(queue->number, queue->asked);
  queue->items.push_back(std::move(item));
  streams().look_for_several();
  if (queue == streams().of_default) run_to(queue, queue->asked);
}

void report_fault() {
  if (has_fault()) throw Error(Error::Kind::device, fault_message());
}

bool is_work(const Item& item) { return item.work.run && !item.work.after_faults; }

}  // namespace

StreamHandle create_stream() { return streams().add("stream " + std::to_string(streams().numbers)).get(); }

void destroy_stream(StreamHandle handle) {
  const QueuePointer queue = find(handle);
  if (!queue || handle == nullptr) return;
  queue->destroyed = true;
  if (queue->unordered) queue->unordered->destroyed = true;
  streams().drop_the_dead();
}

void enqueue(StreamHandle stream, Work work) {
  if (const QueuePointer queue = find(stream)) ask(queue, std::move(work), nullptr);
  else if (work.after_faults) work.run();
}

void enqueue_unordered(StreamHandle stream, Work work) {
  const QueuePointer queue = find(stream);
  if (!queue) return;
  if (!queue->unordered) queue->unordered = streams().add("the copies from pageable memory of " + queue->name);
  ask(queue->unordered, std::move(work), std::make_shared<Mark>(Mark{queue, queue->asked, queue->clock}));
}

MarkPointer mark(StreamHandle stream) {
  const QueuePointer queue = find(stream);
  return queue ? std::make_shared<Mark>(Mark{queue, queue->asked, queue->clock}) : nullptr;
}

void hold(StreamHandle stream, const MarkPointer& mark) {
  if (const QueuePointer queue = find(stream); queue && mark) ask(queue, {}, mark);
}

void wait_for(const MarkPointer& mark) {
  if (!mark) return;
  run_to(mark->queue, mark->position);
  streams().host.join(mark->clock);
  report_fault();
}

void wait_for(StreamHandle stream) {
  if (const QueuePointer queue = find(stream)) {
    for (const QueuePointer& one : {queue, queue->unordered})
      if (one) {
        run_to(one, one->asked);
        streams().host.join(one->clock);
      }
  }
  report_fault();
}

std::string pending_use(const void* host, std::size_t bytes) {
  const auto number = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  for (const QueuePointer& queue : streams().queues)
    for (const Item& item : queue->items)
      if (item.work.host_bytes > 0 && number(item.work.host) < number(host) + bytes && number(host) < number(item.work.host) + item.work.host_bytes) return item.work.name + " on " + queue->name;
  return {};
}

std::string touch_device(std::uintptr_t address, std::size_t bytes, bool writes, bool atomic) {
  Streams& all = streams();
  return all.inside && all.several ? all.history.touch(address, bytes, writes, atomic) : std::string();
}

void forget_device(std::uintptr_t address, std::size_t bytes) {
  if (streams().several) streams().history.forget(address, bytes);
}

std::string running_stream() { return streams().running; }

std::vector<std::string> unfinished() {
  std::vector<std::string> left;
  for (const QueuePointer& queue : streams().queues)
    for (const Item& item : queue->items)
      if (is_work(item)) left.push_back(item.work.name + " on " + queue->name);
  return left;
}

std::optional<Fault> run_call(const std::function<void()>& call) {
  const StreamHandle own = create_stream();
  const cudaStream_t before = cuda::current_stream();
  cuda::set_current_stream(static_cast<cudaStream_t>(const_cast<void*>(own)));
  std::exception_ptr thrown;
  watch_host(true);
  try {
    call();
  } catch (...) {
    thrown = std::current_exception();
  }
  watch_host(false);
  cuda::set_current_stream(before);
  const std::vector<QueuePointer> all = streams().queues;  // those that live now, and stay while they are emptied
  if (!thrown) {
    const QueuePointer queue = find(own);
    for (const QueuePointer& one : {queue, queue->unordered})
      if (one) run_to(one, one->asked);
    if (const auto left = unfinished(); !left.empty())
      raise({Fault::Kind::unfinished, "", {}, {}, 0, name_of(Fault::Kind::unfinished) + ": when the call returned nobody had waited for " + left.front() + ", and the current stream does not either"});
  }
  if (thrown)  // what work was to use may be no more
    for (const QueuePointer& queue : all)
      for (Item& item : queue->items)
        if (is_work(item)) item.work = {};
  for (const QueuePointer& queue : all) {
    run_to(queue, queue->asked);
    streams().host.join(queue->clock);
  }
  destroy_stream(own);
  streams().forget_history();
  const auto fault = take_fault();
  if (thrown && !fault) std::rethrow_exception(thrown);
  return fault;
}

}  // namespace faibench::emulator
