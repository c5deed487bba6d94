#include "task/device_variants.h"

#include "kernels/linalg/coalesced_matrix_transpose/coalesced_matrix_transpose.h"

namespace faibench::device {

std::vector<DeviceVariant> coalesced_matrix_transpose() {
  namespace task = faibench::coalesced_matrix_transpose;
  return {{"cuda_baseline", Kernel({bind(task::cuda_baseline::transpose, {"x", "y"})})}, {"cuda", Kernel({bind(task::cuda::transpose, {"x", "y"})})}};
}

}  // namespace faibench::device
