#include "task/device_variants.h"

#include "collectives/tp_allreduce_bias_fuse/device.h"

namespace faibench::device {

std::vector<DeviceVariant> tp_allreduce_bias_fuse() {
  namespace task = faibench::tp_allreduce_bias_fuse;
  const std::vector<std::string> names = {"partials", "bias", "out"};
  return {{"cuda_baseline", Kernel({bind(task::cuda_baseline::reduce_partials<float>, names), bind(task::cuda_baseline::reduce_partials<f16>, names),
                                    bind(task::cuda_baseline::reduce_partials<bf16>, names)})},
          {"cuda", Kernel({bind(task::cuda::reduce_partials<float>, names), bind(task::cuda::reduce_partials<f16>, names),
                           bind(task::cuda::reduce_partials<bf16>, names)})}};
}

}  // namespace faibench::device
