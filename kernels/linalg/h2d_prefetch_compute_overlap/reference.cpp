// The definition, element by element in f64.
#include <cmath>

#include "kernels/linalg/h2d_prefetch_compute_overlap/h2d_prefetch_compute_overlap.h"

namespace faibench::h2d_prefetch_compute_overlap::reference {

void streamed_chunk_apply(View<const float, 2> data, Offsets offsets, Values scale, Values gain, Values bias, std::int32_t rounds, View<float, 2> out) {
  for (std::int64_t i = 0; i < scale.extent(0); ++i)
    for (std::int64_t h = offsets[i]; h < offsets[i + 1]; ++h)
      for (std::int64_t c = 0; c < data.extent(1); ++c) {
        if (rounds == 0) {
          out(h, c) = scale[i] * data(h, c);
          continue;
        }
        double v = double{scale[i]} * double{data(h, c)};
        for (std::int32_t r = 0; r < rounds; ++r) {
          const double z = double{gain[c]} * v + double{bias[c]};
          v = z / (1 + std::exp(-z));
        }
        out(h, c) = static_cast<float>(v);
      }
}

}  // namespace faibench::h2d_prefetch_compute_overlap::reference
