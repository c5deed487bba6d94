#include "cluster/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "cluster/gang.h"
#include "temporary_folder.h"

namespace faibench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;
using Type = RankMessage::Type;

Place place(int rank, int node, std::vector<int> cores) {
  Place p;
  p.host = "node" + std::to_string(node);
  p.pid = rank;
  p.node = node;
  p.cpus = cores;
  p.cores = std::move(cores);
  p.numa_nodes = {0};
  p.host_cores = 4;
  return p;
}

class QuietProgress final : public Progress {
 public:
  void started(const std::string&, const Standing&) override {}
  void verdict(const std::string& label, const Record&, const Standing& standing) override {
    labels.push_back(label);
    last = standing;
  }
  void stage(int, const std::string&, const std::string&) override {}
  void tick(const Standing&) override {}
  void notice(const std::string& line) override { notices.push_back(line); }
  void close() override {}
  std::vector<std::string> labels, notices;
  Standing last;
};

// Ranks that answer orders as told; every message passes through here.
class CoordinatorTest : public testing::Test {
 protected:
  CoordinatorTest() : ledger(Ledger::create(folder / "run.h5", {}, false)) {
    task.name = "t";
    task.multi_rank.emplace();
  }

  PlanItem item(const std::string& variant, double seconds) {
    PlanItem i;
    i.task = &task;
    i.variant = variant;
    i.workload = "smoke";
    i.key = "key-" + variant;
    i.work = {.expected_seconds = seconds, .slot_seconds = seconds / 2};
    return i;
  }
  PlanItem gang(const std::string& variant, int ranks) {
    PlanItem i = item(variant, 1);
    i.gang = true;
    i.ranks = ranks;
    return i;
  }
  Coordinator& make(std::vector<PlanItem> items, std::vector<Place> places) {
    coordinator.emplace(settings, std::move(items), 0, lay_out(std::move(places)), ledger, progress, [this] { return clock; });
    coordinator->start();
    return *coordinator;
  }
  std::vector<Place> two_hosts() { return {place(0, 0, {0}), place(1, 0, {1}), place(2, 2, {0})}; }

  static RankMessage verdict(const RankMessage& order, Verdict verdict = Verdict::passed) {
    const JudgeJob job = job_from_json(order.text);
    Record record;
    record.task = job.task;
    record.variant = job.variant;
    record.verdict = verdict;
    record.rank = 0;
    return {Type::verdict, order.item, to_json(record)};
  }
  // What well-behaved ranks answer, until nobody has anything to say.
  void run_ranks() {
    for (auto outbox = coordinator->take_outbox(); !outbox.empty(); outbox = coordinator->take_outbox()) {
      for (const auto& [to, message] : outbox) {
        clock += 1;
        said.emplace_back(to, message.type);
        switch (message.type) {
          case Type::calibrate: coordinator->receive(to, {Type::peaks, -1, to_json(MachinePeaks{.copy_bytes_per_second = 7})}); break;
          case Type::judge: coordinator->receive(to, verdict(message)); break;
          case Type::gang: {
            const GangOrder order = gang_order_from_json(message.text);
            if (order.members.front() == to) {
              Record record;
              record.task = order.task;
              record.variant = order.variant;
              record.verdict = Verdict::passed;
              coordinator->receive(to, {Type::verdict, message.item, to_json(record)});
            }
            coordinator->receive(to, {Type::gang_done, message.item, {}});
            break;
          }
          default: coordinator->receive(to, {Type::bye, -1, {}});
        }
      }
    }
  }
  std::vector<std::string> keys() {
    std::vector<std::string> all;
    for (const Record& record : ledger.records()) all.push_back(record.key);
    return all;
  }

  testing_support::TemporaryFolder folder;
  Task task;
  QuietProgress progress;
  CoordinatorSettings settings;
  Ledger ledger;
  double clock = 100;
  std::optional<Coordinator> coordinator;
  std::vector<std::pair<int, Type>> said;
};

TEST_F(CoordinatorTest, judges_everything_once_and_says_goodbye) {
  make({item("a", 1), item("b", 3), item("c", 2), gang("mpi", 3)}, two_hosts());
  run_ranks();
  EXPECT_TRUE(coordinator->finished());
  EXPECT_THAT(keys(), UnorderedElementsAre("key-a", "key-b", "key-c", "key-mpi"));
  EXPECT_THAT(coordinator->unfinished(), ElementsAre());
  EXPECT_EQ(progress.last.done, 4);
  EXPECT_EQ(ledger.records().back().ranks, 3);
}

