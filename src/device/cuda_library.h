// The calls of the CUDA runtime that judge, candidate and ranks make. One implementation loads the library; where the build found no toolkit, there is none.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "device/gpu_facts.h"
#include "tensor/error.h"

namespace faibench {

/// Acts on the device that use() chose, which holds for the calling thread. Every call is checked and throws Error(device) with its name and the runtime's words.
/// What gives something back cannot throw: its failure is thrown by the next call that can.
class CudaLibrary {
 public:
  using MemoryHandle = std::array<char, 64>;  ///< of device memory, for another process on the same device
  struct Stream;                              ///< cudaStream_t
  struct Event;                               ///< cudaEvent_t
  struct Memory { std::int64_t free_bytes = 0, total_bytes = 0; };
  virtual ~CudaLibrary() = default;

  /// Visible devices; 0 where the runtime answers an error, which `why` then says.
  virtual int count(std::string& why) = 0;
  virtual GpuFacts facts(int device) = 0;   ///< all but what NVML knows
  virtual std::string driver() = 0;         ///< the newest CUDA that the driver supports: "CUDA 13.0"
  /// Makes the device current and its context, if need be; synchronising spins.
  virtual void use(int device) = 0;

  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* device) noexcept = 0;
  virtual MemoryHandle handle(void* device) = 0;
  virtual void* open(const MemoryHandle& handle) = 0;  ///< in another process than the one that allocated
  virtual void close(void* device) noexcept = 0;
  virtual void lock_pages(void* host, std::size_t bytes) = 0;
  virtual void unlock_pages(void* host) noexcept = 0;

  virtual Stream* make_stream() = 0;        ///< does not wait for the default stream
  virtual void destroy(Stream* stream) noexcept = 0;
  virtual Event* make_event() = 0;          ///< with a time stamp
  virtual void destroy(Event* event) noexcept = 0;
  virtual void record(Event* event, Stream* stream) = 0;
  virtual void wait(Event* event) = 0;
  virtual double seconds_between(Event* start, Event* stop) = 0;

  virtual void copy(void* to, const void* from, std::size_t bytes, Stream* stream) = 0;  ///< between any two memories
  virtual void fill(void* to, unsigned char value, std::size_t bytes, Stream* stream) = 0;
  virtual void synchronize(Stream* stream) = 0;
  virtual void synchronize_device() = 0;    ///< all streams of this process; reports what launches left behind
  /// No line of the L2 cache is kept any longer than others.
  virtual void reset_persisting_lines() = 0;
  /// Of the whole device, all processes together.
  virtual Memory memory() = 0;
  /// Whether the context of this process is lost: nothing will work in it any more.
  virtual bool context_is_lost() noexcept = 0;
};

/// The CUDA runtime, loaded once and kept: $FAIBENCH_CUDA_RUNTIME where that is set, else libcudart of this build's major version. Null, and `why`, where it cannot be loaded.
CudaLibrary* cuda_library(std::string& why);

/// The same with its first or the named GPU in use; throws Error(device) where there is none.
CudaLibrary& cuda_library_on(const std::string& uuid);

}  // namespace faibench
