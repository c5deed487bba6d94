// One stage a chunk, as a direct all-reduce in ascending rank: a chunk is packed while the messages of the one before travel, and unpacked as soon as its sums are there.
// A chunk beyond the segment's length takes several stages. Small ones go whole to all ranks: one round, not two.
#include <algorithm>
#include <memory>
#include <vector>

#include "collectives/diloco_comm_chunk_balance/diloco_comm_chunk_balance.h"
#include "collectives/diloco_comm_chunk_balance/ranks.h"
#include "communicator/communicator.h"
#include "schedule/executor.h"

namespace faibench::diloco_comm_chunk_balance {
namespace {

constexpr int depth = 2;
constexpr std::int64_t longest_segment = std::int64_t{1} << 28;  // elements: 1 GiB
constexpr std::int64_t one_shot_elements = 16384;

struct Run { std::int64_t at, count; };  // elements of `deltas` and `averaged`
struct Segment {
  std::vector<Run> runs;
  std::int64_t count = 0;
};

std::vector<Segment> segments_of(View<const std::int64_t, 1> sizes, const std::vector<std::int32_t>& chunk_of, std::int32_t chunks, std::int64_t longest) {
  std::vector<std::vector<Run>> members(static_cast<std::size_t>(chunks));
  for (std::int64_t i = 0, at = 0; i < sizes.extent(0); at += sizes[i++] / 4)
    if (sizes[i] > 0) members[static_cast<std::size_t>(chunk_of[static_cast<std::size_t>(i)])].push_back({at, sizes[i] / 4});
  std::vector<Segment> segments;
  for (const std::vector<Run>& runs : members) {
    if (runs.empty()) continue;
    segments.emplace_back();
    for (Run run : runs)
      while (run.count > 0) {
        if (segments.back().count == longest) segments.emplace_back();
        const std::int64_t count = std::min(run.count, longest - segments.back().count);
        segments.back().runs.push_back({run.at, count});
        segments.back().count += count;
        run.at += count;
        run.count -= count;
      }
  }
  return segments;
}

Rejected compare_plans(Communicator& communicator, View<const std::int64_t, 1> sizes, const std::vector<std::int32_t>& chunk_of, std::int32_t chunks) {
  std::uint64_t hash = static_cast<std::uint64_t>(chunks) * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(sizes.extent(0));
  for (std::int64_t i = 0; i < sizes.extent(0); ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(sizes[i])) * 0xd6e8feb86659fd93u;
    hash = (hash ^ (hash >> 32) ^ static_cast<std::uint64_t>(chunk_of[static_cast<std::size_t>(i)])) * 0xd6e8feb86659fd93u;
  }
  const auto own = static_cast<std::int64_t>(hash >> 1);  // so that it can be negated
  std::int64_t values[2] = {own, -own};
  communicator.all_reduce(values, values, 2, Dtype::i64, Reduce::max);
  if (values[0] == -values[1]) return std::nullopt;
  return reject("rank_mismatch", "sizes", -1, "not the same on all ranks", "sizes, chunks or plans differ between ranks");
}

}  // namespace

Rejected run_in_segments(MultiRank::Call& call, std::int64_t longest) {
  Communicator& communicator = call.communicator;
  const auto sizes = call.arguments.inputs.at("sizes").view<const std::int64_t, 1>();
  const auto chunks = call.arguments.inputs.at("chunks").scalar<std::int32_t>();
  const float* deltas = call.arguments.inputs.at("deltas").view<const float, 1>().data();
  const auto averaged = call.arguments.outputs.at("averaged").view<float, 1>();
  std::vector<std::int32_t> chunk_of(static_cast<std::size_t>(sizes.extent(0)));
  std::vector<std::int64_t> load(static_cast<std::size_t>(chunks));
  cpu::balance(sizes, chunks, {chunk_of.data(), {sizes.extent(0)}}, {load.data(), {chunks}});
  if (auto rejected = compare_plans(communicator, sizes, chunk_of, chunks)) return rejected;
  if (communicator.size() == 1) {
    std::copy(deltas, deltas + averaged.size(), averaged.data());
    return std::nullopt;
  }

  const std::vector<Segment> segments = segments_of(sizes, chunk_of, chunks, longest);
  std::int64_t room = 0;
  for (const Segment& segment : segments) room = std::max(room, segment.count);
  constexpr std::size_t slots = depth + 1;
  const auto storage = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(room) * 2 * slots);
  std::vector<std::unique_ptr<Schedule>> schedules;
  std::vector<Stage> stages;
  for (std::size_t k = 0; k < segments.size(); ++k) {
    const Segment& segment = segments[k];
    float* const packed = storage.get() + static_cast<std::size_t>(room) * 2 * (k % slots);
    float* const sums = packed + room;
    schedules.push_back(all_reduce_schedule(segment.count <= one_shot_elements ? AllReduce::one_shot : AllReduce::two_shot, segment.count, communicator.nodes(), sizeof(float), sizeof(float)));
    BufferBases bases{};
    bases[static_cast<std::size_t>(Buffer::input)] = packed;
    bases[static_cast<std::size_t>(Buffer::output)] = sums;
    stages.push_back({schedules.back().get(), bases,
                      [&segment, packed, deltas] {
                        float* next = packed;
                        for (const Run& run : segment.runs) next = std::copy(deltas + run.at, deltas + run.at + run.count, next);
                      },
                      [&segment, sums, averaged] {
                        const float* next = sums;
                        for (const Run& run : segment.runs) {
                          std::copy(next, next + run.count, averaged.data() + run.at);
                          next += run.count;
                        }
                      }});
  }
  const float share = 1.0f / static_cast<float>(communicator.size());
  execute_pipelined(stages, depth, communicator, [share](std::size_t, const SumCall& sum) {
    float* const into = static_cast<float*>(sum.into);
    const float* const first = static_cast<const float*>(sum.terms[0].data);
    constexpr std::int64_t block = 4096;  // stays in the first cache while the terms are added one by one
    const float factor = sum.into_buffer == Buffer::output ? share : 1.0f;
    for (std::int64_t start = 0; start < sum.count; start += block) {
      const std::int64_t end = std::min(sum.count, start + block);
      float total[block];
      std::copy(first + start, first + end, total);
      for (std::size_t t = 1; t < sum.terms.size(); ++t) {
        const float* const term = static_cast<const float*>(sum.terms[t].data);
        for (std::int64_t i = start; i < end; ++i) total[i - start] += term[i];
      }
      for (std::int64_t i = start; i < end; ++i) into[i] = total[i - start] * factor;
    }
  });
  return std::nullopt;
}

Rejected run_mpi(MultiRank::Call& call) { return run_in_segments(call, longest_segment); }

}  // namespace faibench::diloco_comm_chunk_balance
