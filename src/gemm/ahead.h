// What to fetch into the second-level cache while a register tile is computed.
#pragma once
#include <cstdint>

namespace faibench::gemm {

/// Two streams of 512 bytes, each every `steps` steps of k; then each moves on by its stride.
struct Fetch {
  static constexpr std::int64_t steps = 16;
  const char* at = nullptr;
  std::int64_t stride = 0;
  const char* other = nullptr;
  std::int64_t other_stride = 0;
};

}  // namespace faibench::gemm
