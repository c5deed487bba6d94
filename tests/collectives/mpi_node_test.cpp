// Nodes, memory shared between their ranks, the barrier in it, and reads of each other's memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "communicator/mpi_communicator.h"
#include "tensor/error.h"

namespace faibench {
namespace {

using testing::HasSubstr;

/// As MPI tells it, and as if every two ranks, or every rank, had a host of their own.
class OnNodes : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Communicator> world_ = mpi_world({.ranks_per_node = GetParam()});
  const int rank_ = world_->rank(), size_ = world_->size();
  std::span<const int> neighbours() const { return world_->nodes().members(world_->nodes().node_of(rank_)); }
  std::string where_ = "rank " + std::to_string(rank_) + " of " + std::to_string(size_);
};
INSTANTIATE_TEST_SUITE_P(MpiNode, OnNodes, testing::Values(0, 1, 2, 3), [](const auto& i) { return i.param == 0 ? std::string("as_they_are") : "of_" + std::to_string(i.param); });

TEST_P(OnNodes, every_rank_knows_the_same_nodes) {
  SCOPED_TRACE(where_);
  const int per_node = GetParam() == 0 ? size_ : GetParam();
  EXPECT_EQ(world_->nodes().ranks(), size_);
  EXPECT_EQ(world_->nodes().nodes(), (size_ + per_node - 1) / per_node);
  EXPECT_EQ(world_->nodes().node_of(rank_), rank_ / per_node);
}

TEST_P(OnNodes, ranks_of_a_node_reach_each_others_memory_and_no_other) {
  SCOPED_TRACE(where_);
  const auto memory = world_->share(rank_ == 0 ? 5000 : 12);  // the largest counts
  ASSERT_NE(memory, nullptr) << world_->why_not_shared();     // the same on all ranks
  EXPECT_EQ(memory->bytes(), 5000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->own()) % 4096, 0u);
  EXPECT_EQ(memory->own(), memory->of(rank_));
  for (std::int64_t i = 0; i < memory->bytes(); ++i) ASSERT_EQ(memory->own()[i], std::byte{0});
  for (int round = 1; round <= 50; ++round) {
    memory->own()[4999] = static_cast<std::byte>(round + rank_);
    world_->node_barrier();
    for (int peer = 0; peer < size_; ++peer) {
      EXPECT_EQ(memory->of(peer) != nullptr, world_->nodes().same_node(peer, rank_));
      if (memory->of(peer)) { EXPECT_EQ(memory->of(peer)[4999], static_cast<std::byte>(round + peer)) << "rank " << peer; }
    }
    world_->node_barrier();
  }
}

TEST_P(OnNodes, addresses_of_peers_lie_where_this_rank_keeps_its_own) {
  SCOPED_TRACE(where_);
  auto first = world_->share(100);
  const auto second = world_->share(9000);
  ASSERT_TRUE(first && second) << world_->why_not_shared();
  int elsewhere = 0;
  for (int peer = 0; peer < size_; ++peer) {
    const bool near = world_->nodes().same_node(peer, rank_);
    EXPECT_EQ(world_->peer_address(peer, first->own() + 99), near ? first->of(peer) + 99 : nullptr);
    EXPECT_EQ(world_->peer_address(peer, second->own() + 8999), near ? second->of(peer) + 8999 : nullptr);
    EXPECT_EQ(world_->peer_address(peer, &elsewhere), nullptr);
  }
  const std::byte* gone = first->own();
  first.reset();
  EXPECT_EQ(world_->peer_address(rank_, gone), nullptr);
  EXPECT_NE(world_->peer_address(rank_, second->own()), nullptr);
}

TEST_P(OnNodes, the_barrier_lets_nobody_leave_before_all_of_the_node_have_come) {
  SCOPED_TRACE(where_);
  const auto now = [] { return static_cast<std::int64_t>(std::chrono::steady_clock::now().time_since_epoch().count()); };  // one clock for the whole host
  const auto node = world_->split(world_->nodes().node_of(rank_), rank_);
  for (const bool with_flags : {false, true}) {
    const auto memory = with_flags ? world_->share(8) : nullptr;
    if (rank_ == neighbours().back()) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::int64_t last_came = now();
    world_->node_barrier();
    std::int64_t first_left = now();
    node->all_reduce(&last_came, &last_came, 1, Dtype::i64, Reduce::max);
    node->all_reduce(&first_left, &first_left, 1, Dtype::i64, Reduce::min);
    EXPECT_GE(first_left, last_came) << (with_flags ? "flags" : "messages");
  }
}

// A rank that waits at the flags still gives MPI its turn: the message that keeps the other one away is larger than what MPI takes without the receiver.
TEST_P(OnNodes, the_barrier_does_not_hold_up_messages_under_way) {
  SCOPED_TRACE(where_);
  const auto memory = world_->share(8);
  if (neighbours().size() < 2) return;
  std::vector<float> data(200000, static_cast<float>(rank_));
  std::unique_ptr<Exchange> sending;
  if (rank_ == neighbours()[0]) {
    const Outgoing message{data.data(), 200000, neighbours()[1]};
    sending = world_->start_exchange({&message, 1}, {}, Dtype::f32);
  }
  if (rank_ == neighbours()[1]) world_->receive(data.data(), 0, Dtype::f32, neighbours()[0]);
  std::unique_ptr<Exchange> receiving;
  if (rank_ == neighbours()[1]) {
    const Incoming message{data.data(), 200000, neighbours()[0]};
    receiving = world_->start_exchange({}, {&message, 1}, Dtype::f32);
    receiving->wait();
    EXPECT_EQ(data[199999], static_cast<float>(neighbours()[0]));
  }
  world_->node_barrier();
  if (sending) sending->wait();
}

