// The multi-rank form under mpirun: right on every rank, equal bits where ranks must not drift apart, and every rejection on all ranks alike.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>

#include "collectives/rank_form.h"
#include "communicator/mpi_communicator.h"
#include "kernels/training/fused_global_grad_clip/ranks.h"
#include "schedule/traffic.h"

namespace faibench {
namespace {

using testing_support::gather_outputs;

const MultiRank& form() { return *find_task("fused_global_grad_clip")->multi_rank; }

using testing_support::expect_right;
using testing_support::RankResult;

RankResult run(Communicator& communicator, const TensorMap& shard, const MultiRank::RankVariant& variant) { return testing_support::run_on_ranks(form(), communicator, shard, variant); }

TEST(GradClipRanks, every_case_is_right_or_rejected_alike_on_all_ranks) { testing_support::expect_every_case_right_or_rejected_alike(form()); }

TEST(GradClipRanks, the_workloads_are_clipped_by_both_variants_within_the_gate) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  for (std::uint64_t seed : {1, 2}) {
    Random random(seed);
    const TensorMap whole = form().workloads[0].inputs(random, world.size());
    for (const auto& variant : form().variants) expect_right(form(), world, whole, run(world, form().shard(whole, world.rank(), world.size()), variant));
  }
}

TEST(GradClipRanks, any_number_of_threads_gives_the_same_bits) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  if (world.size() > 2) return;
  Random random(6);
  std::vector<float> values(700'003);
  random.fill_normal(values);
  TensorMap whole;
  whole.add("grads", Tensor::of({700'003}, values));
  whole.add("offsets", Tensor::of({5}, std::vector<std::int64_t>{0, 500, 400'001, 400'900, 700'003}));
  whole.add("max_norm", Tensor::scalar(3.0));
  whole.add("error_if_nonfinite", Tensor::boolean(false));
  const TensorMap shard = form().shard(whole, world.rank(), world.size());
  const int before = omp_get_max_threads();
  std::vector<RankResult> results;
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    results.push_back(run(world, shard, form().variants[1]));
    expect_right(form(), world, whole, results.back());
  }
  omp_set_num_threads(before);
  for (const auto& [name, tensor] : results[0].outputs)
    for (const RankResult& other : results) EXPECT_EQ(std::memcmp(tensor.data(), other.outputs.at(name).data(), static_cast<std::size_t>(tensor.bytes())), 0) << name;
}

TEST(GradClipRanks, a_studied_size_is_eight_bytes_a_tensor_and_clipped_within_the_gate) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  for (const std::int64_t bytes : form().scaling->sizes) {
    if (bytes > 10'000) continue;
    SCOPED_TRACE(bytes);
    Random random(5);
    const TensorMap whole = form().scaling->inputs(random, world.size(), bytes);
    EXPECT_EQ(form().scaling->size_of(whole, world.size()), bytes / 8 * 8);
    EXPECT_EQ(whole.at("offsets").shape()[0], bytes / 8 + 1);
    expect_right(form(), world, whole, run(world, form().shard(whole, world.rank(), world.size()), form().variants[1]));
  }
}

TEST(GradClipRanks, one_byte_or_one_element_less_on_one_rank_is_a_mismatch) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  if (world.size() == 1) return;
  Random random(3);
  const TensorMap whole = form().workloads[0].inputs(random, world.size());
  for (const char* name : {"sizes", "max_norm", "error_if_nonfinite"})
    for (const auto& variant : form().variants) {
      TensorMap shard = form().shard(whole, world.rank(), world.size());
      if (world.rank() == world.size() - 1) shard.at(name).data()[shard.at(name).bytes() / 2] ^= std::byte{1};
      const RankResult result = run(world, shard, variant);
      EXPECT_EQ(result.rejected ? result.rejected->code : "", "rank_mismatch") << name;
    }
  for (const char* name : {"sizes", "grads"})
    for (const auto& variant : form().variants) {
      TensorMap shard = form().shard(whole, world.rank(), world.size());
      if (world.rank() == world.size() - 1) {
        TensorRef less = shard.at(name).ref();
        --less.shape[0];
        shard.at(name) = Tensor::copy_of(less);
      }
      const RankResult result = run(world, shard, variant);
      EXPECT_EQ(result.rejected ? result.rejected->code : "", "rank_mismatch") << name;
    }
}

TEST(GradClipRanks, the_gate_finds_a_drifted_norm_a_drifted_replica_and_a_wrong_chunk) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  Random random(4);
  const TensorMap whole = fused_global_grad_clip::rank_cases()[6].inputs(random, world.size());
  const RankResult result = run(world, form().shard(whole, world.rank(), world.size()), form().variants[1]);
  const auto gate_after = [&](int rank, const char* name, std::int64_t element, bool slightly) {
    std::vector<TensorMap> outputs = gather_outputs(world, result.outputs);
    float& value = outputs[static_cast<std::size_t>(rank)].at(name).flat<float>()[static_cast<std::size_t>(element)];
    value = slightly ? std::nextafter(value, 1e9f) : value + 1;
    return form().gate(refs(whole), outputs).has_value();
  };
  const int last = world.size() - 1;
  const std::int64_t replica = fused_global_grad_clip::share_of(3000, last, world.size()).count + 3;
  EXPECT_TRUE(gate_after(last, "clipped", 0, false));
  EXPECT_TRUE(gate_after(0, "total_norm", 0, false));
  if (world.size() == 1) return;
  EXPECT_TRUE(gate_after(last, "total_norm", 0, true));
  EXPECT_TRUE(gate_after(last, "tensor_norms", 1, true));
  EXPECT_TRUE(gate_after(last, "clipped", replica, true));
}

TEST(GradClipRanks, shares_cover_every_element_once_on_any_number_of_ranks) {
  for (const std::int64_t n : {1024, 1025, 4096, 99'999})
    for (const int ranks : {1, 2, 7, 1000, 5000}) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto share = fused_global_grad_clip::share_of(n, rank, ranks);
        ASSERT_EQ(share.first, next);
        ASSERT_GE(share.count, 0);
        next += share.count;
      }
      EXPECT_EQ(next, n);
    }
  EXPECT_EQ(fused_global_grad_clip::share_of(1023, 3, 5).count, 1023);
}

TEST(GradClipRanks, the_schedule_of_norms_is_sound_for_every_size) {
  for (const int ranks : {2, 3, 8, 13, 64})
    for (const std::int64_t tensors : {1, 7, 300, 3000, 40'000}) {
      const NodeMap nodes = NodeMap::regular(ranks, ranks);
      const auto fault = fault_in(*fused_global_grad_clip::norms_schedule(tensors, nodes));
      EXPECT_FALSE(fault) << *fault;
    }
}

}  // namespace
}  // namespace faibench
