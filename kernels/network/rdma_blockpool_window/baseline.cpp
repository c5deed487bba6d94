// Linear scans of the regions, a span counted byte by byte, idle lists of linked nodes carved from the front.
#include <algorithm>
#include <deque>
#include <forward_list>
#include <vector>

#include "kernels/network/rdma_blockpool_window/rdma_blockpool_window.h"

namespace faibench::rdma_blockpool_window::baseline {

void plan_sends(ConfigIn config, WordsIn tiers, WordsIn region_start, WordsIn region_size, TypesIn region_type, KeysIn region_id, WordsIn inflight, WordsIn addr, WordsIn size, View<std::int32_t, 0> window, Indices region,
                Keys lkey, Words span, Indices tier, Words block, Keys block_lkey, Words released, Words inflight_out, Length& in_flight) {
  struct Node {
    std::uint64_t start, length;
  };
  const auto lookup = [&](std::uint64_t a) -> std::int32_t {
    for (std::int64_t r = 0; r < region_start.extent(0); ++r)
      if (a >= region_start[r] && a < region_start[r] + region_size[r]) return static_cast<std::int32_t>(r);
    return -1;
  };
  const std::int64_t buckets = config[3], W = std::min(config[6], config[9]) - 3;
  window() = static_cast<std::int32_t>(W);
  std::vector<std::forward_list<Node>> idle(static_cast<std::size_t>(3 * buckets));
  std::vector<std::uint64_t> taken(inflight.data(), inflight.data() + inflight.extent(0));
  std::sort(taken.begin(), taken.end());
  for (std::int64_t r = 0; r < region_start.extent(0); ++r) {
    if (region_type[r] == 3) continue;
    const std::uint64_t slice = region_size[r] / static_cast<std::uint64_t>(buckets), unit = tiers[region_type[r]];
    for (std::int64_t j = 0; j < buckets; ++j) {
      auto& list = idle[static_cast<std::size_t>(region_type[r] * buckets + j)];
      std::uint64_t from = region_start[r] + slice * static_cast<std::uint64_t>(j);
      const std::uint64_t end = from + slice;
      auto last = list.before_begin();
      const auto append = [&](std::uint64_t to) {
        if (to > from) last = list.insert_after(last, {from, to - from});
      };
      for (auto hole = std::lower_bound(taken.begin(), taken.end(), from); hole != taken.end() && *hole < end; ++hole) {
        append(*hole);
        from = *hole + unit;
      }
      append(end);
    }
  }
  std::deque<std::uint64_t> flying(inflight.data(), inflight.data() + inflight.extent(0));
  for (std::int64_t q = 0; q < addr.extent(0); ++q) {
    const std::int32_t r = lookup(addr[q]);
    std::uint64_t n = 0;
    if (r >= 0)
      while (n < size[q] && lookup(addr[q] + n) == r) ++n;
    region[q] = r;
    lkey[q] = r < 0 ? 0 : region_id[r];
    span[q] = n;
    tier[q] = size[q] <= tiers[0] ? 0 : size[q] <= tiers[1] ? 1 : 2;
    released[q] = 0;
    if (static_cast<std::int64_t>(flying.size()) == W) {
      const std::uint64_t old = flying.front();
      flying.pop_front();
      const std::int32_t home = lookup(old);
      const std::uint64_t bucket = (old - region_start[home]) * static_cast<std::uint64_t>(buckets) / region_size[home];
      idle[static_cast<std::size_t>(region_type[home] * buckets) + bucket].push_front({old, tiers[region_type[home]]});
      released[q] = old;
    }
    block[q] = 0;
    block_lkey[q] = 0;
    for (std::int64_t k = 0; k < buckets; ++k) {
      auto& list = idle[static_cast<std::size_t>(tier[q] * buckets + (q + k) % buckets)];
      if (list.empty()) continue;
      Node& front = list.front();
      block[q] = front.start;
      block_lkey[q] = region_id[lookup(front.start)];
      front.start += tiers[tier[q]];
      front.length -= tiers[tier[q]];
      if (front.length == 0) list.pop_front();
      flying.push_back(block[q]);
      break;
    }
  }
  std::copy(flying.begin(), flying.end(), inflight_out.data());
  in_flight.value = static_cast<std::int64_t>(flying.size());
}

}  // namespace faibench::rdma_blockpool_window::baseline
