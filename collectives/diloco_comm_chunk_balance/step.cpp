#include "collectives/diloco_comm_chunk_balance/step.h"

#include <algorithm>
#include <bit>

#include "collectives/diloco_comm_chunk_balance/diloco_comm_chunk_balance.h"
#include "collectives/diloco_comm_chunk_balance/ranks.h"
#include "communicator/communicator.h"

namespace faibench::diloco_comm_chunk_balance {

std::shared_ptr<const Schedule> chunk_schedule(std::int64_t elements, const NodeMap& nodes) {
  // What passes while a round is waited for, and while one more message is handled: bytes that are sent or added.
  constexpr double round = 26 << 10, message = 6 << 10;
  const double P = nodes.ranks(), n = 4.0 * static_cast<double>(elements), steps = static_cast<double>(std::bit_width(static_cast<unsigned>(nodes.ranks() - 1)));
  const double one_shot = round + (P - 1) * (message + 2 * n);
  const double two_shot = 2 * round + (P - 1) * (2 * message + 3 * n / P);
  const double halving = 2 * steps * round + (steps + 2) * n;  // of it, half as much packed as sent
  const AllReduce algorithm = one_shot <= std::min(two_shot, halving) ? AllReduce::one_shot : two_shot <= halving ? AllReduce::two_shot : AllReduce::raw_halving;
  return all_reduce_schedule(algorithm, elements, nodes, sizeof(float), sizeof(float));
}

std::variant<Plan, Rejection> agreed_plan(MultiRank::Call& call) {
  const auto sizes = call.arguments.inputs.at("sizes").view<const std::int64_t, 1>();
  const auto chunks = call.arguments.inputs.at("chunks").scalar<std::int32_t>();
  Plan plan{std::vector<std::int32_t>(static_cast<std::size_t>(sizes.extent(0))), std::vector<std::int64_t>(static_cast<std::size_t>(chunks))};
  cpu::balance(sizes, chunks, {plan.chunk_of.data(), {sizes.extent(0)}}, {plan.load.data(), {chunks}});

  std::uint64_t hash = static_cast<std::uint64_t>(chunks) * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(sizes.extent(0));
  for (std::int64_t i = 0; i < sizes.extent(0); ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(sizes[i])) * 0xd6e8feb86659fd93u;
    hash = (hash ^ (hash >> 32) ^ static_cast<std::uint64_t>(plan.chunk_of[static_cast<std::size_t>(i)])) * 0xd6e8feb86659fd93u;
  }
  const auto own = static_cast<std::int64_t>(hash >> 1);  // so that it can be negated
  std::int64_t values[2] = {own, -own};
  call.communicator.all_reduce(values, values, 2, Dtype::i64, Reduce::max);
  if (values[0] == -values[1]) return plan;
  return reject("rank_mismatch", "sizes", -1, "not the same on all ranks", "sizes, chunks or plans differ between ranks");
}

std::vector<Step::Segment> Step::segments_of(View<const std::int64_t, 1> sizes, const Plan& plan, std::int64_t longest) {
  std::vector<std::vector<Run>> members(plan.load.size());
  for (std::int64_t i = 0, at = 0; i < sizes.extent(0); at += sizes[i++] / 4)
    if (sizes[i] > 0) members[static_cast<std::size_t>(plan.chunk_of[static_cast<std::size_t>(i)])].push_back({at, sizes[i] / 4});
  std::vector<Segment> segments;
  for (std::size_t c = 0; c < members.size(); ++c) {
    if (members[c].empty()) continue;
    const Segment empty{static_cast<std::int32_t>(c), {}, 0};
    segments.push_back(empty);
    for (Run run : members[c])
      while (run.count > 0) {
        if (segments.back().count == longest) segments.push_back(empty);
        const std::int64_t count = std::min(run.count, longest - segments.back().count);
        segments.back().runs.push_back({run.at, count});
        segments.back().count += count;
        run.at += count;
        run.count -= count;
      }
  }
  return segments;
}

Step::Step(MultiRank::Call& call, const Plan& plan, std::int64_t longest)
    : segments_(segments_of(call.arguments.inputs.at("sizes").view<const std::int64_t, 1>(), plan, longest)), share_(1.0f / static_cast<float>(call.communicator.size())) {
  const float* const deltas = call.arguments.inputs.at("deltas").view<const float, 1>().data();
  float* const averaged = call.arguments.outputs.at("averaged").view<float, 1>().data();
  std::int64_t room = 0;
  for (const Segment& segment : segments_) room = std::max(room, segment.count);
  constexpr std::size_t slots = depth + 1;
  storage_ = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(room) * 2 * slots);
  for (std::size_t k = 0; k < segments_.size(); ++k) {
    const Segment& segment = segments_[k];
    float* const packed = storage_.get() + static_cast<std::size_t>(room) * 2 * (k % slots);
    float* const sums = packed + room;
    schedules_.push_back(chunk_schedule(segment.count, call.communicator.nodes()));
    BufferBases bases{};
    bases[static_cast<std::size_t>(Buffer::input)] = packed;
    bases[static_cast<std::size_t>(Buffer::output)] = sums;
    stages_.push_back({schedules_.back().get(), bases,
                       [&segment, packed, deltas] {
                         float* next = packed;
                         for (const Run& run : segment.runs) next = std::copy(deltas + run.at, deltas + run.at + run.count, next);
                       },
                       [&segment, sums, averaged] {
                         const float* next = sums;
                         for (const Run& run : segment.runs) {
                           std::copy(next, next + run.count, averaged + run.at);
                           next += run.count;
                         }
                       }});
  }
}

void Step::add(const SumCall& sum) const {
  float* const into = static_cast<float*>(sum.into);
  const float* const first = static_cast<const float*>(sum.terms[0].data);
  if (sum.into_buffer != Buffer::output && sum.terms.size() == 1) {  // a copy on the way
    std::copy(first, first + sum.count, into);
    return;
  }
  constexpr std::int64_t block = 4096;  // stays in the first cache while the terms are added one by one
  const float factor = sum.into_buffer == Buffer::output ? share_ : 1.0f;
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
}

}  // namespace faibench::diloco_comm_chunk_balance
