// Lookups by a branch-free search of the sorted starts, on all threads; then the allocation in order: stacks of returned blocks over virgin slices, a ring in flight
// that remembers list and key of each block, so that nothing is searched for. Bound: 16 bytes read and 44 written a query.
#include <algorithm>
#include <numeric>
#include <vector>

#include <omp.h>

#include "kernels/network/rdma_blockpool_window/rdma_blockpool_window.h"

namespace faibench::rdma_blockpool_window::cpu {
namespace {

struct Slice {
  std::uint64_t next, end;
  std::uint32_t key;
};
struct Block {
  std::uint64_t address;
  std::uint32_t key;
  std::uint32_t list;
};
struct Idle {
  std::vector<Block> returned;  // the back is the front of the list
  std::vector<Slice> virgin;    // the back is carved first
};

}  // namespace

void plan_sends(ConfigIn config, WordsIn tiers, WordsIn region_start, WordsIn region_size, TypesIn region_type, KeysIn region_id, WordsIn inflight, WordsIn addr, WordsIn size, View<std::int32_t, 0> window, Indices region,
                Keys lkey, Words span, Indices tier, Words block, Keys block_lkey, Words released, Words inflight_out, Length& in_flight) {
  const std::int64_t R = region_start.extent(0), Q = addr.extent(0), F = inflight.extent(0), W = std::min(config[6], config[9]) - 3;
  const auto b = static_cast<std::uint64_t>(config[3]);
  window() = static_cast<std::int32_t>(W);
  std::vector<std::int32_t> order(static_cast<std::size_t>(R));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int32_t x, std::int32_t y) { return region_start[x] < region_start[y]; });
  std::vector<std::uint64_t> starts;
  for (const std::int32_t r : order) starts.push_back(region_start[r]);
  const auto find = [&](std::uint64_t a) -> std::int32_t {
    const std::uint64_t* base = starts.data();
    for (std::int64_t n = R; n > 1;) {
      const std::int64_t half = n / 2;
      base = base[half] <= a ? base + half : base;
      n -= half;
    }
    const std::int32_t r = order[static_cast<std::size_t>(base - starts.data())];
    return a >= *base && a - *base < region_size[r] ? r : -1;
  };
#pragma omp parallel for schedule(static) if (Q >= 8192)
  for (std::int64_t q = 0; q < Q; ++q) {
    const std::int32_t r = find(addr[q]);
    region[q] = r;
    lkey[q] = r < 0 ? 0 : region_id[r];
    span[q] = r < 0 ? 0 : std::min(size[q], region_start[r] + region_size[r] - addr[q]);
    tier[q] = (size[q] > tiers[0]) + (size[q] > tiers[1]);
  }

  std::vector<Idle> idle(3 * b);
  for (std::int64_t r = 0; r < R; ++r) {
    if (region_type[r] == 3) continue;
    const std::uint64_t slice = region_size[r] / b;
    for (std::uint64_t j = 0; j < b; ++j) idle[static_cast<std::uint64_t>(region_type[r]) * b + j].virgin.push_back({region_start[r] + j * slice, region_start[r] + (j + 1) * slice, region_id[r]});
  }
  std::vector<std::uint64_t> taken(inflight.data(), inflight.data() + F);
  std::sort(taken.begin(), taken.end());
  std::vector<Block> ring(static_cast<std::size_t>(W));
  for (std::int64_t i = 0; i < F; ++i) {
    const std::int32_t r = find(inflight[i]);
    ring[static_cast<std::size_t>(i)] = {inflight[i], region_id[r], static_cast<std::uint32_t>(static_cast<std::uint64_t>(region_type[r]) * b + (inflight[i] - region_start[r]) * b / region_size[r])};
  }
  const auto allocate = [&](std::uint32_t number, Block& got) {
    Idle& list = idle[number];
    if (!list.returned.empty()) {
      got = list.returned.back();
      list.returned.pop_back();
      return true;
    }
    const std::uint64_t unit = number < b ? tiers[0] : number < 2 * b ? tiers[1] : tiers[2];
    while (!list.virgin.empty()) {
      Slice& slice = list.virgin.back();
      if (slice.next == slice.end) {
        list.virgin.pop_back();
        continue;
      }
      got = {slice.next, slice.key, number};
      slice.next += unit;
      if (taken.empty() || !std::binary_search(taken.begin(), taken.end(), got.address)) return true;
    }
    return false;
  };
  std::int64_t oldest = 0, flying = F;
  std::uint64_t turn = 0;  // q mod b
  for (std::int64_t q = 0; q < Q; ++q, turn = turn + 1 == b ? 0 : turn + 1) {
    std::uint64_t back = 0;
    if (flying == W) {
      const Block& old = ring[static_cast<std::size_t>(oldest)];
      idle[old.list].returned.push_back(old);
      back = old.address;
      oldest = oldest + 1 == W ? 0 : oldest + 1;
      --flying;
    }
    released[q] = back;
    Block got{0, 0, 0};
    bool found = false;
    for (std::uint64_t k = 0, j = turn; k < b && !found; ++k, j = j + 1 == b ? 0 : j + 1) found = allocate(static_cast<std::uint32_t>(static_cast<std::uint64_t>(tier[q]) * b + j), got);
    if (found) {
      const std::int64_t place = oldest + flying < W ? oldest + flying : oldest + flying - W;
      ring[static_cast<std::size_t>(place)] = got;
      ++flying;
    }
    block[q] = found ? got.address : 0;
    block_lkey[q] = found ? got.key : 0;
  }
  for (std::int64_t i = 0; i < flying; ++i) inflight_out[i] = ring[static_cast<std::size_t>((oldest + i) % W)].address;
  in_flight.value = flying;
}

}  // namespace faibench::rdma_blockpool_window::cpu
