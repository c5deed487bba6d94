// What every multi-rank form is held to under mpirun: right on every rank, or rejected alike on all, outputs untouched.
#pragma once
#include <gtest/gtest.h>

#include <cstring>

#include "collectives/gather_outputs.h"
#include "communicator/mpi_communicator.h"
#include "task/task.h"

namespace faibench::testing_support {

/// One rank's part of a call.
struct RankResult {
  Rejected rejected;
  TensorMap outputs;
  bool untouched = false;
};
inline RankResult run_on_ranks(const MultiRank& form, Communicator& communicator, const TensorMap& shard, const MultiRank::RankVariant& variant) {
  const TensorRefMap inputs = refs(shard);
  RankResult result{{}, allocate_outputs(form.contract, inputs)};
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

/// Collective over `communicator`.
inline void expect_right(const MultiRank& form, Communicator& communicator, const TensorMap& whole, const RankResult& result) {
  EXPECT_FALSE(result.rejected) << result.rejected->message;
  const GateResult bad = form.gate(refs(whole), gather_outputs(communicator, result.outputs));
  EXPECT_FALSE(bad) << to_string(*bad);
}

/// Whether the runner finds fault with the shard of any rank: then nobody runs.
inline bool found_by_the_runner(const MultiRank& form, Communicator& communicator, const TensorMap& shard) {
  Dims dims;
  std::int64_t found = form.contract.check_general(refs(shard), dims) || form.contract.check_rules(refs(shard), CheckedBy::runner);
  communicator.all_reduce(&found, &found, 1, Dtype::i64, Reduce::max);
  return found != 0;
}

/// Every case through every variant, with messages longer than one call takes and without.
inline void expect_every_case_right_or_rejected_alike(const MultiRank& form) {
  const auto gathering = mpi_world();
  for (const std::int64_t chunk_limit : {std::int64_t{1000}, mpi_chunk_limit}) {  // the first: messages longer than one call takes are cut
    const auto world_owner = mpi_world(chunk_limit);
    Communicator& world = *world_owner;
    for (const auto& c : form.cases) {
      SCOPED_TRACE(c.name);
      Random random(c.name, "", 1, 0);
      const TensorMap whole = c.inputs(random, world.size());
      TensorMap shard = form.shard(whole, world.rank(), world.size());
      if (c.damage) c.damage(random, shard, world.rank(), world.size());
      const std::string code = c.code ? c.code(world.size()) : "";
      if (found_by_the_runner(form, world, shard)) {
        EXPECT_NE(code, "");
        continue;
      }
      for (const auto& variant : form.variants) {
        SCOPED_TRACE(variant.name);
        const RankResult result = run_on_ranks(form, world, shard, variant);
        if (code.empty()) expect_right(form, *gathering, whole, result);
        else {
          EXPECT_EQ(result.rejected ? result.rejected->code : "", code);
          EXPECT_TRUE(result.untouched);
        }
      }
    }
  }
}

}  // namespace faibench::testing_support
