// The multi-rank form under mpirun: every rank ends with what one process makes of the concatenation, and rejects what that rejects.
#include <gtest/gtest.h>

#include <cstring>

#include "collectives/dcp_shard_meta_merge/dcp_shard_meta_merge.h"
#include "collectives/dcp_shard_meta_merge/ranks.h"
#include "collectives/rank_form.h"
#include "schedule/traffic.h"

namespace faibench {
namespace {

using testing_support::expect_rejection;
using testing_support::RankResult;

const Task& task() { return *find_task("dcp_shard_meta_merge"); }
const MultiRank& form() { return *task().multi_rank; }

RankResult run(Communicator& communicator, const MultiRank::RankVariant& variant, const TensorMap& shard) { return testing_support::run_on_ranks(form(), communicator, shard, variant); }

/// The form's gate over this rank's outputs, as if all others had the same.
void expect_right(RankResult result, const TensorMap& whole) {
  ASSERT_FALSE(result.rejected) << result.rejected->message;
  std::vector<TensorMap> outputs;
  outputs.push_back(std::move(result.outputs));
  const GateResult bad = form().gate(refs(whole), outputs);
  EXPECT_FALSE(bad) << to_string(*bad);
}

/// The form's variants, and `mpi` as it goes about much: hashes to owners, whatever the size; and as on many ranks.
std::vector<MultiRank::RankVariant> all_ways() {
  std::vector<MultiRank::RankVariant> ways = form().variants;
  ways.push_back({"mpi_sharded", [](MultiRank::Call& call) { return dcp_shard_meta_merge::run_mpi_above(call, 0, 1000); }, ""});
  ways.push_back({"mpi_halving", [](MultiRank::Call& call) { return dcp_shard_meta_merge::run_mpi_above(call, 0, 0); }, ""});
  return ways;
}

TEST(DcpRanks, every_case_is_right_or_rejected_alike_on_all_ranks) { testing_support::expect_every_case_right_or_rejected_alike(form(), *mpi_world(), all_ways()); }

TEST(DcpRanks, report_what_the_concatenation_would_down_to_the_record) {
  const auto world = mpi_world();
  int rejected = 0;
  for (const Case& c : task().cases) {
    SCOPED_TRACE(c.name);
    Random random(c.name, "", 1, 0);
    const TensorMap whole = c.inputs(random);
    Dims dims;
    if (task().contract.check_general(refs(whole), dims)) continue;
    const Rejected wanted = task().contract.validate(refs(whole));
    if (!wanted) continue;
    ++rejected;
    for (const auto& variant : all_ways()) {
      SCOPED_TRACE(variant.name);
      const RankResult result = run(*world, variant, form().shard(whole, world->rank(), world->size()));
      expect_rejection(result, wanted->code);
      if (!result.rejected) continue;
      EXPECT_EQ(result.rejected->tensor, wanted->tensor);
      EXPECT_EQ(result.rejected->index, wanted->index);
      EXPECT_TRUE(result.rejected->message.starts_with(wanted->message.substr(0, wanted->message.find(':')))) << result.rejected->message << " and " << wanted->message;
    }
  }
  EXPECT_GE(rejected, 11);
}

TEST(DcpRanks, random_inputs_are_merged_as_in_one_process) {
  const auto world = mpi_world();
  for (std::uint64_t i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    Random random("dcp ranks", "", 1, i);
    const TensorMap whole = task().random_case(random);
    for (const auto& variant : all_ways()) {
      SCOPED_TRACE(variant.name);
      expect_right(run(*world, variant, form().shard(whole, world->rank(), world->size())), whole);
    }
  }
}

TEST(DcpRanks, messages_longer_than_one_call_takes_are_cut) {
  const auto world = mpi_world(100);
  for (const char* name : {"same_list", "same_names_other_order", "own_and_shared", "split_long_names", "split_many"})
    for (const auto& c : form().cases) {
      if (c.name != name) continue;
      SCOPED_TRACE(c.name);
      Random random(c.name, "", 2, 0);
      const TensorMap whole = c.inputs(random, world->size());
      for (const auto& variant : all_ways()) {
        SCOPED_TRACE(variant.name);
        expect_right(run(*world, variant, form().shard(whole, world->rank(), world->size())), whole);
      }
    }
}

TEST(DcpRanks, the_workloads_are_merged) {
  const auto world = mpi_world();
  for (const auto& workload : form().workloads) {
    if (workload.name == "large") continue;
    SCOPED_TRACE(workload.name);
    Random random(task().name, workload.name, 3, 0);
    const TensorMap whole = workload.inputs(random, world->size());
    for (const auto& variant : all_ways()) {
      if (workload.name == "standard" && variant.name == "mpi_baseline") continue;  // seconds
      SCOPED_TRACE(variant.name);
      expect_right(run(*world, variant, form().shard(whole, world->rank(), world->size())), whole);
    }
  }
}

TEST(DcpRanks, the_gate_refuses_a_wrong_rank) {
  Random random(5);
  const TensorMap whole = form().workloads[0].inputs(random, 2);
  std::vector<TensorMap> outputs;
  for (int rank = 0; rank < 2; ++rank) outputs.push_back(expected_outputs(task(), refs(whole)));
  EXPECT_FALSE(form().gate(refs(whole), outputs));
  outputs[1].at("total").flat<std::int64_t>()[3] += 1;
  const GateResult bad = form().gate(refs(whole), outputs);
  ASSERT_TRUE(bad);
  EXPECT_NE(to_string(*bad).find("rank 1"), std::string::npos) << to_string(*bad);
}

TEST(DcpRanks, scaling_sizes_are_met) {
  for (const std::int64_t bytes : form().scaling->sizes) {
    Random random(6);
    const TensorMap whole = form().scaling->inputs(random, 3, bytes);
    EXPECT_NEAR(static_cast<double>(form().scaling->size_of(whole, 3)), static_cast<double>(bytes), 50);
    EXPECT_GE(form().scaling->bound(bytes, 3).bytes, static_cast<double>(bytes) * 2 / 3 - 1);
  }
}

TEST(DcpRanks, the_schedule_fits_together_and_the_bound_is_never_above_its_forecast) {
  if (mpi_world()->size() > 1) return;  // the same anywhere
  const CostModel model{{1e-6, 5e-6}, {1e-10, 8e-11}, 0};
  for (const int ranks : {2, 3, 4, 8, 64, 1024})
    for (const std::int64_t bytes : {std::int64_t{100}, std::int64_t{4096}, std::int64_t{100'000}, std::int64_t{1} << 20}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << bytes << " bytes");
      const NodeMap nodes = NodeMap::regular(ranks, 8);
      const auto schedule = form().scaling->schedule(bytes, nodes);
      const int sampled[] = {0, 1, ranks / 2, ranks - 1};
      EXPECT_EQ(fault_in(*schedule, std::span(sampled).subspan(ranks == 2 ? 2 : 0)), std::nullopt);
      EXPECT_LE(bound_seconds(form().scaling->bound(bytes, ranks), nodes, model), predicted_seconds(*schedule, nodes, model) * (1 + 1e-12)) << schedule->algorithm();
    }
}

TEST(DcpRanks, the_schedule_of_many_ranks_has_log_P_messages_a_rank) {
  const NodeMap nodes = NodeMap::regular(1024, 8);
  for (const std::int64_t bytes : {std::int64_t{64} << 10, std::int64_t{1} << 20}) {
    const auto schedule = form().scaling->schedule(bytes, nodes);
    const Traffic traffic = traffic_of(*schedule, nodes, 77);
    EXPECT_LE(traffic.messages_sent[0] + traffic.messages_sent[1], 9 * 10) << bytes;
    EXPECT_LE(traffic.most_incoming, 2) << bytes;
  }
}

TEST(DcpRanks, a_rank_must_receive_the_names_it_lacks_and_the_sizes_beyond_its_own) {
  const TensorMap whole = dcp_shard_meta_merge::merge_input({{{"ab", 0, 1}, {"cde", 0, 1}, {"f", 0, 9}}, {{"ab", 1, 1}, {"f", 0, 2}}});
  EXPECT_EQ(form().wire_floor(whole, 2).bytes, 3 + 8 + 8);  // rank 1 lacks "cde" and the size of "f"
  EXPECT_EQ(form().wire_floor(whole, 1).bytes, 0);
}

}  // namespace
}  // namespace faibench
