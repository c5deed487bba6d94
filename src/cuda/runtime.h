// What a variant's host code asks of the GPU besides launching kernels: memory, streams, events, copies. One interface, two libraries: src/cuda/runtime.cpp on a device,
// src/emulator/runtime.cpp on the emulator. Everything throws Error(device) with the call's name.
#pragma once
#include <driver_types.h>

#include <cstddef>
#include <utility>

#include "cuda/stream.h"

namespace faibench::cuda {

/// Device memory for the time of a call, ordered like work on current_stream(): good for work launched on that stream after it was made and before it is destroyed. Not initialised.
class Workspace {
 public:
  explicit Workspace(std::size_t bytes);
  ~Workspace();
  Workspace(Workspace&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_), stream_(other.stream_) {}
  Workspace& operator=(Workspace&&) = delete;
  /// 256-byte aligned; null of 0 bytes.
  template <class T>
  [[nodiscard]] T* data() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  cudaStream_t stream_ = nullptr;
};

/// Page-locked memory of the host for the time of a call: copies to and from it are asynchronous. Slow to make. It must outlive the copies. Not initialised.
class HostBuffer {
 public:
  explicit HostBuffer(std::size_t bytes);
  ~HostBuffer();
  HostBuffer(HostBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  HostBuffer& operator=(HostBuffer&&) = delete;
  /// 256-byte aligned; null of 0 bytes.
  template <class T>
  [[nodiscard]] T* data() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Whether this memory of the host is page-locked, so that copies from it are asynchronous.
bool page_locked(const void* data);

/// A stream that does not wait for the default one.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A point in a stream's work that another stream or the host waits for. No timing.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream);
  /// Later work of `stream` starts when what was recorded last has ended; the event may then be recorded again.
  void hold(cudaStream_t stream) const;
  /// The host waits for what was recorded last.
  void wait() const;

 private:
  cudaEvent_t event_ = nullptr;
};

/// Makes `stream` the current one of this thread while it lives.
class OnStream {
 public:
  explicit OnStream(cudaStream_t stream) : before_(current_stream()) { set_current_stream(stream); }
  ~OnStream() { set_current_stream(before_); }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  cudaStream_t before_;
};

/// Between any two memories, in order with `stream`'s work; may return before it is done (the host's side must be page-locked for that). From pageable memory it returns when the
/// source may change, but has been seen to arrive after later work of the stream.
void copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream);
/// Sets bytes of device memory, in order with `stream`'s work.
void fill(void* to, unsigned char value, std::size_t bytes, cudaStream_t stream);
/// Waits until all work of `stream` has ended; reports its errors.
void synchronize(cudaStream_t stream);
/// Multiprocessors of the current device.
int multiprocessors();

}  // namespace faibench::cuda