TEST_F(CoordinatorTest, calibrates_each_host_once_by_its_first_rank_before_it_judges_there) {
  make({item("a", 1), item("b", 1), item("c", 1)}, two_hosts());
  const auto outbox = coordinator->take_outbox();
  ASSERT_EQ(outbox.size(), 2u);
  EXPECT_EQ(outbox[0].first, 0);
  EXPECT_EQ(outbox[1].first, 2);
  EXPECT_EQ(outbox[1].second.type, Type::calibrate);
  coordinator->receive(2, {Type::peaks, -1, to_json(MachinePeaks{.copy_bytes_per_second = 7})});
  const auto next = coordinator->take_outbox();
  ASSERT_EQ(next.size(), 1u);  // host 0 still calibrates
  EXPECT_EQ(next[0].first, 2);
  EXPECT_EQ(job_from_json(next[0].second.text).peaks.copy_bytes_per_second, 7);
}

TEST_F(CoordinatorTest, gives_work_for_gpus_to_ranks_that_have_one_with_the_slot_of_that_gpu) {
  std::vector<Place> places = two_hosts();
  places[0].slot_folder = "/slots";
  places[0].facts.gpus = places[1].facts.gpus = {"GPU-b", "GPU-a"};
  settings.gate_only = true;
  std::vector<PlanItem> items = {item("cuda", 1), item("cuda_baseline", 1), item("cpu", 1)};
  items[0].work.needs_gpu = items[1].work.needs_gpu = true;
  make(items, places);
  std::map<std::string, std::pair<int, JudgeJob>> jobs;
  for (const auto& [to, message] : coordinator->take_outbox()) {
    const JudgeJob job = job_from_json(message.text);
    jobs[job.variant] = {to, job};
  }
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_EQ(jobs["cpu"].first, 2);
  EXPECT_EQ(jobs["cpu"].second.gpu, "");
  EXPECT_THAT(jobs["cpu"].second.slot_files, ElementsAre("/numa-0.lock"));
  for (const char* variant : {"cuda", "cuda_baseline"}) {
    const auto& [rank, job] = jobs[variant];
    ASSERT_LT(rank, 2);
    EXPECT_EQ(job.gpu_position, rank);
    EXPECT_EQ(job.gpu, rank == 0 ? "GPU-b" : "GPU-a");
    EXPECT_EQ(job.gpu_ranks, 1);
    EXPECT_THAT(job.slot_files, ElementsAre("/slots/" + job.gpu + ".lock"));
  }
}

TEST_F(CoordinatorTest, has_ranks_that_share_a_gpu_hold_its_slot_for_whole_tasks) {
  std::vector<Place> places = two_hosts();
  places[0].facts.gpus = places[1].facts.gpus = {"GPU-a"};
  std::vector<PlanItem> items = {item("cuda", 1), item("cuda_baseline", 1)};
  items[0].work.needs_gpu = items[1].work.needs_gpu = true;
  make(items, places);
  coordinator->receive(0, {Type::peaks, -1, to_json(MachinePeaks{})});
  int judged = 0;
  for (const auto& [to, message] : coordinator->take_outbox()) {
    if (message.type != Type::judge) continue;
    const JudgeJob job = job_from_json(message.text);
    EXPECT_THAT(job.slot_files, ElementsAre("/GPU-a.lock"));
    EXPECT_TRUE(job.whole_task_in_slot);
    EXPECT_EQ(job.gpu_ranks, 2);
    ++judged;
  }
  EXPECT_EQ(judged, 2);
}

TEST_F(CoordinatorTest, does_not_calibrate_where_nothing_is_timed) {
  settings.gate_only = true;
  make({item("a", 1)}, two_hosts());
  EXPECT_EQ(coordinator->take_outbox().at(0).second.type, Type::judge);
}

TEST_F(CoordinatorTest, tries_a_judge_that_died_once_more_and_then_calls_the_item_lost) {
  settings.gate_only = true;
  make({item("a", 1)}, {place(0, 0, {0})});
  const RankMessage order = coordinator->take_outbox().at(0).second;
  coordinator->receive(0, {Type::judge_failed, order.item, "judge killed by SIGKILL"});
  EXPECT_THAT(progress.notices, ElementsAre(HasSubstr("once more")));
  ASSERT_EQ(coordinator->take_outbox().at(0).second.type, Type::judge);
  coordinator->receive(0, {Type::judge_failed, order.item, "judge killed by SIGKILL"});
  ASSERT_EQ(ledger.records().size(), 1u);
  EXPECT_EQ(ledger.records()[0].verdict, Verdict::lost);
  EXPECT_THAT(ledger.records()[0].detail, HasSubstr("SIGKILL"));
  run_ranks();
  EXPECT_TRUE(coordinator->finished());
}

TEST_F(CoordinatorTest, goes_on_after_one_failed_calibration_and_stops_after_two) {
  make({item("a", 1)}, {place(0, 0, {0})});
  coordinator->take_outbox();
  coordinator->receive(0, {Type::judge_failed, -1, "died"});
  EXPECT_EQ(coordinator->take_outbox().at(0).second.type, Type::calibrate);
  coordinator->receive(0, {Type::judge_failed, -1, "died"});
  EXPECT_EQ(coordinator->take_outbox().at(0).second.type, Type::stop);
  ASSERT_TRUE(coordinator->error());
  EXPECT_THAT(coordinator->error()->what(), HasSubstr("node0 cannot be calibrated: died"));
}

