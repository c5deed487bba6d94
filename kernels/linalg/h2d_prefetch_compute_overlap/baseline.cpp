// The naive way as the contract words it: a staging buffer a chunk, a pass over it for the scale and for every round, then into place.
#include <cmath>
#include <cstring>
#include <memory>

#include "kernels/linalg/h2d_prefetch_compute_overlap/h2d_prefetch_compute_overlap.h"

namespace faibench::h2d_prefetch_compute_overlap::baseline {

void streamed_chunk_apply(View<const float, 2> data, Offsets offsets, Values scale, Values gain, Values bias, std::int32_t rounds, View<float, 2> out) {
  const std::int64_t D = data.extent(1);
  for (std::int64_t i = 0; i < scale.extent(0); ++i) {
    const std::int64_t rows = offsets[i + 1] - offsets[i], count = rows * D;
    if (count == 0) continue;
    const std::unique_ptr<float[]> staging(new float[static_cast<std::size_t>(count)]);
    std::memcpy(staging.get(), data.data() + offsets[i] * D, static_cast<std::size_t>(count) * sizeof(float));
    for (std::int64_t k = 0; k < count; ++k) staging[static_cast<std::size_t>(k)] *= scale[i];
    for (std::int32_t r = 0; r < rounds; ++r)
      for (std::int64_t h = 0; h < rows; ++h)
        for (std::int64_t c = 0; c < D; ++c) {
          float& v = staging[static_cast<std::size_t>(h * D + c)];
          const float z = gain[c] * v + bias[c];
          v = z / (1.0f + std::exp(-z));
        }
    std::memcpy(out.data() + offsets[i] * D, staging.get(), static_cast<std::size_t>(count) * sizeof(float));
  }
}

}  // namespace faibench::h2d_prefetch_compute_overlap::baseline
