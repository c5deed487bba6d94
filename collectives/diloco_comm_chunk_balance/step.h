// One synchronisation: the chunks of a plan as stages of a pipeline.
#pragma once
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "schedule/executor.h"
#include "task/task.h"
#include "tensor/view.h"

namespace faibench::diloco_comm_chunk_balance {

/// Every rank's own plan; rank_mismatch on all ranks where plans, sizes or chunks differ. Collective.
struct Plan {
  std::vector<std::int32_t> chunk_of;
  std::vector<std::int64_t> load;
};
std::variant<Plan, Rejection> agreed_plan(MultiRank::Call& call);

/// The tensors of a chunk, in index order, packed end to end, are a stage; a chunk beyond `longest` elements takes several, an empty one none. Sums are in ascending rank, then times 1/R.
/// Keeps pointers into the call's tensors.
class Step {
 public:
  Step(MultiRank::Call& call, const Plan& plan, std::int64_t longest);
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  static constexpr int depth = 2;  ///< stages under way; `before` of stage k overwrites what stage k - depth - 1 had
  [[nodiscard]] const std::vector<Stage>& stages() const { return stages_; }
  [[nodiscard]] std::int32_t chunk_of(std::size_t stage) const { return segments_[stage].chunk; }
  /// Adds, in f32; a sum that goes to the output is finished with the factor 1/R.
  void add(const SumCall& sum) const;

 private:
  struct Run { std::int64_t at, count; };  // elements of `deltas` and `averaged`
  struct Segment {
    std::int32_t chunk;
    std::vector<Run> runs;
    std::int64_t count = 0;
  };
  static std::vector<Segment> segments_of(View<const std::int64_t, 1> sizes, const Plan& plan, std::int64_t longest);

  std::vector<Segment> segments_;
  std::unique_ptr<float[]> storage_;
  std::vector<std::shared_ptr<const Schedule>> schedules_;
  std::vector<Stage> stages_;
  float share_;
};

}  // namespace faibench::diloco_comm_chunk_balance
