// The multi-rank form under mpirun: right by the gate on every rank, and to the bit what the one-process form gives.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "collectives/rank_form.h"

namespace faibench {
namespace {

using testing_support::expect_rejection;
using testing_support::RankResult;

const Task& task() { return *find_task("tp_allreduce_bias_fuse"); }
const MultiRank& form() { return *task().multi_rank; }

RankResult run(Communicator& communicator, const std::string& name, const TensorMap& shard) {
  return testing_support::run_on_ranks(form(), communicator, shard, testing_support::variant_of(form(), name));
}

TensorMap filled(Dtype dtype, std::int64_t P, std::int64_t M, std::int64_t N, std::uint64_t seed) {
  Random random(seed);
  TensorMap whole;
  whole.add("partials", Tensor(dtype, {P, M, N}));
  whole.add("bias", Tensor(dtype, {N}));
  for (auto& [name, tensor] : whole) {
    std::vector<float> values(static_cast<std::size_t>(tensor.size()));
    random.fill_normal(values);
    visit_dtype(dtype, [&, &t = tensor]<class T>(T) {
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>)
        for (std::size_t i = 0; i < values.size(); ++i) t.template flat<T>()[i] = round_to<T>(values[i]);
    });
  }
  return whole;
}

/// The ways that add in the order of one process must have its bits.
void expect_bits_of_one_process(Communicator& communicator, const std::string& name, const TensorMap& whole, const RankResult& result) {
  if (name == "mpi_baseline" || (name == "mpi" && communicator.nodes().nodes() > 1)) return;  // they add in other orders
  const TensorMap one_process = run_kernel(task().contract, task().find_variant("cpu")->kernel, refs(whole));
  EXPECT_EQ(std::memcmp(one_process.at("out").data(), result.outputs.at("out").data(), static_cast<std::size_t>(one_process.at("out").bytes())), 0) << "not the bits of the one-process sum";
}

void expect_right(Communicator& communicator, const std::string& name, const TensorMap& whole) {
  const RankResult result = run(communicator, name, form().shard(whole, communicator.rank(), communicator.size()));
  testing_support::expect_right(form(), communicator, whole, result);
  expect_bits_of_one_process(communicator, name, whole, result);
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
  std::string where(Dtype dtype, std::int64_t M, std::int64_t N) const {
    return "rank " + std::to_string(rank_) + " of " + std::to_string(size_) + ", " + std::string(name_of(dtype)) + ", " + std::to_string(M) + " x " + std::to_string(N);
  }
};
const Setting settings[] = {
    {"baseline", "mpi_baseline"},
    {"baseline_in_small_chunks", "mpi_baseline", {.chunk_limit = 1000}},
    {"reads", "mpi"},
    {"messages", "mpi", {.shared_memory = false, .peer_reads = false}},
    {"messages_in_small_chunks", "mpi", {.chunk_limit = 1000, .shared_memory = false, .peer_reads = false}},
    {"by_nodes_of_two", "mpi", {.ranks_per_node = 2}},
    {"deterministic_on_nodes_of_two", "mpi_deterministic", {.ranks_per_node = 2}},
    {"registered", "mpi_registered"},
    {"registered_without_shared_memory", "mpi_registered", {.shared_memory = false}},
    {"registered_on_nodes_of_one", "mpi_registered", {.ranks_per_node = 1}},
    {"the_nccl_form", "nccl"},
};
INSTANTIATE_TEST_SUITE_P(tp_allreduce_bias_fuse, OnRanks, testing::ValuesIn(settings), [](const auto& i) { return std::string(i.param.name); });

// Fewer elements than ranks, sizes that ranks, lines and vectors do not divide, the one-shot path and the piecewise one.
TEST_P(OnRanks, every_size_and_dtype_is_right) {
  for (Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16})
    for (const auto& [M, N] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 2}, {3, 1}, {1, 33}, {7, 31}, {8, 96}, {0, 5}, {4, 0}, {37, 1001}, {129, 513}}) {
      SCOPED_TRACE(where(dtype, M, N));
      expect_right(*world_, GetParam().variant, filled(dtype, size_, M, N, 11));
    }
}

