// One rank's part of a cell: its shard of the input, room for its outputs, the call that is timed, and its check.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "cluster/gang_member.h"
#include "communicator/communicator.h"
#include "schedule/executor.h"
#include "task/task.h"

namespace faibench::scale {

/// Inputs and outputs in memory shared by the node where the variant wants that, on NCCL where it runs there.
class Shard {
 public:
  /// Collective. `transport`: as GangMember's.
  Shard(Communicator& communicator, Communicator* transport, const Task& task, const MultiRank::RankVariant& variant, TensorMap inputs);

  /// Why the variant cannot run here; empty: it can. The same on every rank.
  [[nodiscard]] const std::string& refused() const { return refused_; }
  /// An output is an input too: it must be made anew before each call.
  [[nodiscard]] bool in_place() const { return in_place_; }
  void poison_outputs();
  /// What is timed.
  void call();
  /// Collective. Poisoned outputs, one call, the task's gate over all ranks; inputs must be what they were when the shard was made. The same word on every rank.
  std::optional<std::string> check(const TensorMap& whole);
  /// Bytes that this rank sent in the last check's call, by the executor's count.
  [[nodiscard]] const std::int64_t* sent() const { return sent_; }

 private:
  Communicator& communicator_;
  Communicator* transport_;
  const MultiRank& form_;
  const MultiRank::RankVariant& variant_;
  GangMember member_;
  TensorMap inputs_, outputs_;
  TensorRefMap input_refs_, output_refs_;
  SharedTensors shared_;
  std::uint64_t inputs_before_ = 0;
  std::string refused_;
  bool in_place_ = false;
  Rejected rejected_;
  Dims lengths_;
  std::int64_t sent_[2] = {0, 0};
};

}  // namespace faibench::scale
