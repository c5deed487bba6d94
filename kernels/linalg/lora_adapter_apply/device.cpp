#include "task/device_variants.h"

#include "kernels/linalg/lora_adapter_apply/lora_adapter_apply.h"

namespace faibench::device {

std::vector<DeviceVariant> lora_adapter_apply() {
  namespace task = faibench::lora_adapter_apply;
  const std::vector<std::string> names = {"x", "W", "A", "B", "scale", "y"};
  return {{"cuda_baseline", Kernel({bind(task::cuda_baseline::apply, names)})}, {"cuda", Kernel({bind(task::cuda::apply, names)})}, {"cuda_five_pass", Kernel({bind(task::cuda_five_pass::apply, names)})}};
}

}  // namespace faibench::device
