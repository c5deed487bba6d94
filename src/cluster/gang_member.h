// One rank's part in a gang: its shard, one call, and what the members agree on.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "communicator/communicator.h"
#include "task/task.h"

namespace faibench {

/// All methods are collective unless said otherwise: every member makes the same calls in the same order, so that none ever waits alone.
class GangMember {
 public:
  GangMember(Communicator& communicator, const Task& task) : communicator_(communicator), task_(task), form_(*task.multi_rank) {}

  [[nodiscard]] bool leads() const { return communicator_.rank() == 0; }
  [[nodiscard]] int rank() const { return communicator_.rank(); }
  [[nodiscard]] int size() const { return communicator_.size(); }

  /// The whole input: the same on every member. Not collective.
  [[nodiscard]] TensorMap whole(const MultiRank::RankWorkload& workload, std::uint64_t seed, std::uint64_t repetition) const;
  /// This member's part of it. Not collective.
  [[nodiscard]] TensorMap shard(const TensorMap& whole) const { return form_.shard(whole, rank(), size()); }

  struct Call {
    double seconds = 0;       ///< this member's own
    Rejected rejected;
    TensorMap outputs;
    bool untouched = true;    ///< outputs are as they were before the call
    bool input_changed = false;
  };
  /// Poisons outputs, waits for all, runs the variant. General codes and the runner's rules come first; where any member finds one, nobody runs.
  Call call(const MultiRank::RankVariant& variant, const TensorMap& shard);

  /// What is wrong with a call on valid input, on the leader; members learn only that. `whole` is read on the leader alone.
  std::optional<std::string> judge(const TensorMap& whole, const Call& call);
  /// Whether any member says so.
  bool any(bool here) { return highest(here ? 1 : 0) > 0; }
  /// The leader's value, on every member.
  std::int64_t from_leader(std::int64_t value);
  /// Element-wise maximum over the members.
  std::vector<double> slowest(std::vector<double> seconds);
  /// The lowest rank whose `here` is true; none: -1.
  int first_that(bool here);
  /// Rows of equal length, one a member, on the leader (empty elsewhere).
  std::vector<std::vector<double>> gather(const std::vector<double>& row);

 private:
  std::int64_t highest(std::int64_t value);
  std::vector<TensorMap> gather_outputs(const TensorMap& own);

  Communicator& communicator_;
  const Task& task_;
  const MultiRank& form_;
};

}  // namespace faibench
