// A rank's own work: one judge at a time, started on order, watched without waiting.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/message.h"
#include "judge/judge_process.h"

namespace faibench {

/// What a rank needs of a judge; JudgeProcess in the product.
class Judge {
 public:
  virtual ~Judge() = default;
  virtual std::optional<JudgeProcess::Outcome> poll() = 0;
  [[nodiscard]] virtual std::string stage() const = 0;
  [[nodiscard]] virtual int descriptor() const = 0;
};
using StartJudge = std::function<std::unique_ptr<Judge>(const JudgeJob&)>;

/// Judges in processes of their own (faibench-worker).
StartJudge judge_processes();

/// How long a judge may stay in one stage of a job before it counts as hung. It bounds its candidate's calls itself; this bounds the judge.
double stage_limit_seconds(const JudgeJob& job, const std::string& stage, double hang_after_seconds);

class RankWorker {
 public:
  /// `host` and `rank` are written into every record; `start` is called for each order.
  RankWorker(std::string host, int rank, StartJudge start);

  /// Begins the order of a `judge` or `calibrate` message. Throws Error(internal) while another one runs.
  void begin(const RankMessage& order);
  /// What there is to tell the coordinator now; never waits.
  std::vector<RankMessage> poll();
  [[nodiscard]] bool busy() const { return judge_ != nullptr; }
  [[nodiscard]] const std::string& host() const { return host_; }
  /// "task/variant" of what is judged, empty for a calibration and while nothing runs; and what its judge is doing.
  [[nodiscard]] const std::string& label() const { return label_; }
  [[nodiscard]] std::string stage() const { return judge_ ? judge_->stage() : ""; }
  /// Readable when poll() has something to say; -1 while nothing runs.
  [[nodiscard]] int descriptor() const { return judge_ ? judge_->descriptor() : -1; }
  /// Kills the judge that runs, if any.
  void stop();

 private:
  std::string host_;
  int rank_;
  StartJudge start_;
  double hang_after_;
  std::unique_ptr<Judge> judge_;
  int item_ = -1;
  JudgeJob job_;
  double stage_since_ = 0, stage_told_ = 0;
  std::string label_, last_stage_, shown_stage_, start_failure_;
};

}  // namespace faibench
