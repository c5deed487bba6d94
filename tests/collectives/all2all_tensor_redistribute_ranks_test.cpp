// The multi-rank form under mpirun: every byte in its place on every rank, every rejection the same on all, and no byte on the wire beyond those that must cross.
#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/all2all_tensor_redistribute/all2all_tensor_redistribute.h"
#include "collectives/all2all_tensor_redistribute/box_plan.h"
#include "collectives/all2all_tensor_redistribute/ranks.h"
#include "collectives/pmpi_counter.h"
#include "collectives/rank_form.h"
#include "schedule/traffic.h"

namespace faibench {
namespace {

using all2all_tensor_redistribute::described_input;
using all2all_tensor_redistribute::Layout;
using all2all_tensor_redistribute::Redistribution;
using all2all_tensor_redistribute::Transfer;
using testing_support::RankResult;
using testing_support::wire_counts;

const MultiRank& form() {
  static const MultiRank form = all2all_tensor_redistribute::multi_rank();
  return form;
}

/// The variant, watched: what it sends is counted from here on.
MultiRank::RankVariant counted(const std::string& name) {
  MultiRank::RankVariant variant = testing_support::variant_of(form(), name);
  variant.run = [run = variant.run](MultiRank::Call& call) {
    wire_counts() = {};
    return run(call);
  };
  return variant;
}

RankResult run(Communicator& communicator, const std::string& name, const TensorMap& shard) {
  RankResult result = testing_support::run_on_ranks(form(), communicator, shard, counted(name));
  EXPECT_TRUE(result.rest_untouched) << "written past the shard";
  return result;
}

void expect_right(Communicator& communicator, const std::string& name, const TensorMap& whole) {
  testing_support::expect_right(form(), communicator, whole, run(communicator, name, form().shard(whole, communicator.rank(), communicator.size())));
}

Redistribution plan_of(const TensorMap& whole) {
  const auto list = [&](const char* name) { return whole.at(name).flat<std::int64_t>(); };
  return {list("shape"), list("mesh"), list("src_axes"), list("src_axes_offsets"), list("dst_axes"), list("dst_axes_offsets")};
}

struct Setting {
  const char* name;
  std::string variant;
  MpiOptions options = {};
};
class OnRanks : public testing::TestWithParam<Setting> {
 protected:
  std::unique_ptr<Communicator> world_ = mpi_world(GetParam().options);
  const int rank_ = world_->rank(), size_ = world_->size();
};
const Setting settings[] = {
    {"baseline", "mpi_baseline"},
    {"baseline_in_chunks_of_7", "mpi_baseline", {.chunk_limit = 7}},
    {"library", "peer:mpi"},
    {"library_in_chunks_of_7", "peer:mpi", {.chunk_limit = 7}},
    {"messages", "mpi"},
    {"messages_in_chunks_of_7", "mpi", {.chunk_limit = 7}},
    {"messages_on_nodes_of_two", "mpi", {.ranks_per_node = 2}},
    {"registered", "mpi_registered"},
    {"registered_on_nodes_of_two", "mpi_registered", {.ranks_per_node = 2}},
    {"registered_on_nodes_of_two_in_chunks_of_7", "mpi_registered", {.chunk_limit = 7, .ranks_per_node = 2}},
    {"registered_on_nodes_of_one", "mpi_registered", {.ranks_per_node = 1}},
    {"registered_without_shared_memory", "mpi_registered", {.shared_memory = false}},
    {"the_nccl_form", "nccl"},
};
INSTANTIATE_TEST_SUITE_P(all2all_tensor_redistribute, OnRanks, testing::ValuesIn(settings), [](const auto& i) { return std::string(i.param.name); });

TEST_P(OnRanks, every_case_is_right_or_rejected_alike_on_all_ranks) {
  const MultiRank::RankVariant variants[] = {counted(GetParam().variant)};
  testing_support::expect_every_case_right_or_rejected_alike(form(), *world_, variants, [](const MultiRank::RankVariant&, const TensorMap&, const RankResult& result) {
    EXPECT_TRUE(result.rest_untouched) << "written past the shard";
  });
}

TEST_P(OnRanks, of_several_wrong_shards_all_ranks_name_the_first) {
  const auto c = std::ranges::find(form().cases, "two_wrong_shards", &MultiRank::RankCase::name);
  ASSERT_NE(c, form().cases.end());
  Random random(c->name, "", 1, 0);
  TensorMap shard = form().shard(c->inputs(random, size_), rank_, size_);
  c->damage(random, shard, rank_, size_);
  const RankResult result = run(*world_, GetParam().variant, shard);
  EXPECT_TRUE(result.rejected);
  if (result.rejected) { EXPECT_NE(result.rejected->message.find("rank 0"), std::string::npos) << result.rejected->message; }
}

TEST_P(OnRanks, random_layouts_are_right) {
  Random random("random layouts", "", 1, 0);
  const Dtype dtypes[] = {Dtype::u8, Dtype::bf16, Dtype::f32, Dtype::u64};
  for (int round = 0; round < 60; ++round) {
    Layout layout;
    layout.dtype = dtypes[round % 4];
    std::int64_t left = size_;  // factors in random order, some 1
    while (left > 1 && layout.mesh.size() < 3) {
      std::int64_t n = random.between(1, left);
      while (left % n != 0) ++n;
      layout.mesh.push_back(n);
      left /= n;
    }
    layout.mesh.push_back(left);
    const std::int64_t D = random.between(1, 4);
    for (std::int64_t d = 0; d < D; ++d) layout.shape.push_back(random.chance(0.05) ? 0 : random.between(1, 13));
    for (auto* sharding : {&layout.source, &layout.target}) {
      sharding->resize(static_cast<std::size_t>(D));
      for (const std::int64_t axis : random.permutation(static_cast<std::int64_t>(layout.mesh.size())))
        if (random.chance(0.7)) (*sharding)[static_cast<std::size_t>(random.below(D))].push_back(axis);
    }
    SCOPED_TRACE("round " + std::to_string(round) + " on rank " + std::to_string(rank_) + " of " + std::to_string(size_));
    expect_right(*world_, GetParam().variant, described_input(random, layout));
  }
}

TEST_P(OnRanks, the_smoke_workload_is_right) {
  Random random("smoke", "", 1, 0);
  if (GetParam().options.chunk_limit < mpi_chunk_limit) return;  // ten thousands of messages
  expect_right(*world_, GetParam().variant, form().workloads.front().inputs(random, size_));
}

// What the plan says a rank sends is what it sends: one message a partner, nothing to itself, and together what the receivers lack.
TEST_P(OnRanks, sends_the_plans_bytes_and_no_other) {
  const bool registered = GetParam().variant == "mpi_registered" && GetParam().options.shared_memory;
  if (GetParam().variant != "mpi" && GetParam().variant != "mpi_registered") return;
  for (const auto& c : form().cases) {
    if (c.damage) continue;
    SCOPED_TRACE(c.name + " on rank " + std::to_string(rank_) + " of " + std::to_string(size_));
    Random random(c.name, "", 2, 0);
    const TensorMap whole = c.inputs(random, size_);
    const RankResult result = run(*world_, GetParam().variant, form().shard(whole, rank_, size_));
    EXPECT_FALSE(result.rejected);
    const Redistribution plan = plan_of(whole);
    std::int64_t bytes = 0, messages = 0;
    for (const Transfer& transfer : plan.outgoing(rank_, world_->nodes())) {
      if (registered && world_->nodes().same_node(transfer.to, rank_)) continue;
      bytes += transfer.count * size_of(whole.at("src_data").dtype());
      ++messages;
    }
    EXPECT_EQ(wire_counts().bytes_sent(), bytes);
    if (GetParam().options.chunk_limit == mpi_chunk_limit) { EXPECT_EQ(wire_counts().messages_sent(), messages); }
    std::int64_t sent = wire_counts().bytes_sent(), lacking = plan.target().size(rank_) * size_of(whole.at("src_data").dtype());
    for (const Transfer& transfer : plan.incoming(rank_, world_->nodes()))
      if (transfer.from == rank_) lacking -= transfer.count * size_of(whole.at("src_data").dtype());
    world_->all_reduce(&sent, &sent, 1, Dtype::i64, Reduce::sum);
    world_->all_reduce(&lacking, &lacking, 1, Dtype::i64, Reduce::sum);
    if (!registered) { EXPECT_EQ(sent, lacking) << "of all ranks"; }
    if (registered && world_->nodes().nodes() == 1) { EXPECT_EQ(sent, 0); }
  }
}

TEST_P(OnRanks, sends_what_the_schedule_of_the_study_says) {
  if (GetParam().variant != "mpi" || GetParam().options.chunk_limit < mpi_chunk_limit) return;
  for (const std::int64_t S : {4, 8, 20, 64, 1000, 4096, 100'000}) {
    SCOPED_TRACE(std::to_string(S) + " bytes, rank " + std::to_string(rank_) + " of " + std::to_string(size_));
    Random random("study", "", 1, static_cast<std::uint64_t>(S));
    const TensorMap whole = form().scaling->inputs(random, size_, S);
    const std::int64_t came_to = form().scaling->size_of(whole, size_);
    EXPECT_NEAR(static_cast<double>(came_to), static_cast<double>(S), 4 + 0.05 * static_cast<double>(S));
    const auto schedule = form().scaling->schedule(S, world_->nodes());
    EXPECT_EQ(fault_in(*schedule).value_or(""), "");
    const RankResult result = run(*world_, "mpi", form().shard(whole, rank_, size_));
    EXPECT_FALSE(result.rejected);
    const Traffic traffic = traffic_of(*schedule, world_->nodes(), rank_);
    EXPECT_EQ(wire_counts().bytes_sent(), traffic.bytes_sent[0] + traffic.bytes_sent[1]);
    EXPECT_EQ(wire_counts().messages_sent(), traffic.messages_sent[0] + traffic.messages_sent[1]);
    std::int64_t busiest = std::max(traffic.bytes_sent[0] + traffic.bytes_sent[1], traffic.bytes_received[0] + traffic.bytes_received[1]);
    world_->all_reduce(&busiest, &busiest, 1, Dtype::i64, Reduce::max);
    EXPECT_EQ(form().scaling->bound(S, size_).bytes, static_cast<double>(busiest));
    EXPECT_EQ(form().scaling->bound(S, size_).rounds, size_ > 1 ? 1 : 0);
    if (rank_ == 0) { EXPECT_EQ(form().wire_floor(whole, size_).bytes, static_cast<double>(traffic.bytes_received[0] + traffic.bytes_received[1])) << "the rank with the most columns"; }
  }
}

}  // namespace
}  // namespace faibench
