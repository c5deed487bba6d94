#include "cluster/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace faibench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Task solo_task(const std::string& name, const std::string& group) {
  Task task;
  task.name = name;
  task.group = group;
  for (const char* variant : {"reference", "baseline", "cpu", "peer:lib"}) task.variants.push_back({variant, {}, ""});
  task.workloads.push_back({"smoke", "small", {}, 0.001});
  task.workloads.push_back({"standard", "large", {}, name == "slow" ? 1.0 : 0.1});
  return task;
}

Task ranked_task() {
  Task task = solo_task("ranked", "collectives");
  task.multi_rank.emplace();
  task.multi_rank->variants = {{"mpi_baseline", {}, ""}, {"mpi", {}, ""}};
  task.multi_rank->workloads = {{"smoke", "small", {}}};
  return task;
}

class MakePlan : public testing::Test {
 protected:
  MakePlan() {
    for (const char* name : {"fast", "slow", "ranked", "unwritten"}) {
      CatalogEntry entry;
      entry.name = name;
      entry.ref_speedup = 4;
      catalog.entries.push_back(entry);
    }
    setting.tasks = tasks;
    setting.catalog = &catalog;
    options.workload = "smoke";
  }
  std::vector<std::string> labels() {
    std::vector<std::string> names;
    for (const PlanItem& item : make_plan(options, setting).items) names.push_back(item.label());
    return names;
  }
  std::string complaint() {
    try {
      make_plan(options, setting);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, Error::Kind::bad_input);
      return error.what();
    }
    return "";
  }

  Task fast = solo_task("fast", "a"), slow = solo_task("slow", "b"), ranked = ranked_task();
  const Task* tasks[3] = {&fast, &slow, &ranked};
  Catalog catalog;
  PlanSetting setting;
  RunOptions options;
};

TEST_F(MakePlan, takes_cpu_and_peers_of_every_built_task_by_default) {
  EXPECT_THAT(labels(), ElementsAre("fast/cpu", "fast/peer:lib", "slow/cpu", "slow/peer:lib", "ranked/cpu", "ranked/peer:lib"));
  EXPECT_THAT(make_plan(options, setting).without_implementation, ElementsAre("unwritten"));
  EXPECT_THAT(make_plan(options, setting).not_run, ElementsAre());
}

TEST_F(MakePlan, adds_gangs_of_all_ranks_where_there_are_several) {
  setting.world_size = 3;
  options.tasks = {"rank*"};
  EXPECT_THAT(labels(), ElementsAre("ranked/cpu", "ranked/peer:lib", "ranked/mpi@3"));
  options.gang_sizes = {2, 3, 5};
  const Plan plan = make_plan(options, setting);
  EXPECT_EQ(plan.items.size(), 4u);
  EXPECT_THAT(plan.not_run, ElementsAre(HasSubstr("ranked/mpi@5: a gang of 5 ranks in a run of 3")));
}

TEST_F(MakePlan, runs_a_gang_of_one_only_where_it_is_asked_for) {
  options.variants = {"mpi*"};
  EXPECT_THAT(labels(), ElementsAre("ranked/mpi_baseline@1", "ranked/mpi@1"));
}

TEST_F(MakePlan, selects_by_glob_exclusion_and_group) {
  options.variants = {"cpu"};
  options.tasks = {"*s*"};
  EXPECT_THAT(labels(), ElementsAre("fast/cpu", "slow/cpu"));
  options.exclude = {"fa*"};
  EXPECT_THAT(labels(), ElementsAre("slow/cpu"));
  options.exclude.clear();
  options.groups = {"a"};
  EXPECT_THAT(labels(), ElementsAre("fast/cpu"));
}

TEST_F(MakePlan, counts_a_task_named_outright_as_not_run_where_it_is_missing) {
  options.tasks = {"fast", "unwritten"};
  EXPECT_THAT(make_plan(options, setting).not_run, ElementsAre(HasSubstr("unwritten")));
  options.tasks = {"fast", "un*"};
  EXPECT_THAT(make_plan(options, setting).not_run, ElementsAre());
}

