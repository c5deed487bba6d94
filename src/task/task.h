// A task: its contract, how inputs are made, what is right, what is measured, and the variants that compete.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "task/contract.h"
#include "task/gate.h"
#include "task/kernel.h"
#include "tensor/random.h"

namespace faibench {

class Communicator;
class NodeMap;
class Schedule;
struct LowerBound;

/// Makes one input set from random numbers; nothing else may enter, so that every rank makes the same.
using Generator = std::function<TensorMap(Random&)>;

/// A named size. `parts`: input sets that one timed call runs through one after another; its time is their sum.
struct Workload {
  std::string name;                ///< "smoke", "standard", "gpu", or the task's own ("large")
  std::string description;         ///< sizes and distribution, as the contract words them
  std::vector<Generator> parts;
  double baseline_seconds = 0.001; ///< rough time of the baseline on one core: orders the schedule before anything was measured
  std::vector<Generator> also_gated = {};  ///< other fills of the same shape: gated before the timed blocks, never timed
};

/// A fixed case of the gate: an edge shape, an adversarial value or an invalid input (the contract says what must come of it).
struct Case {
  std::string name;
  std::string note;
  Generator inputs;
};

struct Variant {
  std::string name;  ///< "reference", "baseline", "cpu", ... "peer:openblas"
  Kernel kernel;
  std::string idea;  ///< one line: what makes it fast
  Kernel decoder = {};  ///< for tasks with a Stream: its receiver; empty: Stream::decoder
  bool on_device = false;  ///< runs on a GPU, or emulated; its kernel is bound in the task's device.cpp (device_variants.h), `kernel` is empty
  std::vector<std::string> on_host = {};  ///< of a device variant: inputs that lie in page-locked host memory besides scalar ones; all other tensors are in device memory
};

/// A variant on a GPU: "cuda_baseline", "cuda", "peer:cublas". The task's device.cpp binds its kernel.
inline Variant on_device(std::string name, std::string idea, std::vector<std::string> on_host = {}) {
  return {std::move(name), {}, std::move(idea), {}, true, std::move(on_host)};
}

/// What a call at least costs: bytes through memory (read + written) and arithmetic operations.
struct Floor {
  double bytes = 0;
  double operations = 0;
};

/// speedup of a block = (baseline seconds / candidate seconds, unless time does not count) * (objective of baseline / of candidate)^exponent.
struct Metric {
  std::string text = "time";
  bool counts_time = true;
  /// Lower is better; recomputed by the judge from the output alone. Empty: time only.
  std::function<double(const TensorRefMap& inputs, const TensorRefMap& outputs)> objective = {};
  double exponent = 1;
};

/// The form of a task in which every rank holds a shard: runs in the ranks themselves.
struct MultiRank {
  struct Call {
    Communicator& communicator;
    Arguments arguments;  ///< this rank's shard, and room for its outputs
  };
  struct RankVariant {
    std::string name;  ///< "mpi_baseline" (the straightforward form, timed against), "mpi", "mpi_registered", "peer:mpi" (the library's own, never scored), "nccl"
    std::function<Rejected(Call&)> run;
    std::string idea;
    bool registered = false;  ///< inputs and outputs lie in memory shared between the ranks of a node (Communicator::peer_address works on them)
    bool on_nccl = false;     ///< runs on the NCCL transport; skipped where there is no GPU for every rank
    /// One more call on a workload, after the timed ones, that measures what the contract wants reported and no gate reads. Collective; rank 0's line goes into the record's note.
    std::function<std::string(Call&)> report = {};
  };
  /// Contract of one rank's shard: its tensors and rejections.
  Contract contract;
  std::vector<RankVariant> variants;  ///< the first is the baseline
  /// The whole input of a call on `ranks` ranks: what `shard` cuts up and `gate` checks against, often the one-process form.
  struct RankWorkload {
    std::string name;
    std::string description;
    std::function<TensorMap(Random&, int ranks)> inputs;
    /// What `shard` cuts from `inputs` for that rank, made without the rest, from an equal generator; equal in every bit. Empty: every rank makes the whole.
    std::function<TensorMap(Random&, int rank, int ranks)> own = {};
  };
  std::vector<RankWorkload> workloads;
  /// A fixed case of the gate, for any number of ranks: an edge shape or uneven shards; with `damage`, an invalid shard on one rank or a disagreement between ranks.
  struct RankCase {
    std::string name;
    std::string note;
    std::function<TensorMap(Random&, int ranks)> inputs;
    /// Changes the shard of `rank` (called on every rank with its own, with equal random numbers). Empty: valid input.
    std::function<void(Random&, TensorMap& shard, int rank, int ranks)> damage = {};
    /// With damage: the code that all ranks must report, given their number; empty text: valid there after all (a disagreement needs two ranks).
    std::function<std::string(int ranks)> code = {};
  };
  std::vector<RankCase> cases;
  /// Whether outputs named here must be equal in every bit on all ranks: compared by hash before the gate.
  std::vector<std::string> identical;
  /// What `faibench scale` sweeps. S: the bytes that bandwidth is counted from.
  struct Scaling {
    std::vector<std::int64_t> sizes;   ///< default S in bytes, odd ones and fewer elements than ranks among them
    /// The whole input whose S is the nearest possible to `bytes`; and the S it came to.
    std::function<TensorMap(Random&, int ranks, std::int64_t bytes)> inputs;
    std::function<std::int64_t(const TensorMap& whole, int ranks)> size_of;
    std::string size_text;             ///< what S is, in words
    std::string bus_formula;           ///< "2(P-1)/P", stored beside the figure
    std::function<double(int ranks)> bus_factor;
    /// The schedule that `mpi` follows for such an S on such nodes, for bytes on the wire and forecasts up to 65,536 ranks. Makes no input.
    std::function<std::shared_ptr<const Schedule>(std::int64_t bytes, const NodeMap& nodes)> schedule;
    /// Rounds and bytes that any algorithm needs.
    std::function<LowerBound(std::int64_t bytes, int ranks)> bound;
  };
  std::optional<Scaling> scaling;
  std::function<TensorMap(const TensorMap& whole, int rank, int ranks)> shard;
  /// Outputs of all ranks, by rank, against the whole input.
  std::function<GateResult(const TensorRefMap& whole, const std::vector<TensorMap>& outputs_by_rank)> gate;
  std::function<Floor(const TensorMap& whole, int ranks)> wire_floor;  ///< bytes that one rank must send
};

/// A judgement over many calls, where what one call returns goes into the next: the harness carries it, and a second process, started before the first call, makes of what
/// was sent what the sender says a receiver makes of it. Takes the place of the timed blocks.
struct Stream {
  /// How a stream reaches sender and receiver. False: one of them failed, and the stream ends. Outputs are good until the next call of the same one.
  class Calls {
   public:
    virtual ~Calls() = default;
    virtual bool send(const TensorRefMap& inputs, TensorRefMap& outputs) = 0;
    virtual bool receive(const TensorRefMap& inputs, TensorRefMap& outputs) = 0;
  };
  struct Result {
    GateResult mismatch;       ///< what the stream found wrong
    double ratio = 0;          ///< the metric, higher is better
    std::int64_t steps = 0;
    std::string figures;       ///< one line for the record
  };
  std::string text;            ///< the gate over many steps, as the contract words it
  Contract receiver;           ///< all that a receiver gets, and what it gives
  Kernel decoder;              ///< of variants, and submissions, that bring none
  std::function<Result(const std::string& workload, std::uint64_t seed, Calls& calls)> drive;
};

/// How much memory a call may hold at one time besides its inputs and outputs; counted by the judge, part of the gate.
struct MemoryGate {
  /// Bytes, for these valid inputs: of the host, and of a device where the variant runs on one.
  std::function<std::int64_t(const TensorRefMap& inputs)> host_limit, device_limit;
  struct Call {
    std::string name;
    Generator inputs;
  };
  /// Made in this order by one process that called nothing before: what one of them keeps counts for those after it.
  std::vector<Call> calls;
  std::vector<std::string> exempt = {"reference", "baseline", "cuda_baseline"};
};

struct Task {
  std::string name;
  std::string group;
  std::string summary;       ///< one line
  std::string semantics;     ///< what it computes, short, for `show`
  Contract contract;
  std::vector<Variant> variants;
  std::vector<Workload> workloads;
  std::vector<Case> cases;
  Generator random_case;     ///< a small valid input of random shape
  Gate gate;
  /// The right outputs, in f64 where rounding matters. Empty: the `reference` variant's.
  std::function<TensorMap(const TensorRefMap& inputs)> expected;
  Metric metric;
  std::function<Floor(const TensorRefMap& inputs)> floor;
  std::string floor_text;    ///< the formula of `floor`
  std::optional<MultiRank> multi_rank;
  std::optional<Stream> stream;
  std::optional<MemoryGate> memory;

