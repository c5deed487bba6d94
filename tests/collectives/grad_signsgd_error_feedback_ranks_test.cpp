// The multi-rank form under mpirun: each rank's own step, the average to the bit on all ranks, and rejections that all ranks report alike.
#include <gtest/gtest.h>

#include <cstring>

#include "collectives/grad_signsgd_error_feedback/ranks.h"
#include "collectives/rank_form.h"

namespace faibench {
namespace {

using testing_support::gather_outputs;
using testing_support::RankResult;

const MultiRank& form() { return *find_task("grad_signsgd_error_feedback")->multi_rank; }

RankResult run(Communicator& communicator, const TensorMap& shard, std::function<Rejected(MultiRank::Call&)> variant) {
  return testing_support::run_on_ranks(form(), communicator, shard, {"", std::move(variant), ""});
}

void expect_right(Communicator& communicator, const RankResult& result, const TensorMap& whole) { testing_support::expect_right(form(), communicator, whole, result); }

TEST(SignRanks, every_case_is_right_or_rejected_alike_on_all_ranks_with_nothing_written) { testing_support::expect_every_case_right_or_rejected_alike(form()); }

TEST(SignRanks, any_segment_length_gives_the_same_bits) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  Random random(2);
  const TensorMap whole = form().cases[7].inputs(random, world.size()), shard = form().shard(whole, world.rank(), world.size());
  const RankResult wanted = run(world, shard, grad_signsgd_error_feedback::run_mpi);
  expect_right(world, wanted, whole);
  for (const std::int64_t blocks : {1, 3, 130, 1000}) {
    const RankResult got = run(world, shard, [&](MultiRank::Call& call) { return grad_signsgd_error_feedback::run_in_segments(call, blocks); });
    for (auto& [name, tensor] : wanted.outputs) EXPECT_EQ(std::memcmp(got.outputs.at(name).data(), tensor.data(), static_cast<std::size_t>(tensor.bytes())), 0) << name << ", segments of " << blocks;
  }
}

TEST(SignRanks, the_gate_refuses_an_average_that_is_off_by_a_bit_on_one_rank_and_an_error_made_with_the_average) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  Random random(3);
  const TensorMap whole = form().workloads[0].inputs(random, world.size());
  const RankResult result = run(world, form().shard(whole, world.rank(), world.size()), grad_signsgd_error_feedback::run_mpi);
  std::vector<TensorMap> outputs = gather_outputs(world, result.outputs);
  EXPECT_FALSE(form().gate(refs(whole), outputs));
  outputs.back().at("average").data()[4 * 9000] ^= std::byte{1};
  EXPECT_TRUE(form().gate(refs(whole), outputs));
  outputs = gather_outputs(world, result.outputs);
  TensorMap& last = outputs.back();
  for (std::size_t i = 0; i < 10000; ++i) last.at("new_error").flat<float>()[i] += last.at("update").flat<float>()[i] - last.at("average").flat<float>()[i];
  EXPECT_EQ(form().gate(refs(whole), outputs).has_value(), world.size() > 1);
}