TEST_P(OnRanks, pieces_of_several_chunks_are_right) {
  if (size_ > 4) return;                          // ranks that share two cores would take a minute for what four have shown
  const std::int64_t M = 701, N = 1013 * size_;  // about 1.4 MiB a piece: a chunk and a ragged one
  SCOPED_TRACE(where(Dtype::bf16, M, N));
  if (GetParam().options.chunk_limit < mpi_chunk_limit && GetParam().variant == "mpi_baseline") return;  // thousands of reductions: the sizes above cover it
  expect_right(*world_, GetParam().variant, filled(Dtype::bf16, size_, M, N, 12));
}

TEST_P(OnRanks, the_small_workloads_are_right) {
  for (const auto& workload : form().workloads) {
    if (workload.name == "standard" || workload.name == "decode") continue;  // too large for a test
    Random random(task().name, workload.name, 1, 0);
    SCOPED_TRACE(workload.name);
    expect_right(*world_, GetParam().variant, workload.inputs(random, size_));
  }
}

TEST_P(OnRanks, the_fixed_cases_are_right_or_rejected_alike) {
  const MultiRank::RankVariant variants[] = {testing_support::variant_of(form(), GetParam().variant)};
  testing_support::expect_every_case_right_or_rejected_alike(form(), *world_, variants, [&](const MultiRank::RankVariant& variant, const TensorMap& whole, const RankResult& result) {
    expect_bits_of_one_process(*world_, variant.name, whole, result);
  });
}

TEST_P(OnRanks, all_ranks_report_what_one_rank_alone_has) {
  if (size_ == 1) return;
  for (int odd = 0; odd < size_; odd += size_ - 1)  // the first and the last
    for (const char* what : {"M", "N", "dtype", "bias", "last byte of bias"}) {
      SCOPED_TRACE(std::string(what) + " of rank " + std::to_string(odd) + ", seen on rank " + std::to_string(rank_));
      const std::string kind = what;
      const bool here = rank_ == odd;
      const TensorMap whole = filled(here && kind == "dtype" ? Dtype::f16 : Dtype::bf16, size_, here && kind == "M" ? 6 : 5, here && kind == "N" ? 8 : 7, 13);
      TensorMap shard = form().shard(whole, rank_, size_);
      if (here && kind == "bias") shard.at("bias").data()[0] ^= std::byte{1};
      if (here && kind == "last byte of bias") shard.at("bias").data()[shard.at("bias").bytes() - 1] ^= std::byte{0x80};
      expect_rejection(run(*world_, GetParam().variant, shard), "rank_mismatch");
    }
  expect_right(*world_, GetParam().variant, filled(Dtype::bf16, size_, 5, 7, 14));  // and the group still works
}

TEST(OnRanksMpi, infinities_and_nan_give_the_same_bits_on_all_ranks) {
  const auto world = mpi_world();
  TensorMap whole = filled(Dtype::f32, world->size(), 3, 50, 15);
  const auto x = whole.at("partials").flat<float>();
  x[0] = INFINITY;
  x[x.size() - 150] = -INFINITY;  // the same element of the last rank
  x[1] = std::bit_cast<float>(0x7fc12345u);
  x[x.size() - 149] = std::bit_cast<float>(0xffc54321u);
  x[2] = -INFINITY;
  expect_right(*world, "mpi", whole);
}

TEST(MultiRankGate, refuses_one_rank_with_other_bits_and_a_rank_without_output) {
  const TensorMap whole = filled(Dtype::bf16, 3, 4, 20, 16);
  const TensorMap right = run_kernel(task().contract, task().find_variant("cpu")->kernel, refs(whole));
  std::vector<TensorMap> outputs;
  for (int r = 0; r < 3; ++r) outputs.push_back(clone(right));
  EXPECT_FALSE(form().gate(refs(whole), outputs).has_value());
  outputs[2].at("out").data()[6] ^= std::byte{1};  // within the bound, perhaps, but not what the others have
  EXPECT_TRUE(form().gate(refs(whole), outputs).has_value());
  outputs[2] = TensorMap();
  EXPECT_TRUE(form().gate(refs(whole), outputs).has_value());
}

TEST(MultiRankFloor, is_twice_the_share_that_others_need) {
  const TensorMap whole = filled(Dtype::bf16, 4, 10, 100, 17);
  EXPECT_DOUBLE_EQ(form().wire_floor(whole, 4).bytes, 2.0 * 3 / 4 * 1000 * 2);
  EXPECT_DOUBLE_EQ(form().wire_floor(whole, 1).bytes, 0.0);
}

}  // namespace
}  // namespace faibench
