#include "task/device_variants.h"

#include "kernels/sequence/flash_causal_attn_prefill/flash_causal_attn_prefill.h"

namespace faibench::device {
namespace {

template <class T>
Kernel::Overload overload(void (*function)(View<const T, 4>, View<const T, 4>, View<const T, 4>, float, bool, View<T, 4>)) {
  return bind(function, {"q", "k", "v", "scale", "causal", "out"});
}

}  // namespace

std::vector<DeviceVariant> flash_causal_attn_prefill() {
  namespace task = faibench::flash_causal_attn_prefill;
  return {{"cuda_baseline", Kernel({overload(task::cuda_baseline::causal_attention<float>), overload(task::cuda_baseline::causal_attention<f16>),
                                    overload(task::cuda_baseline::causal_attention<bf16>)})},
          {"cuda", Kernel({overload(task::cuda::causal_attention<float>), overload(task::cuda::causal_attention<f16>),
                           overload(task::cuda::causal_attention<bf16>)})}};
}

}  // namespace faibench::device
