#include "device/gpu_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/cuda_library.h"
#include "device/nvml.h"
#include "fake_gpu.h"

namespace faibench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::fake_uuid;
using testing_support::FakeGpus;

class ListGpus : public testing::Test {
 protected:
  void SetUp() override { unsetenv("CUDA_VISIBLE_DEVICES"); }
  void TearDown() override { unsetenv("CUDA_VISIBLE_DEVICES"); }
  static std::vector<std::string> uuids() { return uuids_of(list_gpus().gpus); }
  static FakeGpus& host(int devices) {
    static FakeGpus fake(0);
    fake.reset(devices);
    return fake;
  }
};

TEST_F(ListGpus, takes_all_of_the_host_where_nothing_restricts_it) {
  host(3);
  EXPECT_THAT(uuids(), ElementsAre(fake_uuid(0), fake_uuid(1), fake_uuid(2)));
}

TEST_F(ListGpus, takes_those_of_cuda_visible_devices_in_its_order) {
  host(4);
  setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
  EXPECT_THAT(uuids(), ElementsAre(fake_uuid(2), fake_uuid(0)));
  setenv("CUDA_VISIBLE_DEVICES", fake_uuid(3).c_str(), 1);
  EXPECT_THAT(uuids(), ElementsAre(fake_uuid(3)));
}

TEST_F(ListGpus, takes_an_empty_variable_as_none) {
  host(4);
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_THAT(list_gpus().gpus, IsEmpty());
  EXPECT_THAT(list_gpus().why_none, HasSubstr("cudaErrorNoDevice"));
}

TEST_F(ListGpus, takes_every_error_of_counting_as_none) {
  FakeGpus& fake = host(0);
  EXPECT_THAT(list_gpus().gpus, IsEmpty());
  fake.state().no_devices_error = 35;
  EXPECT_THAT(list_gpus().why_none, HasSubstr("cudaErrorInsufficientDriver"));
  fake.reset(2);
  fake.fail("cudaGetDeviceProperties", 46, false, 2);
  const GpuList broken = list_gpus();
  EXPECT_THAT(broken.gpus, IsEmpty());
  EXPECT_THAT(broken.why_none, HasSubstr("cudaGetDeviceProperties"));
  EXPECT_EQ(uuids().size(), 2u);
}

TEST_F(ListGpus, tells_what_a_gpu_is) {
  FakeGpus& fake = host(1);
  fake.state().exclusive = 1;
  const GpuList found = list_gpus();
  ASSERT_EQ(found.gpus.size(), 1u);
  EXPECT_EQ(facts_text(found.gpus[0]), fake_uuid(0) + ": Fake GPU, sm_90, 4 SMs, 0.2 GiB, L2 4 MiB, SM up to 1980 MHz, memory 3201 MHz, 700 W, exclusive mode");
  EXPECT_EQ(found.driver, "580.65.06");
}

TEST_F(ListGpus, makes_no_context) {
  FakeGpus& fake = host(2);
  (void)list_gpus();
  for (const std::string& call : fake.calls()) EXPECT_THAT(call, testing::AnyOf("cudaGetDeviceCount", "cudaGetDeviceProperties", "cudaDeviceGetAttribute", "cudaDriverGetVersion"));
}

TEST_F(ListGpus, chooses_by_uuid) {
  FakeGpus& fake = host(3);
  setenv("CUDA_VISIBLE_DEVICES", "1,2", 1);
  CudaLibrary& cuda = cuda_library_on(fake_uuid(2));
  void* memory = cuda.allocate(100);
  EXPECT_EQ(fake.state().used_bytes[2], 100);
  cuda.release(memory);
  EXPECT_THROW(cuda_library_on(fake_uuid(0)), Error);
}

TEST_F(ListGpus, reads_clocks_power_and_what_slows_it_down) {
  FakeGpus& fake = host(2);
  fake.state().sm_mhz = 1200;
  fake.state().throttle_reasons = 0x1 | 0x4 | 0x20;
  std::string why;
  Nvml* library = nvml(why);
  ASSERT_TRUE(library) << why;
  const GpuReading now = library->reading(fake_uuid(1));
  EXPECT_EQ(now.sm_clock_hz, 1200e6);
  EXPECT_EQ(now.memory_clock_hz, 3201e6);
  EXPECT_EQ(now.power_watts, 300);
  EXPECT_EQ(throttle_text(now.reasons), "power cap, thermal slowdown");
  EXPECT_EQ(throttle_text(0x3), "");  // idle, or clocks that somebody set
  EXPECT_EQ(library->reading("GPU-none").sm_clock_hz, 0);
  EXPECT_EQ(library->memory_of(fake_uuid(1), getpid()), 5 << 20);
  EXPECT_EQ(library->memory_of(fake_uuid(1), 1), 0);
  EXPECT_EQ(library->memory_of(fake_uuid(1), 999999), -1);
}

// What a shell prints with the libraries as `variables` say.
std::string listed(const std::string& variables) {
  FILE* pipe = popen(("env " + variables + " " + std::getenv("OTHER_PROCESS") + " list").c_str(), "r");
  std::string text;
  for (char chunk[4096]; std::size_t n = std::fread(chunk, 1, sizeof chunk, pipe);) text.append(chunk, n);
  EXPECT_EQ(pclose(pipe), 0);
  return text;
}

TEST_F(ListGpus, works_without_nvml) {
  host(1);
  EXPECT_EQ(listed("FAIBENCH_NVML=/nowhere/libnvidia-ml.so"), fake_uuid(0) + ": Fake GPU, sm_90, 4 SMs, 0.2 GiB, L2 4 MiB\ndriver CUDA 13.0\n");
}

TEST_F(ListGpus, works_without_a_cuda_runtime) {
  host(1);
  EXPECT_THAT(listed("FAIBENCH_CUDA_RUNTIME=/nowhere/libcudart.so"), HasSubstr("none: the CUDA runtime cannot be loaded: /nowhere/libcudart.so"));
}

}  // namespace
}  // namespace faibench
