// Device memory by handle between two processes, and what the end of one means to the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "device/owners.h"
#include "fake_gpu.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing_support::FakeGpus;

class TwoProcesses : public testing::Test {
 protected:
  TwoProcesses() { fake.reset(1); }
  struct Ended {
    int code;
    std::string said;
  };
  // Another process adds one to every byte of `memory`.
  Ended add_one(CudaLibrary& cuda, void* memory, std::size_t bytes) {
    const std::string order = (folder_ / "order").string(), said = (folder_ / "said").string();
    const auto handle = cuda.handle(memory);
    std::ofstream file(order);
    file.write(handle.data(), static_cast<std::streamsize>(handle.size()));
    file.write(reinterpret_cast<const char*>(&bytes), sizeof bytes);
    file.close();
    const int status = std::system((std::string(std::getenv("OTHER_PROCESS")) + " candidate <" + order + " >" + said).c_str());
    std::ostringstream text;
    text << std::ifstream(said).rdbuf();
    return {WEXITSTATUS(status), text.str()};
  }
  std::vector<unsigned char> content(CudaLibrary& cuda, void* memory, std::size_t bytes) {
    std::vector<unsigned char> host(bytes);
    cuda.copy(host.data(), memory, bytes, nullptr);
    cuda.synchronize_device();
    return host;
  }
  static inline FakeGpus fake{1};
  testing_support::TemporaryFolder folder_;
};

TEST_F(TwoProcesses, share_device_memory_by_handle) {
  CudaLibrary& cuda = cuda_library_on("");
  const GpuMemory memory = gpu_memory(cuda, 3000);
  cuda.fill(memory.get(), 41, 3000, nullptr);
  const Ended ended = add_one(cuda, memory.get(), 3000);
  EXPECT_EQ(ended.code, 0) << ended.said;
  EXPECT_EQ(content(cuda, memory.get(), 3000), std::vector<unsigned char>(3000, 42));
  EXPECT_EQ(fake.state().live[testing_support::FakeGpuState::opened], 0);
  EXPECT_EQ(fake.state().wrong_calls, 0);
}

TEST_F(TwoProcesses, a_handle_is_not_for_the_process_that_made_it) {
  CudaLibrary& cuda = cuda_library_on("");
  const GpuMemory memory = gpu_memory(cuda, 10);
  EXPECT_THROW(cuda.open(cuda.handle(memory.get())), Error);
}

TEST_F(TwoProcesses, a_sticky_error_ends_one_of_them) {
  CudaLibrary& cuda = cuda_library_on("");
  const GpuMemory memory = gpu_memory(cuda, 100);
  cuda.fill(memory.get(), 1, 100, nullptr);
  fake.fail("cudaDeviceSynchronize", 700, true, 1, "candidate");
  const Ended ended = add_one(cuda, memory.get(), 100);
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.said, HasSubstr("cudaDeviceSynchronize: cudaErrorIllegalAddress: "));
  EXPECT_THAT(ended.said, HasSubstr("context lost"));
  EXPECT_FALSE(cuda.context_is_lost());
  const Ended next = add_one(cuda, memory.get(), 100);  // a fresh process has a fresh context
  EXPECT_EQ(next.code, 0) << next.said;
}

TEST_F(TwoProcesses, an_error_that_does_not_stick_leaves_the_context_well) {
  CudaLibrary& cuda = cuda_library_on("");
  const GpuMemory memory = gpu_memory(cuda, 100);
  fake.fail("cudaIpcOpenMemHandle", 1, false, 1, "candidate");
  const Ended ended = add_one(cuda, memory.get(), 100);
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.said, HasSubstr("cudaIpcOpenMemHandle: cudaErrorInvalidValue: "));
  EXPECT_THAT(ended.said, HasSubstr("context well"));
}

}  // namespace
}  // namespace faibench
