// The multi-rank form under mpirun: right on every rank, and to the bit the sum in ascending rank.
#include <gtest/gtest.h>

#include <cstring>

#include "collectives/diloco_comm_chunk_balance/ranks.h"
#include "collectives/rank_form.h"
#include "schedule/executor.h"
#include "schedule/traffic.h"

namespace faibench {
namespace {

using testing_support::RankResult;

const MultiRank& form() { return *find_task("diloco_comm_chunk_balance")->multi_rank; }

RankResult run(Communicator& communicator, const TensorMap& shard, std::function<Rejected(MultiRank::Call&)> variant) {
  return testing_support::run_on_ranks(form(), communicator, shard, {"", std::move(variant), ""});
}

/// What every rank must have: the sum in ascending rank, then times 1/R, in f32.
Tensor ordered_average(const TensorMap& whole) {
  const Tensor& deltas = whole.at("deltas");
  const std::int64_t R = deltas.shape()[0], T = deltas.shape()[1];
  Tensor average(Dtype::f32, {T});
  const auto x = deltas.flat<float>();
  for (std::int64_t i = 0; i < T; ++i) {
    float sum = x[static_cast<std::size_t>(i)];
    for (std::int64_t r = 1; r < R; ++r) sum += x[static_cast<std::size_t>(r * T + i)];
    average.flat<float>()[static_cast<std::size_t>(i)] = sum * (1.0f / static_cast<float>(R));
  }
  return average;
}

void expect_average(const RankResult& result, const TensorMap& whole) {
  EXPECT_FALSE(result.rejected);
  const Tensor wanted = ordered_average(whole);
  const Tensor& got = result.outputs.at("averaged");
  if (wanted.bytes() > 0) { EXPECT_EQ(std::memcmp(got.data(), wanted.data(), static_cast<std::size_t>(wanted.bytes())), 0); }
  EXPECT_EQ(got.shape(), wanted.shape());
}

TEST(DilocoRanks, every_case_is_right_or_rejected_alike_on_all_ranks) {
  testing_support::expect_every_case_right_or_rejected_alike(form(), *mpi_world(), form().variants, [](const MultiRank::RankVariant& variant, const TensorMap& whole, const RankResult& result) {
    if (variant.name == "mpi") expect_average(result, whole);
  });
}

TEST(DilocoRanks, any_segment_length_gives_the_same_bits) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  for (const char* name : {"uneven", "empty_chunks"})
    for (std::int64_t segment : {7, 1000, 50000}) {
      SCOPED_TRACE(segment);
      for (const auto& c : form().cases) {
        if (c.name != name) continue;
        Random random(c.name, "", 2, 0);
        const TensorMap whole = c.inputs(random, world.size());
        if (segment == 7 && c.name == "uneven") continue;  // 13000 stages
        expect_average(run(world, form().shard(whole, world.rank(), world.size()), [&](MultiRank::Call& call) { return diloco_comm_chunk_balance::run_in_segments(call, segment); }), whole);
      }
    }
}

TEST(DilocoRanks, messages_longer_than_one_call_takes_are_cut) {
  const auto world = mpi_world(1000);
  Random random(4);
  const TensorMap whole = form().cases[4].inputs(random, world->size());
  expect_average(run(*world, form().shard(whole, world->rank(), world->size()), diloco_comm_chunk_balance::run_mpi), whole);
}

TEST(DilocoRanks, the_smoke_workload_is_averaged_by_both_variants_within_the_gate) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  Random random(3);
  const TensorMap whole = form().workloads[0].inputs(random, world.size());
  for (const auto& variant : form().variants) {
    SCOPED_TRACE(variant.name);
    const RankResult result = run(world, form().shard(whole, world.rank(), world.size()), variant.run);
    testing_support::expect_right(form(), world, whole, result);
  }
}

TEST(DilocoRanks, a_rank_makes_its_own_part_of_a_workload_in_the_same_bits) {
  const auto world = mpi_world();
  Random one(5), other(5);
  const auto& smoke = form().workloads[0];
  const TensorMap shard = form().shard(smoke.inputs(one, world->size()), world->rank(), world->size()), own = smoke.own(other, world->rank(), world->size());
  for (const auto& [name, tensor] : shard) {
    ASSERT_EQ(own.at(name).shape(), tensor.shape()) << name;
    EXPECT_EQ(std::memcmp(own.at(name).data(), tensor.data(), static_cast<std::size_t>(tensor.bytes())), 0) << name;
  }
}

