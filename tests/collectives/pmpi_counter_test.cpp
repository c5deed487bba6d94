// Bytes on the wire, counted by a layer that knows nothing of schedules, against what the schedules say.
#include "collectives/pmpi_counter.h"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "communicator/mpi_communicator.h"
#include "schedule/executor.h"
#include "schedule/traffic.h"
#include "task/task.h"

namespace faibench {
namespace {

using testing_support::wire_counts;

/// No shared memory and no reads of peers: everything is a message.
struct Setting {
  const char* name;
  std::int64_t chunk_limit;
  int ranks_per_node;
};
class OnTheWire : public testing::TestWithParam<Setting> {
 protected:
  std::unique_ptr<Communicator> world_ =
      mpi_world({.chunk_limit = GetParam().chunk_limit, .network_piece_bytes = mpi_chunk_limit, .shared_memory = false, .peer_reads = false, .ranks_per_node = GetParam().ranks_per_node});
  const int rank_ = world_->rank(), size_ = world_->size();

  void expect_counts(const Traffic& wanted) {
    std::int64_t bytes[2] = {0, 0};
    for (const auto& [peer, counted] : wire_counts().sent) bytes[world_->nodes().same_node(peer, rank_) ? 0 : 1] += counted.bytes;
    EXPECT_EQ(bytes[0], wanted.bytes_sent[0]) << "in the node";
    EXPECT_EQ(bytes[1], wanted.bytes_sent[1]) << "between nodes";
  }
};
INSTANTIATE_TEST_SUITE_P(PmpiCounter, OnTheWire, testing::Values(Setting{"whole_messages", mpi_chunk_limit, 0}, Setting{"chunks_of_1000", 1000, 0}, Setting{"nodes_of_two", mpi_chunk_limit, 2}),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(PmpiCounter, counts_messages_by_peer_and_collectives_by_name) {
  const auto world = mpi_world();
  const int rank = world->rank(), size = world->size(), next = (rank + 1) % size, previous = (rank + size - 1) % size;
  std::vector<float> out(10, 1.0f), in(10);
  wire_counts() = {};
  const Outgoing outgoing{out.data(), 10, next};
  const Incoming incoming{in.data(), 10, previous};
  world->start_exchange({&outgoing, 1}, {&incoming, 1}, Dtype::f32)->wait();
  world->all_reduce(out.data(), in.data(), 10, Dtype::f32, Reduce::sum);
  world->barrier();
  EXPECT_EQ(wire_counts().sent.size(), 1u);
  EXPECT_EQ(wire_counts().sent[next].calls, 1);
  EXPECT_EQ(wire_counts().sent[next].bytes, 40);
  EXPECT_EQ(wire_counts().collectives["MPI_Allreduce"].bytes, 40);
  EXPECT_EQ(wire_counts().collectives["MPI_Barrier"].calls, 1);
}

// In a group whose ranks are numbered otherwise, peers are still those of the world.
TEST(PmpiCounter, knows_peers_by_their_place_in_the_world) {
  const auto world = mpi_world();
  const auto reversed = world->split(0, -world->rank());
  const int size = world->size(), next = (reversed->rank() + 1) % size, previous = (reversed->rank() + size - 1) % size;
  std::int32_t out = 1, in = 0;
  wire_counts() = {};
  const Outgoing outgoing{&out, 1, next};
  const Incoming incoming{&in, 1, previous};
  reversed->start_exchange({&outgoing, 1}, {&incoming, 1}, Dtype::i32)->wait();
  EXPECT_EQ(wire_counts().sent[size - 1 - next].bytes, 4);
}

TEST(PmpiCounter, sees_messages_between_nodes_in_pieces_and_those_within_whole) {
  const auto world = mpi_world({.network_piece_bytes = 12, .ranks_per_node = 2});
  const int rank = world->rank(), size = world->size(), next = (rank + 1) % size, previous = (rank + size - 1) % size;
  std::vector<float> out(10), in(10, -1.0f);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(100 * rank) + static_cast<float>(i);
  wire_counts() = {};
  const Outgoing outgoing{out.data(), 10, next};
  const Incoming incoming{in.data(), 10, previous};
  world->start_exchange({&outgoing, 1}, {&incoming, 1}, Dtype::f32)->wait();
  EXPECT_EQ(wire_counts().sent[next].bytes, 40);
  EXPECT_EQ(wire_counts().sent[next].calls, world->nodes().same_node(rank, next) ? 1 : 4);
  for (std::size_t i = 0; i < in.size(); ++i) EXPECT_EQ(in[i], static_cast<float>(100 * previous) + static_cast<float>(i)) << i;
}

TEST_P(OnTheWire, an_executed_schedule_sends_what_it_says) {
  for (const AllReduce algorithm : {AllReduce::one_shot, AllReduce::two_shot, AllReduce::recursive_doubling, AllReduce::halving_doubling, AllReduce::ring, AllReduce::hierarchical})
    for (const std::int64_t count : {0, 1, 3, 1001, 20011}) {
      if (algorithm == AllReduce::hierarchical && !world_->nodes().uniform()) continue;
      SCOPED_TRACE(std::string(name_of(algorithm)) + ", " + std::to_string(count) + " elements, rank " + std::to_string(rank_) + " of " + std::to_string(size_));
      const auto schedule = all_reduce_schedule(algorithm, count, world_->nodes(), 2, 4);
      std::vector<std::uint16_t> in(static_cast<std::size_t>(count)), out(in.size());
      wire_counts() = {};
      const Executed executed = execute(*schedule, *world_, {in.data(), out.data(), nullptr, nullptr, nullptr}, [](const SumCall&) {});
      const Traffic wanted = traffic_of(*schedule, world_->nodes(), rank_);
      expect_counts(wanted);
      EXPECT_TRUE(wire_counts().collectives.empty());
      for (int level = 0; level < 2; ++level) {
        EXPECT_EQ(executed.bytes_sent[level], wanted.bytes_sent[level]);
        EXPECT_EQ(executed.bytes_received[level], wanted.bytes_received[level]);
      }
      if (GetParam().chunk_limit == mpi_chunk_limit) { EXPECT_EQ(wire_counts().messages_sent(), wanted.messages_sent[0] + wanted.messages_sent[1]); }
    }
}

// Sizes of all three ways: whole partials, pieces, pieces in parts one behind the other.
TEST_P(OnTheWire, tp_allreduce_sends_what_its_schedule_says) {
  const MultiRank& form = *find_task("tp_allreduce_bias_fuse")->multi_rank;
  const auto variant = std::ranges::find_if(form.variants, [](const auto& v) { return v.name == "mpi"; });
  for (const std::int64_t S : {std::int64_t{2}, std::int64_t{8}, std::int64_t{1000}, std::int64_t{60'000}, std::int64_t{100'002}, std::int64_t{(5 << 20) * size_ / 2}}) {
    if (S > (1 << 20) && (GetParam().chunk_limit < mpi_chunk_limit || size_ > 4)) continue;  // many messages, much memory
    SCOPED_TRACE(std::to_string(S) + " bytes, rank " + std::to_string(rank_) + " of " + std::to_string(size_));
    Random random("wire", "", 1, static_cast<std::uint64_t>(S));
    const TensorMap whole = form.scaling->inputs(random, size_, S);
    const std::int64_t came_to = form.scaling->size_of(whole, size_);
    const TensorMap shard = form.shard(whole, rank_, size_);
    const TensorRefMap inputs = refs(shard);
    TensorMap outputs = allocate_outputs(form.contract, inputs);
    TensorRefMap output_refs = refs(outputs);
    MultiRank::Call call{*world_, {inputs, output_refs, {}}};
    wire_counts() = {};
    EXPECT_FALSE(variant->run(call).has_value());
    expect_counts(traffic_of(*form.scaling->schedule(came_to, world_->nodes()), world_->nodes(), rank_));
    if (size_ > 1) { EXPECT_EQ(wire_counts().collectives["MPI_Allreduce"].bytes, 72); }  // what the ranks compare first
    EXPECT_LE(wire_counts().collectives.size(), 1u);
  }
}

}  // namespace
}  // namespace faibench
