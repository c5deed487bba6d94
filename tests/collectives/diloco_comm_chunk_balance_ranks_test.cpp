// The multi-rank form under mpirun: right on every rank, and to the bit the sum in ascending rank.
#include <gtest/gtest.h>

#include <cstring>

#include "collectives/diloco_comm_chunk_balance/ranks.h"
#include "communicator/mpi_communicator.h"

namespace faibench {
namespace {

const MultiRank& form() { return *find_task("diloco_comm_chunk_balance")->multi_rank; }

struct Result {
  Rejected rejected;
  TensorMap outputs;
};
template <class Variant>
Result run(Communicator& communicator, const TensorMap& shard, Variant&& variant) {
  const TensorRefMap inputs = refs(shard);
  Result result{{}, allocate_outputs(form().contract, inputs)};
  if (result.outputs.at("averaged").bytes() > 0) std::memset(result.outputs.at("averaged").data(), 0xCB, static_cast<std::size_t>(result.outputs.at("averaged").bytes()));
  TensorRefMap outputs = refs(result.outputs);
  MultiRank::Call call{communicator, Arguments{inputs, outputs, {}}};
  result.rejected = variant(call);
  return result;
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

void expect_average(const Result& result, const TensorMap& whole) {
  EXPECT_FALSE(result.rejected);
  const Tensor wanted = ordered_average(whole);
  const Tensor& got = result.outputs.at("averaged");
  if (wanted.bytes() > 0) { EXPECT_EQ(std::memcmp(got.data(), wanted.data(), static_cast<std::size_t>(wanted.bytes())), 0); }
  EXPECT_EQ(got.shape(), wanted.shape());
}

TEST(DilocoRanks, every_case_is_right_or_rejected_alike_on_all_ranks) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  for (const auto& c : form().cases) {
    SCOPED_TRACE(c.name);
    Random random(c.name, "", 1, 0);
    const TensorMap whole = c.inputs(random, world.size());
    TensorMap shard = form().shard(whole, world.rank(), world.size());
    if (c.damage) c.damage(random, shard, world.rank(), world.size());
    const std::string code = c.code ? c.code(world.size()) : "";
    for (const auto& variant : form().variants) {
      SCOPED_TRACE(variant.name);
      const Result result = run(world, shard, variant.run);
      if (!code.empty()) { EXPECT_EQ(result.rejected ? result.rejected->code : "", code); }
      else if (variant.name == "mpi" && !c.damage) expect_average(result, whole);
      else EXPECT_FALSE(result.rejected);
    }
  }
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
    Result result = run(world, form().shard(whole, world.rank(), world.size()), variant.run);
    EXPECT_FALSE(result.rejected);
    std::vector<TensorMap> outputs;
    outputs.push_back(std::move(result.outputs));
    const GateResult bad = form().gate(refs(whole), outputs);
    EXPECT_FALSE(bad) << to_string(*bad);
  }
}

}  // namespace
}  // namespace faibench
