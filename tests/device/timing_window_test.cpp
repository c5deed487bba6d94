#include "device/timing_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/memory_watch.h"
#include "device/peaks.h"
#include "fake_gpu.h"
#include "patience.h"

namespace faibench {
namespace {

using testing::ElementsAre;
using testing_support::FakeGpus;

class TimingWindows : public testing::Test {
 protected:
  TimingWindows() { fake.reset(1); }
  static constexpr std::int64_t l2 = std::int64_t{3} << 20;
  static inline FakeGpus fake{1};
};

TEST_F(TimingWindows, flush_before_the_start_event_and_synchronise_the_device_before_the_time_is_read) {
  CudaLibrary& cuda = cuda_library_on("");
  TimingWindow window(cuda, l2);
  const std::size_t before = fake.calls().size();
  window.open();
  window.close(0);
  auto calls = fake.calls();
  calls.erase(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(before));
  std::erase(calls, "cudaGetLastError");
  EXPECT_THAT(calls, ElementsAre("cudaCtxResetPersistingL2Cache", "cudaMemsetAsync " + std::to_string(2 * l2), "cudaDeviceSynchronize", "cudaEventRecord", "cudaEventSynchronize",  //
                                 "cudaMemsetAsync 4096", "cudaEventRecord", "cudaDeviceSynchronize", "cudaEventElapsedTime"));
}

TEST_F(TimingWindows, flush_at_least_twice_the_cache) {
  CudaLibrary& cuda = cuda_library_on("");
  EXPECT_EQ(TimingWindow(cuda, l2).flushed_bytes(), 2 * l2);
  EXPECT_GE(TimingWindow(cuda, 0).flushed_bytes(), std::int64_t{100} << 20);  // unknown
}

TEST_F(TimingWindows, take_the_clock_where_the_device_was_synchronised) {
  TimingWindow window(cuda_library_on(""), l2);
  fake.state().clock_ns = 1'000'000;
  window.calibrate([&] {
    fake.state().clock_ns += 12'000;  // events lie 12 us apart, of which the hand-over took 2
    return 2e-6;
  });
  EXPECT_NEAR(window.recording_seconds(), 10e-6, 1e-9);
  window.open();
  fake.state().clock_ns += 510'000;
  EXPECT_NEAR(window.close(500e-6), 500e-6, 1e-9);
}

TEST_F(TimingWindows, take_the_device_where_work_runs_on_after_the_answer) {
  TimingWindow window(cuda_library_on(""), l2);
  fake.state().clock_ns = 0;
  window.calibrate([&] {
    fake.state().clock_ns += 12'000;
    return 2e-6;
  });
  window.open();
  fake.state().clock_ns += 15'000;
  fake.state().pending_ns = 800'000;  // the candidate said it was done after 5 us
  EXPECT_NEAR(window.close(5e-6), 805e-6, 1e-9);
}

TEST_F(TimingWindows, never_say_less_than_the_clock) {
  TimingWindow window(cuda_library_on(""), l2);
  fake.state().clock_ns = 0;
  window.calibrate([&] { return 0.0; });
  window.open();
  EXPECT_EQ(window.close(3e-3), 3e-3);
}

TEST_F(TimingWindows, give_everything_back) {
  { TimingWindow window(cuda_library_on(""), l2); }
  EXPECT_EQ(fake.live(), 0);
  fake.reset(1);
  fake.fail("cudaMalloc", 2, false);
  EXPECT_THROW(TimingWindow(cuda_library_on(""), l2), Error);
  EXPECT_EQ(fake.live(), 0);
}

TEST_F(TimingWindows, stand_beside_the_peaks_of_the_device) {
  CudaLibrary& cuda = cuda_library_on("");
  GpuFacts gpu = list_gpus().gpus.at(0);
  fake.state().total_bytes = 16 << 20;
  const GpuPeaks peaks = measure_gpu_peaks(cuda, gpu);
  EXPECT_GT(peaks.copy_bytes_per_second, 1e6);
  EXPECT_EQ(peaks.operations_per_second, 2.0 * 128 * 4 * 1980e6);
  EXPECT_EQ(peaks.matrix_operations_per_second, 4096.0 * 4 * 1980e6);
  EXPECT_EQ(fake.live(), 0);
  gpu.sm_clock_hz = 0;  // without NVML nobody knows
  EXPECT_EQ(measure_gpu_peaks(cuda, gpu).operations_per_second, 0);
  EXPECT_EQ(operations_per_clock(70).f32, 0);
}

TEST(OperationsPerClock, give_the_data_sheets_peaks) {
  EXPECT_NEAR(operations_per_clock(80).f32 * 108 * 1.41e9, 19.5e12, 0.1e12);     // A100
  EXPECT_NEAR(operations_per_clock(80).matrix * 108 * 1.41e9, 312e12, 1e12);
  EXPECT_NEAR(operations_per_clock(90).f32 * 132 * 1.98e9, 66.9e12, 0.1e12);     // H100 SXM
  EXPECT_NEAR(operations_per_clock(90).matrix * 132 * 1.83e9, 989e12, 1e12);     // at its boost clock of 1.83 GHz under matrix load
}

TEST_F(TimingWindows, do_not_hide_what_memory_a_call_takes) {
  CudaLibrary& cuda = cuda_library_on("");
  const GpuMemory tensors = gpu_memory(cuda, 1 << 20);
  DeviceMemoryWatch watch(cuda, testing_support::fake_uuid(0));
  watch.start_call();
  EXPECT_EQ(watch.most_taken(), 0);
  EXPECT_TRUE(testing_support::wait_until([&] {  // on a busy machine the watch may sleep through it
    watch.start_call();
    {
      const GpuMemory taken = gpu_memory(cuda, 3 << 20);
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
    return watch.most_taken() == 3 << 20;
  }));
  const GpuMemory kept = gpu_memory(cuda, 1 << 20);
  watch.start_call();
  EXPECT_EQ(watch.most_taken(), 1 << 20);  // counts for the calls after it
}

}  // namespace
}  // namespace faibench
