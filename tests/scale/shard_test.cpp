// A rank's part of a cell on the double of NCCL, ranks as threads: a variant on NCCL is timed and checked like the others, and one that alters its input is caught.
#include "scale/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <thread>

#include "collectives/fake_nccl.h"
#include "communicator/nccl_communicator.h"
#include "tensor/random.h"

namespace faibench::scale {
namespace {

using testing_support::FakeNccl;
using testing_support::NcclFabric;

constexpr int ranks = 2;

struct Seen {
  std::string refused, first, again, error;
  std::int64_t sent = 0;
};

/// What both ranks say of two checks with a call between them.
std::vector<Seen> checks_of(const Task& task, const MultiRank::RankVariant& variant, std::int64_t bytes) {
  Random random(1);
  const TensorMap whole = task.multi_rank->scaling->inputs(random, ranks, bytes);
  NcclFabric fabric;
  const NcclLibrary::Id id = FakeNccl(fabric, 0).unique_id();
  std::vector<Seen> seen(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      omp_set_num_threads(1);
      Seen& own = seen[static_cast<std::size_t>(r)];
      try {
        const auto group = nccl_communicator(std::make_shared<FakeNccl>(fabric, r), id, ranks, r, NodeMap::regular(ranks, ranks), {.patience_seconds = 60});
        Shard shard(*group, group.get(), task, variant, task.multi_rank->shard(whole, r, ranks));
        own.refused = shard.refused();
        own.first = shard.check(whole).value_or("right");
        own.sent = shard.sent()[0] + shard.sent()[1];
        shard.call();
        own.again = shard.check(whole).value_or("right");
      } catch (const std::exception& e) {
        own.error = e.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return seen;
}

const MultiRank::RankVariant& variant_of(const Task& task, const std::string& name) {
  return *std::ranges::find_if(task.multi_rank->variants, [&](const auto& variant) { return variant.name == name; });
}

TEST(Shard, runs_and_checks_a_variant_on_nccl_and_counts_what_it_sent) {
  const Task& task = *find_task("tp_allreduce_bias_fuse");
  const std::int64_t bytes = 1 << 16;
  for (const Seen& seen : checks_of(task, variant_of(task, "nccl"), bytes)) {
    EXPECT_EQ(seen.error, "");
    EXPECT_EQ(seen.refused, "");
    EXPECT_EQ(seen.first, "right");
    EXPECT_EQ(seen.again, "right");
    EXPECT_EQ(seen.sent, bytes) << "2(P-1)/P n";
  }
}

TEST(Shard, finds_an_input_that_a_call_changed_even_between_checks) {
  const Task& task = *find_task("tp_allreduce_bias_fuse");
  int calls = 0;
  MultiRank::RankVariant planted = variant_of(task, "nccl");
  const auto honest = planted.run;
  planted.run = [&, honest](MultiRank::Call& call) {
    const Rejected rejected = honest(call);
    // The timed call alone, after the first check, and on one rank: after its work, so that its output is right.
    if (call.communicator.rank() == 1 && ++calls == 2) *reinterpret_cast<unsigned char*>(call.arguments.inputs.at("partial").data) ^= 1;
    return rejected;
  };
  for (const Seen& seen : checks_of(task, planted, 4096)) {
    EXPECT_EQ(seen.error, "");
    EXPECT_EQ(seen.first, "right");
    EXPECT_THAT(seen.again, testing::HasSubstr("gang rank 1 changed its input"));
  }
}

TEST(Shard, finds_a_wrong_answer) {
  const Task& task = *find_task("tp_allreduce_bias_fuse");
  MultiRank::RankVariant planted = variant_of(task, "nccl");
  planted.run = [](MultiRank::Call&) -> Rejected { return std::nullopt; };
  for (const Seen& seen : checks_of(task, planted, 4096)) EXPECT_NE(seen.first, "right");
}

}  // namespace
}  // namespace faibench::scale
