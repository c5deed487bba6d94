// What a GPU can do at most.
#pragma once
#include "device/cuda_library.h"

namespace faibench {

struct GpuPeaks {
  double copy_bytes_per_second = 0;        ///< measured: read + written, arrays far larger than the L2 cache
  double operations_per_second = 0;        ///< f32 fused multiply-adds, each counting 2: lanes x clock
  double matrix_operations_per_second = 0; ///< f16 and bf16 matrix units with f32 sums, dense: the same from the chip's data sheet; int8 does twice that
};

/// On the device in use, within about 0.2 s. `gpu` with NVML's clocks; without them the arithmetic peaks are 0: unknown.
GpuPeaks measure_gpu_peaks(CudaLibrary& cuda, const GpuFacts& gpu);
/// f32 and f16-matrix operations of one multiprocessor in one clock; zeros for a chip that is not known.
struct OperationsPerClock { double f32 = 0, matrix = 0; };
OperationsPerClock operations_per_clock(int capability);

}  // namespace faibench
