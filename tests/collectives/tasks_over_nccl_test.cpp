// Every multi-rank task that has a form over NCCL, on the double: ranks are threads, calls that real NCCL would hang on are errors here.
#include <gtest/gtest.h>
#include <omp.h>

#include <cstring>
#include <thread>

#include "collectives/fake_nccl.h"
#include "collectives/rank_form.h"
#include "communicator/nccl_communicator.h"
#include "task/task.h"

namespace faibench {
namespace {

using testing_support::FakeNccl;
using testing_support::NcclFabric;

struct OneRank {
  Rejected rejected;
  TensorMap outputs;
  std::string error;
};

/// All ranks' calls of `variant` on their shards, as the harness makes them: general codes and the runner's rules first, and nobody runs where any rank finds one.
std::vector<OneRank> call_all(const Task& task, const MultiRank::RankVariant& variant, const std::vector<TensorMap>& shards) {
  const auto ranks = static_cast<int>(shards.size());
  NcclFabric fabric;
  const NcclLibrary::Id id = FakeNccl(fabric, 0).unique_id();
  std::vector<OneRank> results(shards.size());
  for (int r = 0; r < ranks; ++r) {
    const auto rank = static_cast<std::size_t>(r);
    Dims dims;
    results[rank].rejected = task.multi_rank->contract.check_general(refs(shards[rank]), dims);
    if (!results[rank].rejected) results[rank].rejected = task.multi_rank->contract.check_rules(refs(shards[rank]), CheckedBy::runner);
    if (results[rank].rejected) return results;
  }
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      omp_set_num_threads(1);
      OneRank& own = results[static_cast<std::size_t>(r)];
      try {
        const TensorRefMap inputs = refs(shards[static_cast<std::size_t>(r)]);
        own.outputs = allocate_outputs(task.multi_rank->contract, inputs);
        TensorRefMap outputs = refs(own.outputs);
        const auto group = nccl_communicator(std::make_shared<FakeNccl>(fabric, r), id, ranks, r, NodeMap::regular(ranks, ranks), {.patience_seconds = 60});
        MultiRank::Call call{*group, {inputs, outputs, {}}};
        own.rejected = variant.run(call);
        if (!own.rejected) testing_support::cut_to_lengths(task.multi_rank->contract, inputs, call.arguments.lengths, own.outputs);
      } catch (const std::exception& e) {
        own.error = e.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fabric.complaints(), "");
  return results;
}

struct Form {
  const Task* task;
  const MultiRank::RankVariant* variant;
};

std::vector<Form> forms() {
  std::vector<Form> found;
  for (const Task* task : all_tasks())
    if (task->multi_rank)
      for (const auto& variant : task->multi_rank->variants)
        if (variant.on_nccl) found.push_back({task, &variant});
  return found;
}

class EveryForm : public testing::TestWithParam<std::tuple<Form, int>> {
 protected:
  const Task& task_ = *std::get<0>(GetParam()).task;
  const MultiRank& form_ = *task_.multi_rank;
  const MultiRank::RankVariant& variant_ = *std::get<0>(GetParam()).variant;
  const int ranks_ = std::get<1>(GetParam());

  std::vector<TensorMap> shards_of(const TensorMap& whole) const {
    std::vector<TensorMap> shards;
    for (int rank = 0; rank < ranks_; ++rank) shards.push_back(form_.shard(whole, rank, ranks_));
    return shards;
  }
  void expect_right(const TensorMap& whole) const {
    std::vector<OneRank> results = call_all(task_, variant_, shards_of(whole));
    std::vector<TensorMap> outputs;
    for (OneRank& result : results) {
      ASSERT_EQ(result.error, "");
      ASSERT_FALSE(result.rejected) << result.rejected->message;
      outputs.push_back(std::move(result.outputs));
    }
    const GateResult bad = form_.gate(refs(whole), outputs);
    EXPECT_FALSE(bad) << to_string(*bad);
  }
};
INSTANTIATE_TEST_SUITE_P(OverNccl, EveryForm, testing::Combine(testing::ValuesIn(forms()), testing::Values(1, 2, 3, 5)),
                         [](const auto& info) { return std::get<0>(info.param).task->name + "_" + std::get<0>(info.param).variant->name + "_on_" + std::to_string(std::get<1>(info.param)); });

TEST_P(EveryForm, passes_its_gate_on_the_smoke_workload) {
  Random random(task_.name, "ranks smoke", 1, 0);
  expect_right(form_.workloads.front().inputs(random, ranks_));
}

TEST_P(EveryForm, passes_its_gate_on_every_case_and_reports_every_damage_on_all_ranks) {
  for (const MultiRank::RankCase& one : form_.cases) {
    SCOPED_TRACE(one.name);
    Random random(task_.name, one.name, 1, 0);
    const TensorMap whole = one.inputs(random, ranks_);
    const std::string code = one.damage && one.code ? one.code(ranks_) : "";
    if (!one.damage) {
      expect_right(whole);
      continue;
    }
    std::vector<TensorMap> shards = shards_of(whole);
    for (int rank = 0; rank < ranks_; ++rank) {
      Random damage(task_.name, one.name, 2, 0);
      one.damage(damage, shards[static_cast<std::size_t>(rank)], rank, ranks_);
    }
    if (code.empty()) continue;
    bool by_the_runner = false;
    const std::vector<OneRank> results = call_all(task_, variant_, shards);
    for (const TensorMap& shard : shards) {
      Dims dims;
      by_the_runner |= form_.contract.check_general(refs(shard), dims) || form_.contract.check_rules(refs(shard), CheckedBy::runner);
    }
    if (by_the_runner) continue;  // the harness agrees on those before anybody runs
    for (const OneRank& result : results) {
      EXPECT_EQ(result.error, "");
      ASSERT_TRUE(result.rejected);
      EXPECT_EQ(result.rejected->code, code);
    }
  }
}

}  // namespace
}  // namespace faibench
