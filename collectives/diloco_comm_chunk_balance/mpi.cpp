// One stage a chunk, as an all-reduce in ascending rank: a chunk is packed while the messages of the one before travel, and unpacked as soon as its sums are there. How a chunk is summed
// follows from its size and the ranks: few bytes go whole to all, in one round; large ones in pieces, two rounds; in between, on many ranks, in pieces by halving, 2 log2 R rounds.
#include <algorithm>

#include "collectives/diloco_comm_chunk_balance/ranks.h"
#include "collectives/diloco_comm_chunk_balance/step.h"
#include "communicator/communicator.h"

namespace faibench::diloco_comm_chunk_balance {

Rejected run_in_segments(MultiRank::Call& call, std::int64_t longest) {
  auto plan = agreed_plan(call);
  if (Rejection* const rejection = std::get_if<Rejection>(&plan)) return std::move(*rejection);
  if (call.communicator.size() == 1) {
    const auto deltas = call.arguments.inputs.at("deltas").flat<const float>();
    std::copy(deltas.begin(), deltas.end(), call.arguments.outputs.at("averaged").flat<float>().begin());
    return std::nullopt;
  }
  const Step step(call, std::get<Plan>(plan), longest);
  execute_pipelined(step.stages(), Step::depth, call.communicator, [&](std::size_t, const SumCall& sum) { step.add(sum); });
  return std::nullopt;
}

Rejected run_mpi(MultiRank::Call& call) { return run_in_segments(call, longest_segment); }

}  // namespace faibench::diloco_comm_chunk_balance