/// A run: 20 steps, errors kept by each rank from its own new_error, the average applied by all alike.
TEST(SignRanks, error_feedback_over_20_steps_keeps_every_bit_of_gradient_and_all_ranks_in_step) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  constexpr std::int64_t n = 2 * 4096 + 777;
  constexpr int steps = 20;
  for (const auto& variant : form().variants) {
    if (variant.on_nccl) continue;  // the same code
    SCOPED_TRACE(variant.name);
    Random random("signs", "20 steps", 1, 0);  // equal on all ranks: the whole input
    std::vector<TensorMap> errors(static_cast<std::size_t>(world.size()));
    for (TensorMap& error : errors) error.add("error", Tensor(Dtype::f32, {n}));
    std::vector<double> sent(n), gradients(n);
    for (int step = 0; step < steps; ++step) {
      SCOPED_TRACE(step);
      TensorMap whole = grad_signsgd_error_feedback::whole_input(random, n, world.size());
      whole.at("step") = Tensor::scalar<std::int64_t>(step);
      for (int r = 0; r < world.size(); ++r) std::memcpy(whole.at("error").data() + 4 * n * r, errors[static_cast<std::size_t>(r)].at("error").data(), 4 * n);
      const RankResult result = run(world, form().shard(whole, world.rank(), world.size()), variant.run);
      ASSERT_FALSE(result.rejected) << result.rejected->message;
      const std::vector<TensorMap> outputs = gather_outputs(world, result.outputs);
      const GateResult bad = form().gate(refs(whole), outputs);  // averages equal in every bit among it
      ASSERT_FALSE(bad) << to_string(*bad);
      for (int r = 0; r < world.size(); ++r) std::memcpy(errors[static_cast<std::size_t>(r)].at("error").data(), outputs[static_cast<std::size_t>(r)].at("new_error").data(), 4 * n);
      const std::span<const float> average = result.outputs.at("average").flat<float>(), grads = whole.at("grad").flat<float>();
      for (std::int64_t i = 0; i < n; ++i) {
        sent[static_cast<std::size_t>(i)] += average[static_cast<std::size_t>(i)];
        for (int r = 0; r < world.size(); ++r) gradients[static_cast<std::size_t>(i)] += static_cast<double>(grads[static_cast<std::size_t>(n * r + i)]) / world.size();
      }
    }
    for (std::int64_t i = 0; i < n; ++i) {  // what was not sent yet lies in the errors, all of it
      double left = 0;
      for (const TensorMap& error : errors) left += static_cast<double>(error.at("error").flat<float>()[static_cast<std::size_t>(i)]) / world.size();
      ASSERT_NEAR(gradients[static_cast<std::size_t>(i)], sent[static_cast<std::size_t>(i)] + left, 1e-4) << "element " << i;
    }
  }
}

TEST(SignRanks, the_sparse_form_puts_thirty_times_fewer_bytes_on_the_wire) {
  const auto world_owner = mpi_world();
  Random random(6);
  const TensorMap whole = form().workloads[0].inputs(random, world_owner->size()), shard = form().shard(whole, world_owner->rank(), world_owner->size());
  const auto bytes = [&](auto variant) { return run(*world_owner, shard, variant).outputs.at("payload").bytes(); };
  EXPECT_EQ(bytes(grad_signsgd_error_feedback::run_mpi), grad_signsgd_error_feedback::sign_block::bytes_of(10000));
  EXPECT_LT(30 * bytes(grad_signsgd_error_feedback::run_mpi_sparse), grad_signsgd_error_feedback::sign_block::bytes_of(10000) + 30 * 16);
}

TEST(SignRanks, ranks_of_different_formats_refuse_each_other) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  Random random(7);
  const TensorMap whole = form().workloads[0].inputs(random, world.size()), shard = form().shard(whole, world.rank(), world.size());
  const RankResult result = run(world, shard, world.rank() == 0 ? grad_signsgd_error_feedback::run_mpi_sparse : grad_signsgd_error_feedback::run_mpi);
  if (world.size() == 1) return expect_right(world, result, whole);
  testing_support::expect_rejection(result, "rank_mismatch");
}

TEST(SignRanks, the_gate_refuses_a_private_payload_that_decodes_to_something_else) {
  const auto world_owner = mpi_world();
  Communicator& world = *world_owner;
  Random random(8);
  const TensorMap whole = form().workloads[0].inputs(random, world.size());
  std::vector<TensorMap> outputs = gather_outputs(world, run(world, form().shard(whole, world.rank(), world.size()), grad_signsgd_error_feedback::run_mpi_sparse).outputs);
  EXPECT_FALSE(form().gate(refs(whole), outputs));
  outputs.front().at("payload").data()[3] ^= std::byte{16};
  EXPECT_TRUE(form().gate(refs(whole), outputs));
}

}  // namespace
}  // namespace faibench
