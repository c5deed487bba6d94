// Every idle block in a deque.
#include <algorithm>
#include <deque>
#include <set>
#include <vector>

#include "kernels/network/rdma_blockpool_window/rdma_blockpool_window.h"

namespace faibench::rdma_blockpool_window::reference {

void plan_sends(ConfigIn config, WordsIn tiers, WordsIn region_start, WordsIn region_size, TypesIn region_type, KeysIn region_id, WordsIn inflight, WordsIn addr, WordsIn size, View<std::int32_t, 0> window, Indices region,
                Keys lkey, Words span, Indices tier, Words block, Keys block_lkey, Words released, Words inflight_out, Length& in_flight) {
  const std::int64_t R = region_start.extent(0);
  const std::uint64_t b = static_cast<std::uint64_t>(config[3]);
  const std::int64_t W = std::min(config[6], config[9]) - 3;
  window() = static_cast<std::int32_t>(W);
  const auto find = [&](std::uint64_t a) {
    for (std::int64_t r = 0; r < R; ++r)
      if (a >= region_start[r] && a - region_start[r] < region_size[r]) return r;
    return std::int64_t{-1};
  };
  const std::set<std::uint64_t> taken(inflight.data(), inflight.data() + inflight.extent(0));
  std::vector<std::vector<std::deque<std::uint64_t>>> idle(3, std::vector<std::deque<std::uint64_t>>(b));
  for (std::int64_t r = R - 1; r >= 0; --r) {
    if (region_type[r] > 2) continue;
    const std::uint64_t slice = region_size[r] / b;
    for (std::uint64_t at = 0; at < region_size[r]; at += tiers[region_type[r]])
      if (!taken.contains(region_start[r] + at)) idle[static_cast<std::size_t>(region_type[r])][at / slice].push_back(region_start[r] + at);
  }
  std::deque<std::uint64_t> flying(inflight.data(), inflight.data() + inflight.extent(0));
  for (std::int64_t q = 0; q < addr.extent(0); ++q) {
    const std::int64_t r = find(addr[q]);
    region[q] = static_cast<std::int32_t>(r);
    lkey[q] = r < 0 ? 0 : region_id[r];
    span[q] = r < 0 ? 0 : std::min(size[q], region_start[r] + region_size[r] - addr[q]);
    std::int32_t t = 0;
    while (size[q] > tiers[t]) ++t;
    tier[q] = t;
    released[q] = 0;
    if (static_cast<std::int64_t>(flying.size()) == W) {
      const std::uint64_t old = flying.front();
      flying.pop_front();
      const std::int64_t home = find(old);
      idle[static_cast<std::size_t>(region_type[home])][(old - region_start[home]) * b / region_size[home]].push_front(old);
      released[q] = old;
    }
    block[q] = 0;
    block_lkey[q] = 0;
    for (std::uint64_t k = 0; k < b; ++k) {
      auto& list = idle[static_cast<std::size_t>(t)][(static_cast<std::uint64_t>(q) + k) % b];
      if (list.empty()) continue;
      block[q] = list.front();
      list.pop_front();
      block_lkey[q] = region_id[find(block[q])];
      flying.push_back(block[q]);
      break;
    }
  }
  std::copy(flying.begin(), flying.end(), inflight_out.data());
  in_flight.value = static_cast<std::int64_t>(flying.size());
}

}  // namespace faibench::rdma_blockpool_window::reference