TEST(DilocoRanks, a_step_is_timed_chunk_by_chunk_alike_on_all_ranks) {
  const auto world = mpi_world();
  if (world->size() == 1) return;
  const auto& c = form().cases[2];  // more chunks than tensors
  ASSERT_EQ(c.name, "empty_chunks");
  Random random(6);
  const TensorMap whole = c.inputs(random, world->size()), shard = form().shard(whole, world->rank(), world->size());
  diloco_comm_chunk_balance::StepTimes times;
  RankResult result = run(*world, shard, [&](MultiRank::Call& call) {
    times = diloco_comm_chunk_balance::measure_step(call);
    return Rejected();
  });
  expect_average(result, whole);
  ASSERT_EQ(times.chunk_seconds.size(), 9U);
  double most = 0, sum = 0;
  for (std::size_t k = 0; k < 9; ++k) {
    EXPECT_EQ(times.chunk_seconds[k] > 0, times.chunk_bytes[k] > 0) << k;
    most = std::max(most, times.chunk_seconds[k]);
    sum += times.chunk_seconds[k];
  }
  EXPECT_EQ(times.chunk_seconds[static_cast<std::size_t>(times.slowest)], most);
  EXPECT_GT(times.communication_seconds, 0);
  EXPECT_GT(times.compute_seconds, 0);
  EXPECT_GT(times.wall_seconds, 0);
  EXPECT_DOUBLE_EQ(times.overlap, 1 - (times.wall_seconds - times.compute_seconds) / times.communication_seconds);
  double highest = sum;
  world->all_reduce(&highest, &highest, 1, Dtype::f64, Reduce::max);
  EXPECT_EQ(highest, sum);
}

TEST(DilocoRanks, the_report_names_the_slowest_chunk_and_the_overlap) {
  const auto world = mpi_world();
  Random random(7);
  const TensorMap shard = form().workloads[0].own(random, world->rank(), world->size());
  std::string line;
  run(*world, shard, [&](MultiRank::Call& call) {
    line = form().variants[1].report(call);
    return Rejected();
  });
  if (world->size() == 1) {
    EXPECT_EQ(line, "one rank: nothing to synchronise");
  } else {
    for (const char* part : {"chunks alone, ms: ", "; slowest chunk ", " bytes: ", "communication alone ", ": overlap "}) EXPECT_NE(line.find(part), std::string::npos) << line;
  }
}

/// Chunks of every size are summed by some schedule, and its bits are the ordered sum's.
TEST(DilocoRanks, chunks_summed_by_halving_have_the_same_bits) {
  const auto world = mpi_world();
  const std::int64_t count = 1001;
  std::vector<float> in(static_cast<std::size_t>(count)), out(in.size()), wanted(in.size());
  Random own(static_cast<std::uint64_t>(world->rank()));
  own.fill_normal(in);
  for (int rank = 0; rank < world->size(); ++rank) {
    std::vector<float> theirs(in.size());
    Random random(static_cast<std::uint64_t>(rank));
    random.fill_normal(theirs);
    for (std::size_t i = 0; i < theirs.size(); ++i) wanted[i] = rank == 0 ? theirs[i] : wanted[i] + theirs[i];
  }
  const auto schedule = all_reduce_schedule(AllReduce::raw_halving, count, world->nodes(), sizeof(float), sizeof(float));
  execute(*schedule, *world, {in.data(), out.data(), nullptr, nullptr, nullptr}, [](const SumCall& sum) {
    for (std::int64_t i = 0; i < sum.count; ++i) {
      float total = static_cast<const float*>(sum.terms[0].data)[i];
      for (std::size_t t = 1; t < sum.terms.size(); ++t) total += static_cast<const float*>(sum.terms[t].data)[i];
      static_cast<float*>(sum.into)[i] = total;
    }
  });
  EXPECT_EQ(std::memcmp(out.data(), wanted.data(), sizeof(float) * out.size()), 0);
}

TEST(DilocoRanks, a_chunk_goes_whole_to_few_ranks_in_pieces_when_large_and_by_halving_to_many) {
  const auto algorithm = [](std::int64_t elements, int ranks) { return diloco_comm_chunk_balance::chunk_schedule(elements, NodeMap::regular(ranks, 8))->algorithm(); };
  EXPECT_EQ(algorithm(100, 2), name_of(AllReduce::one_shot));
  EXPECT_EQ(algorithm(1 << 20, 2), name_of(AllReduce::two_shot));
  EXPECT_EQ(algorithm(4096, 1024), name_of(AllReduce::raw_halving));
  EXPECT_EQ(algorithm(std::int64_t{1} << 28, 1024), name_of(AllReduce::two_shot));
}

TEST(DilocoRanks, the_lower_bound_is_never_above_the_forecast) {
  if (mpi_world()->size() > 1) return;  // the same anywhere
  const CostModel model{{1e-6, 5e-6}, {1e-10, 8e-11}, 0};
  for (const int ranks : {2, 3, 4, 8, 64, 1024})
    for (const std::int64_t bytes : form().scaling->sizes) {
      if (ranks == 1024 && bytes != 4 && bytes != 64 << 10) continue;  // many messages
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << bytes << " bytes");
      const NodeMap nodes = NodeMap::regular(ranks, 8);
      const auto schedule = form().scaling->schedule(bytes, nodes);
      EXPECT_LE(bound_seconds(form().scaling->bound(bytes, ranks), nodes, model), predicted_seconds(*schedule, nodes, model) * (1 + 1e-12)) << schedule->algorithm();
    }
}

}  // namespace
}  // namespace faibench
