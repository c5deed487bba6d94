#include "cluster/rank_worker.h"

#include <gtest/gtest.h>

#include "fake_judge.h"
#include "tensor/error.h"

namespace faibench {
namespace {

using testing_support::FakeJudge;
using Type = RankMessage::Type;

RankWorker worker_with(JudgeProcess::Outcome outcome) {
  return {"host", 3, [outcome](const JudgeJob&) -> std::unique_ptr<Judge> { return std::make_unique<FakeJudge>(std::deque{outcome}); }};
}
RankMessage order(int item) { return {Type::judge, item, to_json(JudgeJob{})}; }

TEST(RankWorker, sends_the_record_with_its_host_and_rank) {
  Record record;
  record.task = "t";
  RankWorker worker = worker_with({record, {}, ""});
  EXPECT_FALSE(worker.busy());
  worker.begin(order(5));
  EXPECT_TRUE(worker.busy());
  const auto messages = worker.poll();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].type, Type::verdict);
  EXPECT_EQ(messages[0].item, 5);
  const Record back = record_from_json(messages[0].text);
  EXPECT_EQ(back.task, "t");
  EXPECT_EQ(back.host, "host");
  EXPECT_EQ(back.rank, 3);
  EXPECT_FALSE(worker.busy());
  EXPECT_TRUE(worker.poll().empty());
}

TEST(RankWorker, sends_peaks_of_a_calibration) {
  MachinePeaks peaks;
  peaks.copy_bytes_per_second = 5e9;
  RankWorker worker = worker_with({{}, peaks, ""});
  worker.begin({Type::calibrate, -1, to_json(JudgeJob{})});
  EXPECT_EQ(worker.poll().at(0).type, Type::peaks);
}

TEST(RankWorker, tells_when_the_judge_died_or_cannot_start) {
  RankWorker worker = worker_with({{}, {}, "judge killed by SIGKILL"});
  worker.begin(order(1));
  EXPECT_EQ(worker.poll().at(0), (RankMessage{Type::judge_failed, 1, "judge killed by SIGKILL"}));

  RankWorker unable("host", 0, [](const JudgeJob&) -> std::unique_ptr<Judge> { throw Error(Error::Kind::io, "no more processes"); });
  unable.begin(order(2));
  EXPECT_FALSE(unable.busy());
  EXPECT_EQ(unable.poll().at(0), (RankMessage{Type::judge_failed, 2, "no more processes"}));
  EXPECT_TRUE(unable.poll().empty());
}

TEST(StageLimit, is_short_for_a_call_and_long_for_a_slot_that_others_hold) {
  JudgeJob job;
  job.task = "coalesced_matrix_transpose";
  job.workload = "smoke";
  job.budget_seconds = 10;
  EXPECT_EQ(stage_limit_seconds(job, "block 7", 60), 60 + 4 * 30 + 40);
  EXPECT_EQ(stage_limit_seconds(job, "waiting for a timing slot", 60), 1800 + 400);
  EXPECT_EQ(stage_limit_seconds(job, "starting", 60), 60 + 4 * 30 + 40);
  job.whole_task_in_slot = true;
  EXPECT_EQ(stage_limit_seconds(job, "starting", 60), 1800 + 400);
  job.call_limit_seconds = 1000;
  EXPECT_EQ(stage_limit_seconds(job, "case a", 60), 60 + 4000 + 40);
  job.emulate = true;
  EXPECT_EQ(stage_limit_seconds(job, "case a", 60), 60 + emulator_slowness * (4000 + 40));
}

TEST(RankWorker, says_what_it_judges_while_it_does) {
  RankWorker worker = worker_with({Record{}, {}, ""});
  JudgeJob job;
  job.task = "t";
  job.variant = "cpu";
  worker.begin({Type::judge, 1, to_json(job)});
  EXPECT_EQ(worker.label(), "t/cpu");
  worker.poll();
  EXPECT_EQ(worker.label(), "");
}

TEST(RankWorker, tells_what_its_judge_is_doing_once) {
  RankWorker worker("host", 0, [](const JudgeJob&) -> std::unique_ptr<Judge> { return std::make_unique<FakeJudge>(std::deque<JudgeProcess::Outcome>{}, "block 7"); });
  worker.begin(order(1));
  EXPECT_EQ(worker.poll().at(0), (RankMessage{Type::stage, 1, "block 7"}));
  EXPECT_TRUE(worker.poll().empty());
  worker.stop();
  EXPECT_FALSE(worker.busy());
}

TEST(RankWorker, takes_one_order_at_a_time) {
  RankWorker worker("host", 0, [](const JudgeJob&) -> std::unique_ptr<Judge> { return std::make_unique<FakeJudge>(std::deque<JudgeProcess::Outcome>{}); });
  worker.begin(order(1));
  EXPECT_THROW(worker.begin(order(2)), Error);
}

}  // namespace
}  // namespace faibench
