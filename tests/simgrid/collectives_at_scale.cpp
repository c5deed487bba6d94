// The multi-rank forms of all tasks on simulated ranks: the same communicator, executor, schedules and task code, on SimGrid's MPI. All ranks are one process and share its globals
// (run with --no-privatize), so one of them makes the whole input, and the task's own gate sees the outputs of every rank without a message.
//   collectives_at_scale RANKS_PER_NODE BYTES|WORKLOAD TASK...
// Prints a line a task: ranks, bytes, simulated seconds of the slowest rank. Exit code 1 where a gate failed.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "communicator/mpi_communicator.h"
#include "task/task.h"
#include "tensor/error.h"
#include "tensor/random.h"

namespace faibench {
namespace {

/// Of the task under way, written between barriers.
struct Shared {
  TensorMap whole;
  std::int64_t bytes = 0;
  std::map<std::string, std::int64_t> room;  // scalars of every shard
  std::vector<TensorMap> outputs;
  std::vector<double> seconds;
  std::vector<std::string> refused;
  bool failed = false;
};
Shared shared;

/// Rooms that a rank's shard asks for, and the output that each is for. They are given as large as the result: with room for all records of all ranks, which nobody fills, 1,024 ranks in one process
/// would take tens of GB.
constexpr std::pair<const char*, const char*> rooms[] = {{"bytes_room", "out_names"}, {"records_room", "total"}};

/// `size`: S in bytes, or the name of a workload.
void prepare(const Task& task, int ranks, const std::string& size) {
  Random random(1);
  shared.room.clear();
  const auto workload = std::ranges::find(task.multi_rank->workloads, size, &MultiRank::RankWorkload::name);
  if (workload != task.multi_rank->workloads.end()) {
    shared.whole = workload->inputs(random, ranks);
    for (const auto& [input, output] : rooms) {
      const bool asked = std::ranges::any_of(task.multi_rank->contract.inputs(), [&](const TensorSpec& spec) { return spec.name == input; });
      if (asked) shared.room[input] = expected_outputs(task, refs(shared.whole)).at(output).size();
    }
  } else {
    shared.whole = task.multi_rank->scaling->inputs(random, ranks, std::atoll(size.c_str()));
  }
  shared.bytes = task.multi_rank->scaling->size_of(shared.whole, ranks);
  shared.outputs.clear();
  shared.outputs.resize(static_cast<std::size_t>(ranks));
  shared.seconds.assign(static_cast<std::size_t>(ranks), 0);
  shared.refused.assign(static_cast<std::size_t>(ranks), "");
}

/// Poisoned, so that what nobody writes is seen.
void poison(TensorMap& outputs) {
  for (auto& [name, tensor] : outputs)
    for (std::byte& byte : std::span(static_cast<std::byte*>(tensor.data()), static_cast<std::size_t>(tensor.bytes()))) byte = std::byte{0xA5};
}

/// Outputs whose length the call itself tells, to that length.
void cut(const Contract& contract, const TensorRefMap& inputs, const Dims& lengths, TensorMap& outputs) {
  Dims dims;
  (void)contract.check_general(inputs, dims);
  for (const auto& form : contract.output_shapes(inputs, dims)) {
    const auto length = form.length.empty() ? std::nullopt : lengths.find(form.length);
    if (!length) continue;
    TensorRef shorter = outputs.at(form.name).ref();
    shorter.shape[0] = std::clamp<std::int64_t>(*length, 0, shorter.shape[0]);
    outputs.at(form.name) = Tensor::copy_of(shorter);
  }
}

void call(const Task& task, const MultiRank::RankVariant& variant, Communicator& communicator) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  TensorMap shard = task.multi_rank->shard(shared.whole, communicator.rank(), communicator.size());
  for (const auto& [name, size] : shared.room)
    if (shard.find(name)) shard.at(name) = Tensor::scalar(size);
  const TensorRefMap inputs = refs(shard);
  TensorMap outputs = allocate_outputs(task.multi_rank->contract, inputs);
  poison(outputs);
  TensorRefMap room = refs(outputs);
  MultiRank::Call call{communicator, Arguments{inputs, room, {}}};
  communicator.barrier();
  const double start = MPI_Wtime();
  try {
    if (const Rejected rejected = variant.run(call)) shared.refused[rank] = rejected->code + ": " + rejected->message;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: rank %zu: %s\n", task.name.c_str(), rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  shared.seconds[rank] = MPI_Wtime() - start;
  cut(task.multi_rank->contract, inputs, call.arguments.lengths, outputs);
  shared.outputs[rank] = std::move(outputs);
  communicator.barrier();
}

void judge(const Task& task, const MultiRank::RankVariant& variant, int ranks, double real_seconds) {
  const double slowest = *std::max_element(shared.seconds.begin(), shared.seconds.end());
  std::string wrong;
  for (int rank = 0; rank < ranks && wrong.empty(); ++rank)
    if (!shared.refused[static_cast<std::size_t>(rank)].empty()) wrong = "rank " + std::to_string(rank) + " rejected: " + shared.refused[static_cast<std::size_t>(rank)];
  if (wrong.empty())
    if (const GateResult bad = task.multi_rank->gate(refs(shared.whole), shared.outputs)) wrong = to_string(*bad);
  if (wrong.empty() && !(slowest > 0)) wrong = "took no simulated time";
  shared.failed = shared.failed || !wrong.empty();
  std::printf("%s %s ranks %d bytes %lld simulated_seconds %.9f real_seconds %.1f %s\n", task.name.c_str(), variant.name.c_str(), ranks, static_cast<long long>(shared.bytes), slowest, real_seconds,
              wrong.empty() ? "right" : wrong.c_str());
  std::fflush(stdout);
}

int run(int ranks_per_node, const std::string& size, const std::vector<std::string>& names) {
  const auto communicator = mpi_world({.shared_memory = false, .peer_reads = false, .ranks_per_node = ranks_per_node});
  for (const std::string& name : names) {
    const Task* task = find_task(name);
    if (!task || !task->multi_rank || !task->multi_rank->scaling) {
      if (communicator->rank() == 0) std::fprintf(stderr, "%s: no task with a multi-rank form and sizes to scale\n", name.c_str());
      return 2;
    }
    for (const MultiRank::RankVariant& variant : task->multi_rank->variants) {
      if (variant.name != "mpi") continue;
      const auto begin = std::chrono::steady_clock::now();
      if (communicator->rank() == 0) prepare(*task, communicator->size(), size);
      communicator->barrier();
      call(*task, variant, *communicator);
      if (communicator->rank() == 0) judge(*task, variant, communicator->size(), std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      communicator->barrier();
    }
  }
  return shared.failed ? 1 : 0;
}

}  // namespace
}  // namespace faibench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 4) {
    std::fprintf(stderr, "collectives_at_scale RANKS_PER_NODE BYTES|WORKLOAD TASK...\n");
    return 2;
  }
  const int status = faibench::run(std::atoi(argv[1]), argv[2], {argv + 3, argv + argc});
  MPI_Finalize();
  return status;
}
