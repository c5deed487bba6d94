// Region of each payload and block of each send on one RDMA connection: the one signature of all variants.
#pragma once
#include "task/kernel.h"
#include "tensor/view.h"

namespace faibench::rdma_blockpool_window {

using ConfigIn = View<const std::int64_t, 1>;
using WordsIn = View<const std::uint64_t, 1>;
using TypesIn = View<const std::int32_t, 1>;
using KeysIn = View<const std::uint32_t, 1>;
using Words = View<std::uint64_t, 1>;
using Keys = View<std::uint32_t, 1>;
using Indices = View<std::int32_t, 1>;

/// Inputs [C], [T], 4 x [R], [F], 2 x [Q], all checked before the call; outputs scalar, 8 x [Q], inflight_out with room for F + Q; in_flight is its length. Thread-safe.
namespace reference {
void plan_sends(ConfigIn config, WordsIn tiers, WordsIn region_start, WordsIn region_size, TypesIn region_type, KeysIn region_id, WordsIn inflight, WordsIn addr, WordsIn size, View<std::int32_t, 0> window, Indices region,
                Keys lkey, Words span, Indices tier, Words block, Keys block_lkey, Words released, Words inflight_out, Length& in_flight);
}
namespace baseline {
void plan_sends(ConfigIn config, WordsIn tiers, WordsIn region_start, WordsIn region_size, TypesIn region_type, KeysIn region_id, WordsIn inflight, WordsIn addr, WordsIn size, View<std::int32_t, 0> window, Indices region,
                Keys lkey, Words span, Indices tier, Words block, Keys block_lkey, Words released, Words inflight_out, Length& in_flight);
}
namespace cpu {
void plan_sends(ConfigIn config, WordsIn tiers, WordsIn region_start, WordsIn region_size, TypesIn region_type, KeysIn region_id, WordsIn inflight, WordsIn addr, WordsIn size, View<std::int32_t, 0> window, Indices region,
                Keys lkey, Words span, Indices tier, Words block, Keys block_lkey, Words released, Words inflight_out, Length& in_flight);
}

}  // namespace faibench::rdma_blockpool_window
