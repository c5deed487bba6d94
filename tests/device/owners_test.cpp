#include "device/owners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "fake_gpu.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing_support::FakeGpus;

class Owners : public testing::Test {
 protected:
  Owners() { fake.reset(1); }
  CudaLibrary& cuda() { return cuda_library_on(""); }
  template <class F>
  static std::string error_of(F body) {
    try {
      body();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, Error::Kind::device);
      return e.what();
    }
    return "no error";
  }
  static inline FakeGpus fake{1};
};

TEST_F(Owners, give_everything_back_once) {
  CudaLibrary& c = cuda();
  std::vector<std::byte> host(4096);
  {
    GpuMemory memory = gpu_memory(c, 100), moved = std::move(memory), other = gpu_memory(c, 200);
    other = std::move(moved);
    const GpuStream stream = gpu_stream(c);
    const GpuEvent event = gpu_event(c);
    const LockedPages pages = lock_pages(c, host.data(), host.size());
    EXPECT_FALSE(gpu_memory(c, 0));
    EXPECT_EQ(fake.live(), 5);
  }
  EXPECT_EQ(fake.live(), 0);
  EXPECT_EQ(fake.state().wrong_calls, 0);
  EXPECT_EQ(fake.state().used_bytes[0], 0);
}

TEST_F(Owners, names_call_and_error) {
  CudaLibrary& c = cuda();
  EXPECT_THAT(error_of([&] { c.allocate(std::size_t{1} << 40); }), HasSubstr("cudaMalloc: cudaErrorMemoryAllocation: "));
  EXPECT_FALSE(c.context_is_lost());
  EXPECT_NO_THROW(c.synchronize_device());  // the error does not come back
}

TEST_F(Owners, tells_of_a_failed_release_at_the_next_call) {
  CudaLibrary& c = cuda();
  void* memory = c.allocate(64);
  c.release(memory);
  c.release(memory);
  EXPECT_EQ(fake.state().wrong_calls, 1);
  EXPECT_THAT(error_of([&] { c.synchronize_device(); }), HasSubstr("cudaFree failed earlier: cudaErrorInvalidValue"));
  EXPECT_NO_THROW(c.synchronize_device());
}

TEST_F(Owners, moves_bytes_between_host_and_device) {
  CudaLibrary& c = cuda();
  const GpuMemory memory = gpu_memory(c, 1000);
  std::vector<unsigned char> out(1000, 7), in(1000);
  c.copy(memory.get(), out.data(), 1000, nullptr);
  c.fill(static_cast<char*>(memory.get()) + 999, 9, 1, nullptr);
  c.copy(in.data(), memory.get(), 1000, nullptr);
  c.synchronize(nullptr);
  out[999] = 9;
  EXPECT_EQ(in, out);
  EXPECT_THAT(error_of([&] { c.copy(in.data(), static_cast<char*>(memory.get()) + 1, 1000, nullptr); }), HasSubstr("cudaMemcpyAsync"));
}

TEST_F(Owners, checks_every_call) {
  const char* const calls[] = {"cudaSetDevice", "cudaSetDeviceFlags", "cudaFree", "cudaMalloc", "cudaIpcGetMemHandle", "cudaHostRegister", "cudaStreamCreateWithFlags", "cudaEventCreateWithFlags",
                               "cudaEventRecord", "cudaEventSynchronize", "cudaEventElapsedTime", "cudaMemcpyAsync", "cudaMemsetAsync 8", "cudaStreamSynchronize", "cudaDeviceSynchronize",
                               "cudaCtxResetPersistingL2Cache", "cudaMemGetInfo"};
  for (const char* call : calls) {
    fake.reset(1);
    fake.fail(call, 999, false);
    EXPECT_THAT(error_of([&] {
                  CudaLibrary& c = cuda();
                  std::vector<char> host(8);
                  const GpuMemory memory = gpu_memory(c, 8);
                  const GpuStream stream = gpu_stream(c);
                  const GpuEvent start = gpu_event(c), stop = gpu_event(c);
                  const LockedPages pages = lock_pages(c, host.data(), host.size());
                  (void)c.handle(memory.get());
                  c.record(start.get(), stream.get());
                  c.record(stop.get(), stream.get());
                  c.wait(stop.get());
                  (void)c.seconds_between(start.get(), stop.get());
                  c.copy(memory.get(), host.data(), 8, stream.get());
                  c.fill(memory.get(), 0, 8, stream.get());
                  c.synchronize(stream.get());
                  c.synchronize_device();
                  c.reset_persisting_lines();
                  (void)c.memory();
                }),
                HasSubstr(std::string(call).substr(0, std::string(call).find(' ')) + ": ")) << call;
    EXPECT_EQ(fake.live(), 0) << call;
  }
}

}  // namespace
}  // namespace faibench
