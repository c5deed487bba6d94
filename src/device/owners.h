// Owners of what the CUDA runtime gives out: given back once, moved, never copied.
#pragma once
#include <cstddef>
#include <utility>

#include "device/cuda_library.h"

namespace faibench {

/// `give_back` is what undoes it.
template <class T, void (*give_back)(CudaLibrary&, T*)>
class GpuOwner {
 public:
  GpuOwner() = default;
  GpuOwner(CudaLibrary& cuda, T* owned) : cuda_(&cuda), owned_(owned) {}
  GpuOwner(GpuOwner&& other) noexcept : cuda_(other.cuda_), owned_(std::exchange(other.owned_, nullptr)) {}
  GpuOwner& operator=(GpuOwner&& other) noexcept {
    std::swap(cuda_, other.cuda_);
    std::swap(owned_, other.owned_);
    return *this;
  }
  ~GpuOwner() {
    if (owned_) give_back(*cuda_, owned_);
  }
  [[nodiscard]] T* get() const { return owned_; }
  explicit operator bool() const { return owned_ != nullptr; }

 private:
  CudaLibrary* cuda_ = nullptr;
  T* owned_ = nullptr;
};

namespace owners_detail {
inline void release(CudaLibrary& cuda, void* device) { cuda.release(device); }
inline void close(CudaLibrary& cuda, void* device) { cuda.close(device); }
inline void unlock(CudaLibrary& cuda, void* host) { cuda.unlock_pages(host); }
inline void destroy_stream(CudaLibrary& cuda, CudaLibrary::Stream* stream) { cuda.destroy(stream); }
inline void destroy_event(CudaLibrary& cuda, CudaLibrary::Event* event) { cuda.destroy(event); }
}  // namespace owners_detail

using GpuMemory = GpuOwner<void, owners_detail::release>;
using OpenedGpuMemory = GpuOwner<void, owners_detail::close>;  ///< another process's
using LockedPages = GpuOwner<void, owners_detail::unlock>;     ///< of host memory that somebody else owns
using GpuStream = GpuOwner<CudaLibrary::Stream, owners_detail::destroy_stream>;
using GpuEvent = GpuOwner<CudaLibrary::Event, owners_detail::destroy_event>;

/// Null of 0 bytes.
inline GpuMemory gpu_memory(CudaLibrary& cuda, std::size_t bytes) { return {cuda, bytes > 0 ? cuda.allocate(bytes) : nullptr}; }
inline OpenedGpuMemory open_gpu_memory(CudaLibrary& cuda, const CudaLibrary::MemoryHandle& handle) { return {cuda, cuda.open(handle)}; }
inline LockedPages lock_pages(CudaLibrary& cuda, void* host, std::size_t bytes) {
  cuda.lock_pages(host, bytes);
  return {cuda, host};
}
inline GpuStream gpu_stream(CudaLibrary& cuda) { return {cuda, cuda.make_stream()}; }
inline GpuEvent gpu_event(CudaLibrary& cuda) { return {cuda, cuda.make_event()}; }

}  // namespace faibench
