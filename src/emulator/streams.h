// Streams of the emulated device. A stream's work waits in a queue until something makes it run, so that what nothing orders happens in an order that shows it:
//   the default stream runs work when it is asked for; no other stream does
//   waiting for a stream or an event runs what that needs and nothing else: an event that was forgotten leaves the other stream's work undone
//   device memory that two pieces of work touch, one of them writing, with no event, stream or wait of the host between, is a fault, whatever the order they ran in
// All of this host thread, as the device itself is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace faibench::emulator {

/// A cudaStream_t; null: the default stream.
using StreamHandle = const void*;

struct Work {
  std::string name;           ///< "kernel add_one", "copy of 64 bytes"
  std::function<void()> run;
  bool after_faults = false;  ///< runs even then: gives memory back
  const void* host = nullptr;  ///< memory of the host that it reads or writes when it runs
  std::size_t host_bytes = 0;
};

StreamHandle create_stream();
/// Returns at once, as on a device: what waits in its queue may still run, and nobody can wait for it any more.
void destroy_stream(StreamHandle stream);

/// After the stream's earlier work.
void enqueue(StreamHandle stream, Work work);
/// After the stream's earlier work, but nothing waits for it except the host, when it waits for the stream.
void enqueue_unordered(StreamHandle stream, Work work);

/// The work of a stream up to some point.
struct Mark;
using MarkPointer = std::shared_ptr<const Mark>;
MarkPointer mark(StreamHandle stream);
/// Later work of `stream` waits for what was marked.
void hold(StreamHandle stream, const MarkPointer& mark);
/// The host waits.
void wait_for(const MarkPointer& mark);
void wait_for(StreamHandle stream);

/// Whether work that has not run yet will touch these bytes of the host's memory; its name and stream, or empty.
std::string pending_use(const void* host, std::size_t bytes);

/// Notes that the work that runs touches device memory; says what is wrong with that, or an empty string. Words that are touched in part are not looked at.
std::string touch_device(std::uintptr_t address, std::size_t bytes, bool writes, bool atomic = false);
/// Nothing has touched these bytes: they are another allocation's now.
void forget_device(std::uintptr_t address, std::size_t bytes);
/// "stream 2", of the work that runs.
std::string running_stream();

}  // namespace faibench::emulator
