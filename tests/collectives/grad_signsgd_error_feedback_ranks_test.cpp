// The multi-rank form under mpirun: each rank's own step, the average to the bit on all ranks, and rejections that all ranks report alike.
#include <gtest/gtest.h>

#include <cstring>

#include "collectives/grad_signsgd_error_feedback/ranks.h"
#include "communicator/mpi_communicator.h"

namespace faibench {
namespace {

const MultiRank& form() { return *find_task("grad_signsgd_error_feedback")->multi_rank; }

struct Result {
  Rejected rejected;
  TensorMap outputs;
  bool untouched = true;
};
template <class Variant>
Result run(Communicator& communicator, const TensorMap& shard, Variant&& variant) {
  const TensorRefMap inputs = refs(shard);
  Result result{{}, allocate_outputs(form().contract, inputs)};
  for (auto& [name, tensor] : result.outputs)
    if (tensor.bytes() > 0) std::memset(tensor.data(), 0xCB, static_cast<std::size_t>(tensor.bytes()));
  TensorRefMap outputs = refs(result.outputs);
  MultiRank::Call call{communicator, Arguments{inputs, outputs, {}}};
  result.rejected = variant(call);
  for (auto& [name, tensor] : result.outputs)
    for (std::int64_t i = 0; i < tensor.bytes(); ++i) result.untouched &= tensor.data()[i] == std::byte{0xCB};
  return result;
}

/// Outputs of all ranks, by rank.
std::vector<TensorMap> gathered(Communicator& communicator, const TensorMap& outputs) {
  std::vector<TensorMap> all(static_cast<std::size_t>(communicator.size()));
  for (auto& [name, tensor] : outputs) {
    const std::vector<std::int64_t> counts(all.size(), tensor.bytes());
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()) * all.size());
    communicator.all_gather(tensor.data(), bytes.data(), counts, Dtype::u8);
    for (std::size_t r = 0; r < all.size(); ++r) {
      Tensor& copy = all[r].add(name, Tensor(tensor.dtype(), tensor.shape()));
      if (tensor.bytes() > 0) std::memcpy(copy.data(), bytes.data() + r * static_cast<std::size_t>(tensor.bytes()), static_cast<std::size_t>(tensor.bytes()));
    }
  }
  return all;
}

void expect_right(Communicator& communicator, const Result& result, const TensorMap& whole) {
  ASSERT_FALSE(result.rejected) << result.rejected->message;
  const GateResult bad = form().gate(refs(whole), gathered(communicator, result.outputs));
  EXPECT_FALSE(bad) << to_string(*bad);
}

TEST(SignRanks, every_case_is_right_or_rejected_alike_on_all_ranks_with_nothing_written) {
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
      if (code.empty()) {
        expect_right(world, result, whole);
      } else {
        EXPECT_EQ(result.rejected ? result.rejected->code : "", code);
        EXPECT_TRUE(result.untouched);
      }
    }
  }
}

TEST(SignRanks, any_segment_length_gives_the_same_bits) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  Random random(2);
  const TensorMap whole = form().cases[7].inputs(random, world.size()), shard = form().shard(whole, world.rank(), world.size());
  const Result wanted = run(world, shard, grad_signsgd_error_feedback::run_mpi);
  expect_right(world, wanted, whole);
  for (const std::int64_t blocks : {1, 3, 130, 1000}) {
    const Result got = run(world, shard, [&](MultiRank::Call& call) { return grad_signsgd_error_feedback::run_in_segments(call, blocks); });
    for (auto& [name, tensor] : wanted.outputs) EXPECT_EQ(std::memcmp(got.outputs.at(name).data(), tensor.data(), static_cast<std::size_t>(tensor.bytes())), 0) << name << ", segments of " << blocks;
  }
}

TEST(SignRanks, messages_longer_than_one_call_takes_are_cut) {
  const auto world = mpi_world(1000);
  Random random(4);
  const TensorMap whole = form().cases[6].inputs(random, world->size());
  for (const auto& variant : form().variants) expect_right(*world, run(*world, form().shard(whole, world->rank(), world->size()), variant.run), whole);
}

TEST(SignRanks, the_gate_refuses_an_average_that_is_off_by_a_bit_on_one_rank_and_an_error_made_with_the_average) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  Random random(3);
  const TensorMap whole = form().workloads[0].inputs(random, world.size());
  const Result result = run(world, form().shard(whole, world.rank(), world.size()), grad_signsgd_error_feedback::run_mpi);
  std::vector<TensorMap> outputs = gathered(world, result.outputs);
  EXPECT_FALSE(form().gate(refs(whole), outputs));
  outputs.back().at("average").data()[4 * 9000] ^= std::byte{1};
  EXPECT_TRUE(form().gate(refs(whole), outputs));
  outputs = gathered(world, result.outputs);
  TensorMap& last = outputs.back();
  for (std::size_t i = 0; i < 10000; ++i) last.at("new_error").flat<float>()[i] += last.at("update").flat<float>()[i] - last.at("average").flat<float>()[i];
  EXPECT_EQ(form().gate(refs(whole), outputs).has_value(), world.size() > 1);
}

}  // namespace
}  // namespace faibench
