// One rank's part in a gang: its shard, one call, and what the members agree on.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/shared_tensors.h"
#include "communicator/communicator.h"
#include "task/task.h"

namespace faibench {

/// Collective. What a variant on NCCL is called with: the same ranks in the same order, a GPU for each. Null for other variants (`why_not` empty), and where there is none, with the reason.
std::unique_ptr<Communicator> transport_of(const MultiRank::RankVariant& variant, Communicator& communicator, std::string& why_not);
/// Of all bytes, in order: equal where nothing was changed.
std::uint64_t hash_of(const TensorRefMap& tensors);

/// All methods are collective unless said otherwise: every member makes the same calls in the same order, so that none ever waits alone.
class GangMember {
 public:
  /// `transport` is what variants on NCCL are called with: the same ranks in the same order; null where none is.
  GangMember(Communicator& communicator, Communicator* transport, const Task& task) : communicator_(communicator), transport_(transport), task_(task), form_(*task.multi_rank) {}

  [[nodiscard]] bool leads() const { return communicator_.rank() == 0; }
  [[nodiscard]] int rank() const { return communicator_.rank(); }
  [[nodiscard]] int size() const { return communicator_.size(); }

  /// The whole input: the same on every member. Not collective.
  [[nodiscard]] TensorMap whole(const MultiRank::RankWorkload& workload, std::uint64_t seed, std::uint64_t repetition) const;
  /// This member's part of it. Not collective.
  [[nodiscard]] TensorMap shard(const TensorMap& whole) const { return form_.shard(whole, rank(), size()); }
  struct Input { TensorMap whole, shard; };
  /// The whole, on the leader alone, and this member's part of it. Not collective.
  [[nodiscard]] Input input(const MultiRank::RankWorkload& workload, std::uint64_t seed, std::uint64_t repetition) const;

  struct Call {
    double seconds = 0;       ///< this member's own
    Rejected rejected;
    TensorMap outputs;
    bool untouched = true;    ///< outputs are as they were before the call
    bool input_changed = false;
  };
  /// Poisons outputs, waits for all, runs the variant. General codes and the runner's rules come first; where any member finds one, nobody runs and all report the lowest rank's.
  /// A registered variant works on copies in shared memory, made before and fetched after what is timed; throws NotShared where there is none.
  Call call(const MultiRank::RankVariant& variant, const TensorMap& shard);
  /// The variant's own report of one more call on valid input; empty where it has none. The leader's line.
  std::string report(const MultiRank::RankVariant& variant, const TensorMap& shard);

  /// What is wrong with a call on valid input, the same line on every member: rejections, changed inputs, outputs that the form wants identical and are not, the gate.
  /// `whole` is read on the leader alone.
  std::optional<std::string> judge(const TensorMap& whole, const Call& call);
  /// Whether any member says so.
  bool any(bool here) { return highest(here ? 1 : 0) > 0; }
  /// The leader's value, on every member.
  std::int64_t from_leader(std::int64_t value);
  /// Element-wise maximum over the members.
  std::vector<double> slowest(std::vector<double> seconds);
  /// `root`'s text, on every member.
  std::string text_of(int root, std::string text);
  /// The lowest rank whose `here` is true; none: -1.
  int first_that(bool here);
  /// Rows of equal length, one a member, on the leader (empty elsewhere).
  std::vector<std::vector<double>> gather(const std::vector<double>& row);

 private:
  std::int64_t highest(std::int64_t value);
  std::optional<std::string> differing_output(const TensorMap& outputs);
  std::vector<TensorMap> gather_outputs(const TensorMap& own);

  Communicator& communicator_;
  Communicator* transport_;
  SharedTensors shared_;  // of registered variants
  const Task& task_;
  const MultiRank& form_;
};

}  // namespace faibench