TEST_F(MakePlan, runs_cpu_in_place_of_cuda_and_says_so) {
  options.tasks = {"fast"};
  options.variants = {"cuda"};
  Plan plan = make_plan(options, setting);
  ASSERT_EQ(plan.items.size(), 1u);
  EXPECT_EQ(plan.items[0].variant, "cpu");
  EXPECT_EQ(plan.items[0].asked_variant, "cuda");
  EXPECT_THAT(plan.items[0].note, HasSubstr("no GPU on any rank"));
  options.variants = {"cpu", "cuda"};  // one record, not two of the same
  plan = make_plan(options, setting);
  ASSERT_EQ(plan.items.size(), 1u);
  EXPECT_EQ(plan.items[0].asked_variant, "cuda");
}

TEST_F(MakePlan, gives_cuda_variants_to_gpu_ranks) {
  fast.variants.push_back(on_device("cuda", ""));
  setting.some_rank_has_gpu = true;
  setting.cuda_hash = "kernels";
  options.tasks = {"fast"};
  options.variants = {"cuda"};
  const Plan plan = make_plan(options, setting);
  ASSERT_EQ(plan.items.size(), 1u);
  EXPECT_TRUE(plan.items[0].work.needs_gpu);
  EXPECT_EQ(plan.items[0].asked_variant, "");
}

TEST_F(MakePlan, runs_the_gpu_workload_on_gpus_where_nobody_names_one) {
  fast.variants.push_back(on_device("cuda", ""));
  fast.variants.push_back(on_device("peer:cublas", ""));
  slow.variants.push_back(on_device("cuda", ""));
  fast.workloads.push_back({"gpu", "huge", {}, 5});
  setting.some_rank_has_gpu = true;
  setting.cuda_hash = "kernels";
  options.tasks = {"fast", "slow"};
  options.workload.reset();
  std::map<std::string, std::string> workloads;
  for (const PlanItem& item : make_plan(options, setting).items) workloads[item.label()] = item.workload;
  EXPECT_THAT(workloads, ElementsAre(testing::Pair("fast/cpu", "standard"), testing::Pair("fast/cuda", "gpu"), testing::Pair("fast/peer:cublas", "gpu"), testing::Pair("fast/peer:lib", "standard"),
                                     testing::Pair("slow/cpu", "standard"), testing::Pair("slow/cuda", "standard"), testing::Pair("slow/peer:lib", "standard")));
  options.workload = "smoke";
  for (const PlanItem& item : make_plan(options, setting).items) EXPECT_EQ(item.workload, "smoke");
}

TEST_F(MakePlan, says_why_a_gpu_alone_is_not_enough) {
  fast.variants.push_back(on_device("cuda", ""));
  fast.variants.push_back(on_device("peer:cublas", ""));
  options.tasks = {"fast"};
  options.variants = {"cuda", "peer:cublas"};
  Plan plan = make_plan(options, setting);
  ASSERT_EQ(plan.items.size(), 1u);
  EXPECT_THAT(plan.items[0].note, HasSubstr("no GPU on any rank: ran cpu"));
  EXPECT_THAT(plan.not_run, ElementsAre("fast/peer:cublas: no GPU on any rank"));
  setting.some_rank_has_gpu = true;
  plan = make_plan(options, setting);
  ASSERT_EQ(plan.items.size(), 1u);
  EXPECT_THAT(plan.items[0].note, HasSubstr("this build has no CUDA kernels: ran cpu"));
}

TEST_F(MakePlan, emulates_variants_for_gpus_on_the_smoke_workload) {
  fast.variants.push_back(on_device("cuda", ""));
  fast.variants.push_back(on_device("peer:cublas", ""));
  setting.emulated_hash = "kernels";
  options.workload.reset();
  options.emulate = true;
  EXPECT_THAT(labels(), ElementsAre("fast/cpu", "fast/peer:lib", "fast/cuda", "slow/cpu", "slow/peer:lib", "ranked/cpu", "ranked/peer:lib"));
  options.variants = {"cuda"};
  Plan plan = make_plan(options, setting);
  ASSERT_EQ(plan.items.size(), 1u);  // no CPU variant in place of those that others lack
  EXPECT_TRUE(plan.items[0].emulated);
  EXPECT_FALSE(plan.items[0].work.needs_gpu);
  EXPECT_EQ(plan.items[0].work.slot_seconds, 0);
  EXPECT_EQ(plan.items[0].workload, "smoke");
  options.variants = {"cpu"};
  EXPECT_THAT(complaint(), HasSubstr("--emulate runs variants for GPUs"));
  options.variants = {"peer:cublas"};
  options.tasks = {"fast"};
  EXPECT_THAT(make_plan(options, setting).not_run, testing::Contains("fast/peer:cublas: a vendor's library cannot be emulated"));
}

