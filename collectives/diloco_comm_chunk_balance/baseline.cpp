// Round-robin: balanced in count, not in bytes.
#include <algorithm>

#include "collectives/diloco_comm_chunk_balance/diloco_comm_chunk_balance.h"

namespace faibench::diloco_comm_chunk_balance::baseline {

void balance(View<const std::int64_t, 1> sizes, std::int32_t chunks, View<std::int32_t, 1> chunk_of, View<std::int64_t, 1> load) {
  std::fill(load.data(), load.data() + load.size(), 0);
  for (std::int64_t i = 0; i < sizes.size(); ++i) {
    const auto chunk = static_cast<std::int32_t>(i % chunks);
    chunk_of[i] = chunk;
    load[chunk] += sizes[i];
  }
}

}  // namespace faibench::diloco_comm_chunk_balance::baseline
