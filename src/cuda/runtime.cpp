#include "cuda/runtime.h"

#include "cuda/check.h"

namespace faibench::cuda {

Workspace::Workspace(std::size_t bytes) : bytes_(bytes), stream_(current_stream()) {
  if (bytes > 0) check(cudaMallocAsync(&data_, bytes, stream_), "cudaMallocAsync");
}
Workspace::~Workspace() {
  if (data_) cudaFreeAsync(data_, stream_);  // an error here is one of earlier work: the next checked call reports it
}

HostBuffer::HostBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes > 0) check(cudaMallocHost(&data_, bytes), "cudaMallocHost");
}
HostBuffer::~HostBuffer() {
  if (data_) cudaFreeHost(data_);
}

bool page_locked(const void* data) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes");
  return attributes.type != cudaMemoryTypeUnregistered;
}

Stream::Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
Stream::~Stream() { cudaStreamDestroy(stream_); }

Event::Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags"); }
Event::~Event() { cudaEventDestroy(event_); }
void Event::record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
void Event::hold(cudaStream_t stream) const { check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent"); }
void Event::wait() const { check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

void copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}
void fill(void* to, unsigned char value, std::size_t bytes, cudaStream_t stream) {
  if (bytes > 0) check(cudaMemsetAsync(to, value, bytes, stream), "cudaMemsetAsync");
}
void synchronize(cudaStream_t stream) { check(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); }

int multiprocessors() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  return count;
}

}  // namespace faibench::cuda