TEST_F(MakePlan, tells_emulated_kernels_of_two_builds_apart_and_from_those_on_a_gpu) {
  fast.variants.push_back(on_device("cuda", ""));
  setting.some_rank_has_gpu = true;
  setting.cuda_hash = setting.emulated_hash = "kernels";
  options.tasks = {"fast"};
  options.variants = {"cuda"};
  std::set<std::string> keys = {make_plan(options, setting).items.at(0).key};
  options.emulate = true;
  EXPECT_TRUE(keys.insert(make_plan(options, setting).items.at(0).key).second);
  setting.emulated_hash = "rebuilt";
  EXPECT_TRUE(keys.insert(make_plan(options, setting).items.at(0).key).second);
}

TEST_F(MakePlan, emulates_at_no_other_size_and_not_without_the_emulator) {
  options.emulate = true;
  EXPECT_THAT(complaint(), HasSubstr("this build has no emulated kernels"));
  setting.emulated_hash = "kernels";
  options.workload = "standard";
  EXPECT_THAT(complaint(), HasSubstr("its workload is smoke, not standard"));
}

TEST_F(MakePlan, names_the_nearest_known_for_what_nothing_answers_to) {
  options.tasks = {"fasst"};
  EXPECT_THAT(complaint(), HasSubstr("did you mean fast"));
  options.tasks = {};
  options.variants = {"cpuu"};
  EXPECT_THAT(complaint(), HasSubstr("did you mean cpu"));
  options.variants = {};
  options.workload = "standart";
  EXPECT_THAT(complaint(), HasSubstr("did you mean standard"));
  options.workload = "smoke";
  options.groups = {"zzzzzz"};
  EXPECT_THAT(complaint(), HasSubstr("unknown group 'zzzzzz'"));
  options.groups = {};
  options.exclude = {"*"};
  EXPECT_THAT(complaint(), HasSubstr("leave no task"));
}

TEST_F(MakePlan, expects_longer_baselines_to_take_longer_and_earlier_runs_to_know_better) {
  options.workload = "standard";
  options.variants = {"cpu"};
  options.tasks = {"fast", "slow"};
  Plan plan = make_plan(options, setting);
  EXPECT_LT(plan.items[0].work.expected_seconds, plan.items[1].work.expected_seconds);
  Record record;
  record.task = "fast";
  record.variant = "cpu";
  record.workload = "standard";
  record.verdict = Verdict::passed;
  record.wall_seconds = 500;
  setting.earlier_seconds = earlier_costs({record});
  plan = make_plan(options, setting);
  EXPECT_EQ(plan.items[0].work.expected_seconds, 500);
  EXPECT_GT(plan.items[0].work.slot_seconds, 0);
}

TEST_F(MakePlan, gives_other_keys_to_other_seeds_and_machines) {
  options.tasks = {"fast"};
  options.variants = {"cpu"};
  const std::string key = make_plan(options, setting).items[0].key;
  EXPECT_EQ(make_plan(options, setting).items[0].key, key);
  options.seed = 2;
  EXPECT_NE(make_plan(options, setting).items[0].key, key);
  options.seed.reset();
  setting.machine_class = "other";
  EXPECT_NE(make_plan(options, setting).items[0].key, key);
}

TEST(Asked, fills_the_gaps_of_a_resumed_run) {
  RunOptions first;
  first.tasks = {"a*"};
  first.variants = {"cpu"};
  first.workload = "smoke";
  first.seed = 7;
  first.budget_seconds = 0.5;
  const RunOptions resumed = fill_from({}, options_to_json(first));
  EXPECT_THAT(resumed.tasks, ElementsAre("a*"));
  EXPECT_THAT(resumed.variants, ElementsAre("cpu"));
  EXPECT_EQ(resumed.workload, "smoke");
  EXPECT_EQ(resumed.seed, 7u);
  EXPECT_EQ(resumed.budget_seconds, 0.5);
  RunOptions other;
  other.tasks = {"b"};
  other.seed = 9;
  const RunOptions kept = fill_from(other, options_to_json(first));
  EXPECT_THAT(kept.tasks, ElementsAre("b"));
  EXPECT_EQ(kept.seed, 9u);
  EXPECT_EQ(kept.workload, "smoke");
  EXPECT_THROW(fill_from({}, "{}"), Error);
}

}  // namespace
}  // namespace faibench
