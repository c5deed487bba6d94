#include "cluster/rank_worker.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "launch/stamp.h"
#include "task/task.h"
#include "tensor/error.h"

namespace faibench {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class ProcessJudge final : public Judge {
 public:
  explicit ProcessJudge(const JudgeJob& job) : process_(job) {}
  std::optional<JudgeProcess::Outcome> poll() override { return process_.poll(); }
  std::string stage() const override { return process_.stage(); }
  int descriptor() const override { return process_.descriptor(); }

 private:
  JudgeProcess process_;
};

}  // namespace

StartJudge judge_processes() {
  return [](const JudgeJob& job) -> std::unique_ptr<Judge> { return std::make_unique<ProcessJudge>(job); };
}

double stage_limit_seconds(const JudgeJob& job, const std::string& stage, double hang_after_seconds) {
  const bool waits_for_slot = job.kind == JudgeJob::Kind::calibrate || stage == "waiting for a timing slot" || (job.whole_task_in_slot && stage == "starting");
  if (waits_for_slot) return 30 * hang_after_seconds + 40 * job.budget_seconds;  // held by other ranks' tasks, or by another run on this host
  const Task* task = find_task(job.task);
  const Workload* workload = task ? task->find_workload(job.workload) : nullptr;
  const double baseline = std::max(1.0, workload ? workload->baseline_seconds : 0), call = job.call_limit_seconds > 0 ? job.call_limit_seconds : std::max(30.0, 10 * baseline);
  return hang_after_seconds + (4 * call + 40 * baseline) * (job.emulate ? emulator_slowness : 1);
}

RankWorker::RankWorker(std::string host, int rank, StartJudge start) : host_(std::move(host)), rank_(rank), start_(std::move(start)), hang_after_(hang_after_from_environment()) {}

void RankWorker::stop() {
  judge_.reset();
  label_.clear();
}

void RankWorker::begin(const RankMessage& order) {
  if (judge_) throw Error(Error::Kind::internal, "rank " + std::to_string(rank_) + " was given item " + std::to_string(order.item) + " while it judges item " + std::to_string(item_));
  job_ = job_from_json(order.text);
  item_ = order.item;
  label_ = job_.kind == JudgeJob::Kind::calibrate ? "" : job_.task + "/" + job_.variant;
  shown_stage_.clear();
  start_failure_.clear();
  last_stage_.clear();
  stage_since_ = now();
  try {
    judge_ = start_(job_);
  } catch (const Error& e) {
    start_failure_ = e.what();
    label_.clear();
  }
}

std::vector<RankMessage> RankWorker::poll() {
  if (!start_failure_.empty()) return {{RankMessage::Type::judge_failed, item_, std::exchange(start_failure_, {})}};
  if (!judge_) return {};
  std::vector<RankMessage> messages;
  auto outcome = judge_->poll();
  if (std::string stage = judge_->stage(); stage != last_stage_) {
    last_stage_ = std::move(stage);
    stage_since_ = now();
  }
  if (const double limit = stage_limit_seconds(job_, last_stage_, hang_after_); !outcome && now() - stage_since_ > limit) {
    outcome = JudgeProcess::Outcome{{}, {}, "the judge hangs: longer than " + std::to_string(static_cast<int>(limit)) + " s in '" + last_stage_ + "'"};
  }
  if (!outcome) {
    if (std::string stage = judge_->stage(); stage != shown_stage_ && now() - stage_told_ > 0.5) {
      shown_stage_ = stage;
      stage_told_ = now();
      messages.push_back({RankMessage::Type::stage, item_, std::move(stage)});
    }
    return messages;
  }
  stop();
  if (outcome->record) {
    outcome->record->host = host_;
    outcome->record->rank = rank_;
    messages.push_back({RankMessage::Type::verdict, item_, to_json(*outcome->record)});
  } else if (outcome->peaks) {
    messages.push_back({RankMessage::Type::peaks, item_, to_json(*outcome->peaks)});
  } else {
    messages.push_back({RankMessage::Type::judge_failed, item_, outcome->failure});
  }
  return messages;
}

}  // namespace faibench
