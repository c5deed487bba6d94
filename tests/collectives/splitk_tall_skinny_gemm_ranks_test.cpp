// The multi-rank form under mpirun: right and of equal bits on every rank, and every rejection on all ranks alike.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>

#include "collectives/rank_form.h"
#include "communicator/mpi_communicator.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/gate.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/ranks.h"
#include "schedule/traffic.h"

namespace faibench {
namespace {

using testing_support::gather_outputs;

const MultiRank& form() { return *find_task("splitk_tall_skinny_gemm")->multi_rank; }

using testing_support::expect_right;
using testing_support::RankResult;

RankResult run(Communicator& communicator, const TensorMap& shard, const MultiRank::RankVariant& variant) { return testing_support::run_on_ranks(form(), communicator, shard, variant); }

TEST(SplitKRanks, every_case_is_right_or_rejected_alike_on_all_ranks) { testing_support::expect_every_case_right_or_rejected_alike(form()); }

TEST(SplitKRanks, the_smoke_workload_and_its_integers_pass) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  Random random(1);
  for (const bool integers : {false, true}) {
    const TensorMap whole = integers ? splitk_tall_skinny_gemm::exact(random, 5, 7, 20011) : form().workloads[0].inputs(random, world.size());
    for (const auto& variant : form().variants) expect_right(form(), world, whole, run(world, form().shard(whole, world.rank(), world.size()), variant));
  }
}

TEST(SplitKRanks, a_studied_size_is_the_bytes_of_the_product) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  for (const std::int64_t bytes : form().scaling->sizes) {
    SCOPED_TRACE(bytes);
    Random random(5);
    const TensorMap whole = form().scaling->inputs(random, world.size(), bytes);
    EXPECT_EQ(form().scaling->size_of(whole, world.size()), bytes);
    expect_right(form(), world, whole, run(world, form().shard(whole, world.rank(), world.size()), form().variants[1]));
  }
}

TEST(SplitKRanks, the_gate_finds_a_drifted_rank_and_a_lost_one) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  Random random(4);
  const TensorMap whole = splitk_tall_skinny_gemm::exact(random, 4, 5, 3000);
  const RankResult result = run(world, form().shard(whole, world.rank(), world.size()), form().variants[1]);
  const int last = world.size() - 1;
  std::vector<TensorMap> outputs = gather_outputs(world, result.outputs);
  EXPECT_FALSE(form().gate(refs(whole), outputs));
  for (TensorMap& of_rank : outputs) of_rank.at("C").flat<float>()[7] += 1;
  EXPECT_TRUE(form().gate(refs(whole), outputs)) << "wrong on all ranks alike";
  outputs = gather_outputs(world, result.outputs);
  float& value = outputs[static_cast<std::size_t>(last)].at("C").flat<float>()[3];
  value = std::nextafter(value, 1e9f);
  EXPECT_TRUE(form().gate(refs(whole), outputs)) << "one bit of the last rank";
  outputs = gather_outputs(world, result.outputs);
  outputs.back().erase("C");
  EXPECT_TRUE(form().gate(refs(whole), outputs)) << "no output of the last rank";
}

TEST(SplitKRanks, ranges_cover_every_term_once_on_any_number_of_ranks) {
  for (const std::int64_t K : {0, 1, 5, 1024, 99'999})
    for (const int ranks : {1, 2, 7, 1000}) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto terms = splitk_tall_skinny_gemm::terms_of(K, rank, ranks);
        ASSERT_EQ(terms.first, next);
        ASSERT_TRUE(terms.count == K / ranks || terms.count == K / ranks + 1);
        next += terms.count;
      }
      EXPECT_EQ(next, K);
    }
}

TEST(SplitKRanks, the_schedule_of_products_is_sound_for_every_size) {
  for (const int ranks : {2, 3, 8, 13, 64})
    for (const std::int64_t outputs : {1, 7, 256, 4096, 40'000}) {
      const auto fault = fault_in(*splitk_tall_skinny_gemm::product_schedule(outputs, NodeMap::regular(ranks, ranks)));
      EXPECT_FALSE(fault) << *fault;
    }
}

}  // namespace
}  // namespace faibench
