// The first ranks of a launch as a group of its own: communicator, clock, and what messages cost in it.
#pragma once
#include <mpi.h>

#include <map>
#include <memory>
#include <string>

#include "communicator/communicator.h"
#include "scale/clock.h"
#include "schedule/cost.h"
#include "task/task.h"

namespace faibench::scale {

class RankGroup {
 public:
  /// Collective over the world: the first `n` ranks; on the others `communicator` stays null. `cores`: of a node.
  RankGroup(int n, int rank, int cores);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;
  [[nodiscard]] MPI_Comm raw() const { return raw_; }
  /// Collective over the group. What a variant on NCCL runs on, made once; null for other variants (`why_not` empty), and where there is none, with the reason.
  Communicator* transport(const MultiRank::RankVariant& variant, std::string& why_not);

  std::unique_ptr<Communicator> communicator;
  GlobalClock clock;
  CostModel links;
  double clock_error = 0;  ///< the largest of its ranks'
  bool oversubscribed = false;

 private:
  MPI_Comm raw_ = MPI_COMM_NULL;
  std::unique_ptr<Communicator> nccl_;
  std::string why_no_nccl_;
  bool nccl_tried_ = false;
};

}  // namespace faibench::scale
