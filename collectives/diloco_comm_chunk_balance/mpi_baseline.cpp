// Chunk by chunk, nothing at once: pack, all-reduce, multiply and unpack.
#include <cstring>
#include <vector>

#include "collectives/diloco_comm_chunk_balance/diloco_comm_chunk_balance.h"
#include "collectives/diloco_comm_chunk_balance/ranks.h"
#include "communicator/communicator.h"

namespace faibench::diloco_comm_chunk_balance {

Rejected run_mpi_baseline(MultiRank::Call& call) {
  Communicator& communicator = call.communicator;
  const auto sizes = call.arguments.inputs.at("sizes").view<const std::int64_t, 1>();
  const auto chunks = call.arguments.inputs.at("chunks").scalar<std::int32_t>();
  const auto deltas = call.arguments.inputs.at("deltas").view<const float, 1>();
  const auto averaged = call.arguments.outputs.at("averaged").view<float, 1>();
  const std::int64_t n = sizes.extent(0);
  std::vector<std::int32_t> chunk_of(static_cast<std::size_t>(n));
  std::vector<std::int64_t> load(static_cast<std::size_t>(chunks));
  cpu::balance(sizes, chunks, {chunk_of.data(), {n}}, {load.data(), {chunks}});

  std::uint64_t hash = 1469598103934665603u + static_cast<std::uint64_t>(chunks);
  for (std::int64_t i = 0; i < n; ++i)
    for (const std::uint64_t word : {static_cast<std::uint64_t>(sizes[i]), static_cast<std::uint64_t>(chunk_of[static_cast<std::size_t>(i)])}) hash = (hash ^ word) * 1099511628211u;
  std::int64_t low = static_cast<std::int64_t>(hash >> 1), high = low;
  communicator.all_reduce(&low, &low, 1, Dtype::i64, Reduce::min);
  communicator.all_reduce(&high, &high, 1, Dtype::i64, Reduce::max);
  if (low != high) return reject("rank_mismatch", "sizes", -1, "not the same on all ranks", "plans differ between ranks");

  const float share = 1.0f / static_cast<float>(communicator.size());
  std::vector<float> packed;
  for (std::int32_t c = 0; c < chunks; ++c) {
    if (load[static_cast<std::size_t>(c)] == 0) continue;
    packed.clear();
    for (std::int64_t i = 0, at = 0; i < n; at += sizes[i++] / 4)
      if (chunk_of[static_cast<std::size_t>(i)] == c) packed.insert(packed.end(), deltas.data() + at, deltas.data() + at + sizes[i] / 4);
    communicator.all_reduce(packed.data(), packed.data(), static_cast<std::int64_t>(packed.size()), Dtype::f32, Reduce::sum);
    const float* next = packed.data();
    for (std::int64_t i = 0, at = 0; i < n; at += sizes[i++] / 4)
      if (chunk_of[static_cast<std::size_t>(i)] == c)
        for (std::int64_t k = 0; k < sizes[i] / 4; ++k) averaged[at + k] = *next++ * share;
  }
  return std::nullopt;
}

}  // namespace faibench::diloco_comm_chunk_balance