TEST_P(OnNodes, private_memory_of_a_peer_is_read_in_one_copy) {
  SCOPED_TRACE(where_);
  if (!world_->reads_peers()) GTEST_SKIP() << "reading another process's memory is not allowed here";
  std::vector<std::int32_t> own(100003), seen(own.size());
  std::iota(own.begin(), own.end(), 1000 * rank_);
  const std::int64_t address = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(own.data()));
  std::vector<std::int64_t> addresses(static_cast<std::size_t>(size_));
  const std::vector<std::int64_t> one(static_cast<std::size_t>(size_), 1);
  world_->all_gather(&address, addresses.data(), one, Dtype::i64);
  for (int peer : neighbours()) {
    if (peer == rank_) continue;
    std::vector<std::int32_t> wanted(own.size());
    std::iota(wanted.begin(), wanted.end(), 1000 * peer);
    world_->read_peer(peer, reinterpret_cast<const void*>(static_cast<std::intptr_t>(addresses[static_cast<std::size_t>(peer)])), seen.data(), static_cast<std::int64_t>(own.size() * 4));
    EXPECT_EQ(seen, wanted) << "of rank " << peer;
    EXPECT_THROW(world_->read_peer(peer, reinterpret_cast<const void*>(8), seen.data(), 16), Error);
  }
  world_->barrier();  // nobody's vector goes before all have read it
}

TEST(MpiNode, shared_memory_that_is_switched_off_is_refused_with_the_reason) {
  const auto world = mpi_world({.shared_memory = false, .peer_reads = false});
  EXPECT_EQ(world->why_not_shared(), "");
  EXPECT_EQ(world->share(8), nullptr);
  EXPECT_THAT(world->why_not_shared(), HasSubstr("switched off"));
  EXPECT_FALSE(world->reads_peers());
  world->node_barrier();
}

TEST(MpiNode, more_shared_memory_than_there_is_room_for_is_refused_on_all_ranks) {
  const auto world = mpi_world();
  EXPECT_EQ(world->share(world->rank() == 0 ? std::int64_t{1} << 50 : 8), nullptr);  // one rank's wish is enough
  EXPECT_THAT(world->why_not_shared(), HasSubstr("KiB"));
  EXPECT_NE(world->share(8), nullptr);
}

TEST(MpiNode, the_environment_switches_what_the_defaults_have_on) {
  ::setenv("FAIBENCH_SHARED_MEMORY", "0", 1);
  ::setenv("FAIBENCH_CHUNK_LIMIT", "77", 1);
  ::setenv("FAIBENCH_RANKS_PER_NODE", "2", 1);
  ::setenv("FAIBENCH_NETWORK_PIECE", "1000", 1);
  const MpiOptions options = mpi_options_from_environment();
  EXPECT_FALSE(options.shared_memory);
  EXPECT_TRUE(options.peer_reads);
  EXPECT_EQ(options.chunk_limit, 77);
  EXPECT_EQ(options.ranks_per_node, 2);
  EXPECT_EQ(options.network_piece_bytes, 1000);
  for (const char* nonsense : {"x", "0", "99999999999", "3 "}) {
    ::setenv("FAIBENCH_CHUNK_LIMIT", nonsense, 1);
    EXPECT_THROW(mpi_options_from_environment(), Error) << nonsense;
  }
  for (const char* name : {"FAIBENCH_SHARED_MEMORY", "FAIBENCH_CHUNK_LIMIT", "FAIBENCH_RANKS_PER_NODE", "FAIBENCH_NETWORK_PIECE"}) ::unsetenv(name);
}

TEST(MpiNode, the_librarys_all_to_all_moves_what_ours_moves) {
  for (const std::int64_t limit : {mpi_chunk_limit, std::int64_t{4}}) {  // counts past the limit of one rank send all to the other way
    const auto world = mpi_world({.chunk_limit = limit});
    const int rank = world->rank(), size = world->size();
    std::vector<std::int64_t> send_counts, send_offsets, recv_counts, recv_offsets;
    std::int64_t sent = 0, received = 0;
    for (int r = 0; r < size; ++r) {
      send_counts.push_back((rank + 2 * r) % 4 * 3);
      send_offsets.push_back(sent);
      sent += send_counts.back() + 1;
      recv_counts.push_back((r + 2 * rank) % 4 * 3);
      recv_offsets.push_back(received);
      received += recv_counts.back() + 2;
    }
    std::vector<std::uint16_t> in(static_cast<std::size_t>(sent)), ours(static_cast<std::size_t>(received), 9), librarys = ours;
    std::iota(in.begin(), in.end(), static_cast<std::uint16_t>(100 * rank));
    world->all_to_all(in.data(), send_counts, send_offsets, ours.data(), recv_counts, recv_offsets, Dtype::bf16);
    world->library_all_to_all(in.data(), send_counts, send_offsets, librarys.data(), recv_counts, recv_offsets, Dtype::bf16);
    EXPECT_EQ(ours, librarys);
  }
}

}  // namespace
}  // namespace faibench
