#include "device/peaks.h"

#include <algorithm>

#include "device/owners.h"

namespace faibench {

OperationsPerClock operations_per_clock(int capability) {
  switch (capability) {  // CUDA programming guide, arithmetic throughput; matrix units: architecture white papers
    case 80: return {2 * 64, 2048};
    case 86: case 89: return {2 * 128, 1024};
    case 90: return {2 * 128, 4096};
    case 100: case 103: return {2 * 128, 8192};
    case 120: return {2 * 128, 1024};
    default: return {};
  }
}

GpuPeaks measure_gpu_peaks(CudaLibrary& cuda, const GpuFacts& gpu) {
  GpuPeaks peaks;
  const auto rate = operations_per_clock(gpu.capability);
  peaks.operations_per_second = rate.f32 * gpu.multiprocessors * gpu.sm_clock_hz;
  peaks.matrix_operations_per_second = rate.matrix * gpu.multiprocessors * gpu.sm_clock_hz;
  // Far beyond the cache, and yet no more than a quarter of what is free.
  const auto bytes = static_cast<std::size_t>(std::min(std::max(16 * gpu.l2_bytes, std::int64_t{256} << 20), cuda.memory().free_bytes / 8));
  const GpuMemory from = gpu_memory(cuda, bytes), to = gpu_memory(cuda, bytes);
  const GpuStream stream = gpu_stream(cuda);
  const GpuEvent start = gpu_event(cuda), stop = gpu_event(cuda);
  cuda.fill(from.get(), 1, bytes, stream.get());
  constexpr int trials = 6, copies = 4;
  for (int trial = 0; trial < trials; ++trial) {
    cuda.record(start.get(), stream.get());
    for (int i = 0; i < copies; ++i) cuda.copy(to.get(), from.get(), bytes, stream.get());
    cuda.record(stop.get(), stream.get());
    cuda.wait(stop.get());
    if (const double seconds = cuda.seconds_between(start.get(), stop.get()); seconds > 0)
      peaks.copy_bytes_per_second = std::max(peaks.copy_bytes_per_second, 2.0 * copies * static_cast<double>(bytes) / seconds);
  }
  return peaks;
}

}  // namespace faibench
