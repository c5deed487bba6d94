// The one-process form on a GPU.
#pragma once
#include <cstdint>
#include <optional>

#include "tensor/view.h"

namespace faibench::all2all_tensor_redistribute {

/// The first source shard that is not of the size of its box.
struct WrongSize {
  std::int64_t rank, held, wanted;
};

/// redistribute() as in all2all_tensor_redistribute.h, of elements of `element` bytes (1, 2, 4 or 8). src_data, dst_data and dst_offsets [P+1] lie in device memory,
/// everything else in page-locked host memory. Returns before anything is written where a shard has the wrong size; else what it launches goes to
/// cuda::current_stream(). Throws Error(device).
using RedistributeBytes = std::optional<WrongSize>(View<const std::int64_t, 1> shape, View<const std::int64_t, 1> mesh,
                                                   View<const std::int64_t, 1> src_axes, View<const std::int64_t, 1> src_axes_offsets,
                                                   View<const std::int64_t, 1> dst_axes, View<const std::int64_t, 1> dst_axes_offsets,
                                                   const void* src_data, View<const std::int64_t, 1> src_offsets, void* dst_data,
                                                   std::int64_t* dst_offsets, std::int64_t element);
namespace cuda_baseline { RedistributeBytes redistribute; }
namespace cuda { RedistributeBytes redistribute; }

}  // namespace faibench::all2all_tensor_redistribute
