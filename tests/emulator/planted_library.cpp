// A library of device variants like that of the program, whose variants are wrong.
#include "emulator/planted_transpose.h"
#include "task/device_variants.h"

namespace faibench {

std::span<const DeviceTask> all_device_tasks() {
  static const std::vector<DeviceTask> list = {
      {"coalesced_matrix_transpose",
       {{"cuda_baseline", Kernel({bind(planted::transpose_without_the_tail, {"x", "y"})})}, {"cuda", Kernel({bind(planted::transpose_without_the_barrier, {"x", "y"})})}}}};
  return list;
}

}  // namespace faibench