  /// Null when there is none of that name.
  [[nodiscard]] const Variant* find_variant(std::string_view name) const;
  [[nodiscard]] const Workload* find_workload(std::string_view name) const;
};

/// Output tensors as the contract allocates them for generally valid inputs; in-place tensors are copied from the inputs.
TensorMap allocate_outputs(const Contract& contract, const TensorRefMap& inputs);

/// One direct call in this process: general codes, the runner's rules, the kernel; data-dependent outputs are cut to their true length.
/// `outputs` holds what allocate_outputs gave. The path of the reference, of tests, and inside the candidate process.
Rejected call_kernel(const Contract& contract, const Kernel& kernel, const TensorRefMap& inputs, TensorRefMap& outputs);

/// The same with fresh outputs; throws Error(internal) on a rejection.
TensorMap run_kernel(const Contract& contract, const Kernel& kernel, const TensorRefMap& inputs);

/// The right outputs for valid inputs: Task::expected or the reference variant's.
TensorMap expected_outputs(const Task& task, const TensorRefMap& inputs);

/// Each task folder defines one function here, named like the folder.
namespace tasks {}

/// All tasks of this build, in the order of their folders. The list is generated from the folders under kernels/ and collectives/.
std::span<const Task* const> all_tasks();
/// Null when there is none of that name.
const Task* find_task(std::string_view name);

}  // namespace faibench
