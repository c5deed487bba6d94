#include "collectives/all2all_tensor_redistribute/device.h"

#include <string>
#include <vector>

#include "task/contract.h"
#include "task/device_variants.h"

namespace faibench::device {
namespace {

namespace task = faibench::all2all_tensor_redistribute;
using Numbers = View<const std::int64_t, 1>;

template <class T, task::RedistributeBytes* function>
Rejected redistribute(Numbers shape, Numbers mesh, Numbers src_axes, Numbers src_axes_offsets, Numbers dst_axes, Numbers dst_axes_offsets,
                      View<const T, 1> src_data, Numbers src_offsets, View<T, 1> dst_data, View<std::int64_t, 1> dst_offsets) {
  const auto wrong = function(shape, mesh, src_axes, src_axes_offsets, dst_axes, dst_axes_offsets, src_data.data(), src_offsets, dst_data.data(),
                              dst_offsets.data(), sizeof(T));
  if (!wrong) return std::nullopt;
  return reject("shard_size_mismatch", "src_offsets", wrong->rank + 1, std::to_string(src_offsets[wrong->rank + 1]),
                "shard " + std::to_string(wrong->rank) + " has " + std::to_string(wrong->held) + " elements, its box " + std::to_string(wrong->wanted));
}

template <task::RedistributeBytes* function>
Kernel for_every_dtype() {
  const std::vector<std::string> names = {"shape",    "mesh",        "src_axes", "src_axes_offsets", "dst_axes", "dst_axes_offsets",
                                          "src_data", "src_offsets", "dst_data", "dst_offsets"};
  std::vector<Kernel::Overload> overloads;
  for (int i = 0; i < dtype_count; ++i) visit_dtype(static_cast<Dtype>(i), [&]<class T>(T) { overloads.push_back(bind(redistribute<T, function>, names)); });
  return Kernel(std::move(overloads));
}

}  // namespace

std::vector<DeviceVariant> all2all_tensor_redistribute() {
  return {{"cuda_baseline", for_every_dtype<task::cuda_baseline::redistribute>()}, {"cuda", for_every_dtype<task::cuda::redistribute>()}};
}

}  // namespace faibench::device
