// Longest processing time first, the plainest way: look at every chunk for each tensor.
#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

#include "collectives/diloco_comm_chunk_balance/diloco_comm_chunk_balance.h"

namespace faibench::diloco_comm_chunk_balance::reference {

void balance(View<const std::int64_t, 1> sizes, std::int32_t chunks, View<std::int32_t, 1> chunk_of, View<std::int64_t, 1> load) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(sizes.size()));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) { return sizes[a] > sizes[b]; });  // ties: lower index first
  using Chunk = std::pair<std::int64_t, std::int32_t>;  // load, number: the least of these is the least loaded, ties to the lower number
  std::priority_queue<Chunk, std::vector<Chunk>, std::greater<>> least;
  for (std::int32_t c = 0; c < chunks; ++c) least.emplace(0, c);
  std::fill(load.data(), load.data() + load.size(), 0);
  for (const std::int64_t i : order) {
    const auto [bytes, chunk] = least.top();
    least.pop();
    chunk_of[i] = chunk;
    load[chunk] = bytes + sizes[i];
    least.emplace(load[chunk], chunk);
  }
}

}  // namespace faibench::diloco_comm_chunk_balance::reference
