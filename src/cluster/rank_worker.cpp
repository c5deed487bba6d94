#include "cluster/rank_worker.h"

#include <chrono>
#include <utility>

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

void RankWorker::begin(const Message& order) {
  if (judge_) throw Error(Error::Kind::internal, "rank " + std::to_string(rank_) + " was given item " + std::to_string(order.item) + " while it judges item " + std::to_string(item_));
  const JudgeJob job = job_from_json(order.text);
  item_ = order.item;
  shown_stage_.clear();
  start_failure_.clear();
  started_ = now();
  // The judge bounds its candidate; this bounds the judge, which may also wait for a slot held by another run on this host.
  limit_seconds_ = 1800 + 40 * job.budget_seconds;
  try {
    judge_ = start_(job);
  } catch (const Error& e) {
    start_failure_ = e.what();
  }
}

std::vector<Message> RankWorker::poll() {
  if (!start_failure_.empty()) return {{Message::Type::judge_failed, item_, std::exchange(start_failure_, {})}};
  if (!judge_) return {};
  std::vector<Message> messages;
  auto outcome = judge_->poll();
  if (!outcome && now() - started_ > limit_seconds_) outcome = JudgeProcess::Outcome{{}, {}, "the judge took longer than " + std::to_string(static_cast<int>(limit_seconds_)) + " s in '" + judge_->stage() + "'"};
  if (!outcome) {
    if (std::string stage = judge_->stage(); stage != shown_stage_ && now() - stage_told_ > 0.5) {
      shown_stage_ = stage;
      stage_told_ = now();
      messages.push_back({Message::Type::stage, item_, std::move(stage)});
    }
    return messages;
  }
  judge_.reset();
  if (outcome->record) {
    outcome->record->host = host_;
    outcome->record->rank = rank_;
    messages.push_back({Message::Type::verdict, item_, to_json(*outcome->record)});
  } else if (outcome->peaks) {
    messages.push_back({Message::Type::peaks, item_, to_json(*outcome->peaks)});
  } else {
    messages.push_back({Message::Type::judge_failed, item_, outcome->failure});
  }
  return messages;
}

}  // namespace faibench