TEST_F(CoordinatorTest, writes_no_verdict_twice) {
  settings.gate_only = true;
  make({item("a", 1), item("b", 1)}, {place(0, 0, {0})});
  const RankMessage order = coordinator->take_outbox().at(0).second;
  coordinator->receive(0, verdict(order));
  coordinator->receive(0, verdict(order));  // not in hand any more
  EXPECT_THAT(keys(), ElementsAre("key-a"));
}

TEST_F(CoordinatorTest, stops_all_ranks_on_a_signal_of_one) {
  settings.gate_only = true;
  make({item("a", 1), item("b", 1), item("c", 1), item("d", 1)}, two_hosts());
  coordinator->take_outbox();
  coordinator->receive(1, {Type::signal, 15, "SIGTERM"});
  const auto outbox = coordinator->take_outbox();
  ASSERT_EQ(outbox.size(), 3u);
  for (const auto& [to, message] : outbox) EXPECT_EQ(message.type, Type::stop) << to;
  EXPECT_EQ(coordinator->signal(), 15);
  EXPECT_EQ(coordinator->stopped_by(), "SIGTERM");
  EXPECT_EQ(coordinator->unfinished().size(), 4u);
  for (int rank = 0; rank < 3; ++rank) coordinator->receive(rank, {Type::bye, -1, {}});
  EXPECT_TRUE(coordinator->finished());
  EXPECT_TRUE(coordinator->take_outbox().empty());
}

TEST_F(CoordinatorTest, keeps_a_verdict_that_arrives_after_the_stop) {
  settings.gate_only = true;
  make({item("a", 1)}, {place(0, 0, {0})});
  const RankMessage order = coordinator->take_outbox().at(0).second;
  coordinator->receive(0, {Type::signal, 2, "SIGINT"});
  coordinator->receive(0, verdict(order));
  EXPECT_THAT(keys(), ElementsAre("key-a"));
}

TEST_F(CoordinatorTest, stops_all_ranks_on_a_fatal_error_of_one_and_keeps_the_first) {
  make({item("a", 1)}, two_hosts());
  coordinator->take_outbox();
  coordinator->receive(2, {Type::fatal, static_cast<int>(Error::Kind::io), "rank 2 on x: no space"});
  coordinator->receive(1, {Type::fatal, static_cast<int>(Error::Kind::mpi), "rank 1 on y: late"});
  EXPECT_EQ(coordinator->take_outbox().size(), 3u);
  EXPECT_EQ(coordinator->error()->kind, Error::Kind::io);
  EXPECT_THAT(coordinator->error()->what(), HasSubstr("rank 2"));
}

TEST_F(CoordinatorTest, stops_after_the_first_failure_when_asked_to) {
  settings.gate_only = settings.fail_fast = true;
  make({item("a", 2), item("b", 1)}, {place(0, 0, {0})});
  coordinator->receive(0, verdict(coordinator->take_outbox().at(0).second, Verdict::wrong));
  EXPECT_EQ(coordinator->take_outbox().at(0).second.type, Type::stop);
  EXPECT_THAT(coordinator->unfinished(), ElementsAre("t/b"));
}

TEST_F(CoordinatorTest, starts_gangs_after_the_solo_items_one_at_a_time) {
  settings.gate_only = true;
  make({gang("mpi", 2), item("a", 1), gang("mpi2", 3)}, two_hosts());
  run_ranks();
  std::vector<Type> orders;
  for (const auto& [to, type] : said) orders.push_back(type);
  EXPECT_THAT(orders, ElementsAre(Type::judge, Type::gang, Type::gang, Type::gang, Type::gang, Type::gang, Type::end, Type::end, Type::end));
}

TEST_F(CoordinatorTest, gives_members_of_a_gang_their_share_of_the_cores) {
  settings.gate_only = true;
  make({gang("mpi", 3)}, {place(0, 0, {0, 1, 2, 3}), place(1, 0, {0, 1, 2, 3}), place(2, 2, {0, 1, 2, 3})});
  const GangOrder order = gang_order_from_json(coordinator->take_outbox().at(0).second.text);
  EXPECT_EQ(order.threads, 2);
  EXPECT_FALSE(order.oversubscribed);
  EXPECT_THAT(order.members, UnorderedElementsAre(0, 1, 2));
}

TEST_F(CoordinatorTest, ends_at_once_where_nothing_is_left_to_judge) {
  make({}, two_hosts());
  run_ranks();
  EXPECT_TRUE(coordinator->finished());
}

}  // namespace
}  // namespace faibench
