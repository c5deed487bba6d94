// What every rank does between start and end: hear, judge, tell; rank 0 coordinates besides.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "cluster/coordinator.h"
#include "cluster/launch.h"
#include "cluster/mailbox.h"
#include "cluster/rank_worker.h"
#include "cluster/watchdog.h"

namespace faibench {

/// Returns when this rank was told to leave (on rank 0: when all have left). Errors of any rank end in Coordinator::error(); ranks that rank 0
/// cannot reach, or that cannot reach it, are ended by MPI_Abort within ten seconds.
class RankLoop {
 public:
  /// `coordinator` on rank 0, null elsewhere. `watchdog` hears of every turn.
  RankLoop(const MpiSession& session, std::string host, Coordinator* coordinator, StartJudge start, Watchdog& watchdog);
  void run();
  /// What stopped this rank, 0 if no signal did.
  [[nodiscard]] int signal() const { return signal_; }

 private:
  bool hear();
  void obey(const RankMessage& order);
  void join_gang(const RankMessage& order);
  void notice_signal();
  void give_up(const Error& error);
  void flush_coordinator();
  void check_patience() const;
  void rest(bool busy);
  void stamp_turn();
  template <class Work>
  void coordinate(Work&& work);

  const MpiSession& session_;
  Mailbox mailbox_;
  RankWorker worker_;
  Coordinator* coordinator_;
  Watchdog& watchdog_;
  bool leaving_ = false;
  int signal_ = 0;
  std::optional<Error> fatal_;   ///< of this rank, told to rank 0
  std::optional<double> since_;  ///< when the end began for this rank: it must not take long
  double last_event_ = 0;
};

}  // namespace faibench
