// Rank 0's second job: who does what next, what came of it, when to stop. Knows no MPI: messages go in and come out.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/ledger.h"
#include "cluster/message.h"
#include "cluster/plan.h"
#include "cluster/progress.h"
#include "cluster/schedule.h"
#include "cluster/topology.h"
#include "judge/job.h"

namespace faibench {

/// What every item shares.
struct CoordinatorSettings {
  std::uint64_t seed = 1;
  double budget_seconds = 10;
  double call_limit_seconds = 0;
  std::int64_t memory_limit_bytes = 0;
  double gang_limit_seconds = 0;
  bool gate_only = false, fail_fast = false;
};

/// The verdict on an item that nobody could judge: `reason` "judge" or "rank".
Record lost_record(const PlanItem& plan, std::uint64_t seed, std::string reason, std::string detail);

class Coordinator {
 public:
  /// `items`: only those still to be judged; `already`: how many were found judged. `clock` gives seconds; the ledger and progress must outlive it.
  Coordinator(CoordinatorSettings settings, std::vector<PlanItem> items, std::int64_t already, Layout layout, Ledger& ledger, Progress& progress, std::function<double()> clock);

  /// Calibrates each node (its first rank does), or hands out work at once where nothing will be timed.
  void start();
  /// A message from a rank, rank 0's own among them. Throws Error(io) when a verdict cannot be written.
  void receive(int from, const RankMessage& message);
  /// From time to time: folds the journal, shows progress. Throws like receive().
  void tick();
  /// Hands out nothing more and lets every rank kill what it runs. The first reason stands.
  void stop(const std::string& why);
  /// The same because of an error of some rank or of the coordinator; the first one stands.
  void fail(const Error& error);

  /// What is to be sent since the last call: receiver and message.
  std::vector<std::pair<int, RankMessage>> take_outbox() { return std::exchange(outbox_, {}); }
  /// Every rank said goodbye.
  [[nodiscard]] bool finished() const { return ranks_left_ == 0; }
  /// Ranks were told to leave.
  [[nodiscard]] bool leaving() const { return leaving_; }
  [[nodiscard]] const std::string& stopped_by() const { return stopped_by_; }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  /// The signal that a rank reported first, 0 if none.
  [[nodiscard]] int signal() const { return signal_; }
  [[nodiscard]] std::int64_t judged() const { return done_; }
  [[nodiscard]] std::int64_t total() const { return static_cast<std::int64_t>(items_.size()) + already_; }
  /// "task/variant" of what has no verdict yet.
  [[nodiscard]] std::vector<std::string> unfinished() const;

 private:
  struct RankState {
    int item = -1;          ///< in hand; see nothing, calibration
    bool gone = false;
    double since = 0;
  };
  static constexpr int nothing = -1, calibration = -2;

  void send(int to, RankMessage::Type type, int item = -1, std::string text = {});
  void calibrate(int node);
  void node_is_ready(int node);
  void hand_out();
  void start_next_gang();
  void dismiss(RankMessage::Type how);
  JudgeJob job_for(int rank, const PlanItem& item) const;
  void take_peaks(int from, const std::string& text);
  void take_verdict(int from, int item, const std::string& text);
  void take_failure(int from, int item, const std::string& why);
  void record_verdict(int item, Record record);
  void complete(int item, Record& record) const;
  Progress::Standing standing() const;
  [[nodiscard]] int node_of(int rank) const { return layout_.places[static_cast<std::size_t>(rank)].node; }
  RankState& rank_state(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  CoordinatorSettings settings_;
  std::vector<PlanItem> items_;   ///< the solo ones first
  std::size_t solo_count_ = 0;
  std::int64_t already_ = 0;
  Layout layout_;
  Ledger& ledger_;
  Progress& progress_;
  std::function<double()> clock_;

  WorkSchedule schedule_;         ///< of the solo items
  std::vector<RankState> ranks_;
  std::vector<std::pair<int, RankMessage>> outbox_;
  std::vector<MachinePeaks> peaks_;      ///< by the node's first rank
  std::vector<int> calibrations_;        ///< tries, by the node's first rank
  std::vector<int> failures_;            ///< judges that died, by item
  std::vector<bool> judged_;             ///< by item
  std::size_t next_gang_;
  int gang_members_left_ = 0;
  std::int64_t done_ = 0;
  int ranks_left_ = 0;
  bool leaving_ = false;
  double expected_done_ = 0, seconds_done_ = 0;  ///< of the solo items with a verdict: how far off the expectations are
  std::string stopped_by_;
  std::optional<Error> error_;
  int signal_ = 0;
};

}  // namespace faibench
