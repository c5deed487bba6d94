// The multi-rank form under mpirun: right and of equal bits on every rank, and every rejection on all ranks alike.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>

#include "collectives/gather_outputs.h"
#include "communicator/mpi_communicator.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/gate.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/ranks.h"
#include "schedule/traffic.h"

namespace faibench {
namespace {

using testing_support::gather_outputs;

const MultiRank& form() { return *find_task("splitk_tall_skinny_gemm")->multi_rank; }

struct Result {
  Rejected rejected;
  TensorMap outputs;
  bool untouched = false;
};
Result run(Communicator& communicator, const TensorMap& shard, const MultiRank::RankVariant& variant) {
  const TensorRefMap inputs = refs(shard);
  Result result{{}, allocate_outputs(form().contract, inputs)};
  for (auto& [name, tensor] : result.outputs)
    if (tensor.bytes() > 0) std::memset(tensor.data(), 0xCB, static_cast<std::size_t>(tensor.bytes()));
  TensorRefMap outputs = refs(result.outputs);
  MultiRank::Call call{communicator, Arguments{inputs, outputs, {}}};
  result.rejected = variant.run(call);
  result.untouched = true;
  for (const auto& [name, tensor] : result.outputs)
    for (std::int64_t i = 0; i < tensor.bytes(); ++i) result.untouched &= tensor.data()[i] == std::byte{0xCB};
  return result;
}

void expect_right(Communicator& communicator, const TensorMap& whole, const Result& result) {
  EXPECT_FALSE(result.rejected) << result.rejected->message;
  const GateResult bad = form().gate(refs(whole), gather_outputs(communicator, result.outputs));
  EXPECT_FALSE(bad) << to_string(*bad);
}

/// Whether the runner finds fault with the shard of any rank: then nobody runs.
bool found_by_the_runner(Communicator& communicator, const TensorMap& shard) {
  Dims dims;
  std::int64_t found = form().contract.check_general(refs(shard), dims) || form().contract.check_rules(refs(shard), CheckedBy::runner);
  communicator.all_reduce(&found, &found, 1, Dtype::i64, Reduce::max);
  return found != 0;
}

TEST(SplitKRanks, every_case_is_right_or_rejected_alike_on_all_ranks) {
  const auto gathering = mpi_world();
  for (const std::int64_t chunk_limit : {std::int64_t{1000}, mpi_chunk_limit}) {  // the first: messages longer than one call takes are cut
    const auto world_owner = mpi_world(chunk_limit);
    Communicator& world = *world_owner;
    for (const auto& c : form().cases) {
      SCOPED_TRACE(c.name);
      Random random(c.name, "", 1, 0);
      const TensorMap whole = c.inputs(random, world.size());
      TensorMap shard = form().shard(whole, world.rank(), world.size());
      if (c.damage) c.damage(random, shard, world.rank(), world.size());
      const std::string code = c.code ? c.code(world.size()) : "";
      if (found_by_the_runner(world, shard)) {
        EXPECT_NE(code, "");
        continue;
      }
      for (const auto& variant : form().variants) {
        SCOPED_TRACE(variant.name);
        const Result result = run(world, shard, variant);
        if (code.empty()) expect_right(*gathering, whole, result);
        else {
          EXPECT_EQ(result.rejected ? result.rejected->code : "", code);
          EXPECT_TRUE(result.untouched);
        }
      }
    }
  }
}

TEST(SplitKRanks, the_smoke_workload_and_its_integers_pass) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  Random random(1);
  for (const bool integers : {false, true}) {
    const TensorMap whole = integers ? splitk_tall_skinny_gemm::exact(random, 5, 7, 20011) : form().workloads[0].inputs(random, world.size());
    for (const auto& variant : form().variants) expect_right(world, whole, run(world, form().shard(whole, world.rank(), world.size()), variant));
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
    expect_right(world, whole, run(world, form().shard(whole, world.rank(), world.size()), form().variants[1]));
  }
}

TEST(SplitKRanks, the_gate_finds_a_drifted_rank_and_a_lost_one) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  Random random(4);
  const TensorMap whole = splitk_tall_skinny_gemm::exact(random, 4, 5, 3000);
  const Result result = run(world, form().shard(whole, world.rank(), world.size()), form().variants[1]);
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
