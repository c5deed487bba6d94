#include "communicator/mpi_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "tensor/error.h"

namespace faibench {
namespace {

using Counts = std::vector<std::int64_t>;

/// Every call with whole vectors in one message, in ragged chunks, and an element a message.
class OfAnyChunk : public testing::TestWithParam<std::int64_t> {
 protected:
  std::unique_ptr<Communicator> world_ = mpi_world({.chunk_limit = GetParam()});
  const int rank_ = world_->rank(), size_ = world_->size();
  std::string where_ = "rank " + std::to_string(rank_) + " of " + std::to_string(size_);

  /// Ragged counts, an empty one among them when there are several ranks.
  Counts ragged() const {
    Counts counts;
    for (int r = 0; r < size_; ++r) counts.push_back(r == 1 ? 0 : 5 + 3 * r);
    return counts;
  }
};
INSTANTIATE_TEST_SUITE_P(MpiCommunicator, OfAnyChunk, testing::Values(mpi_chunk_limit, 4, 1), [](const auto& i) { return "chunks_of_" + std::to_string(i.param); });

TEST_P(OfAnyChunk, all_reduce_gives_every_rank_the_sum_of_all) {
  SCOPED_TRACE(where_);
  for (std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{size_ - 1}, std::int64_t{size_}, std::int64_t{103}}) {
    std::vector<float> in(static_cast<std::size_t>(count)), out(in.size(), -1.0f), wanted(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      in[i] = static_cast<float>(rank_ + 1) + static_cast<float>(i);
      wanted[i] = static_cast<float>(size_ * (size_ + 1) / 2) + static_cast<float>(size_) * static_cast<float>(i);
    }
    world_->all_reduce(View<const float, 1>(in.data(), {count}), View<float, 1>(out.data(), {count}), Reduce::sum);
    EXPECT_EQ(out, wanted) << "count " << count;
    world_->all_reduce(in.data(), in.data(), count, Dtype::f32, Reduce::sum);
    EXPECT_EQ(in, wanted) << "in place, count " << count;
  }
}

TEST_P(OfAnyChunk, all_reduce_finds_the_least_and_the_greatest) {
  SCOPED_TRACE(where_);
  const std::vector<std::int64_t> in = {rank_, -rank_, 7, 8, 9};
  std::vector<std::int64_t> least(5), greatest(5);
  world_->all_reduce(in.data(), least.data(), 5, Dtype::i64, Reduce::min);
  world_->all_reduce(in.data(), greatest.data(), 5, Dtype::i64, Reduce::max);
  EXPECT_EQ(least, (std::vector<std::int64_t>{0, 1 - size_, 7, 8, 9}));
  EXPECT_EQ(greatest, (std::vector<std::int64_t>{size_ - 1, 0, 7, 8, 9}));
}

TEST_P(OfAnyChunk, sixteen_bit_floats_and_bool_are_not_reduced) {
  SCOPED_TRACE(where_);
  std::vector<std::uint16_t> in(4), out(4);
  const Counts counts(static_cast<std::size_t>(size_), 0);
  for (Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::bool_}) {
    EXPECT_THROW(world_->all_reduce(in.data(), out.data(), 4, dtype, Reduce::sum), Error);
    EXPECT_THROW(world_->reduce_scatter(in.data(), out.data(), counts, dtype, Reduce::sum), Error);
  }
}

TEST_P(OfAnyChunk, reduce_scatter_gives_each_rank_its_own_piece) {
  SCOPED_TRACE(where_);
  const Counts counts = ragged();
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const std::int64_t before = std::accumulate(counts.begin(), counts.begin() + rank_, std::int64_t{0});
  std::vector<double> in(static_cast<std::size_t>(total));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<double>(i) * (rank_ + 1);
  std::vector<double> out(static_cast<std::size_t>(counts[static_cast<std::size_t>(rank_)]), -1), wanted = out;
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<double>(before + static_cast<std::int64_t>(i)) * size_ * (size_ + 1) / 2;
  world_->reduce_scatter(in.data(), out.data(), counts, Dtype::f64, Reduce::sum);
  EXPECT_EQ(out, wanted);
}

TEST_P(OfAnyChunk, all_gather_concatenates_in_rank_order) {
  SCOPED_TRACE(where_);
  const Counts counts = ragged();
  std::vector<std::uint16_t> wanted;
  for (int r = 0; r < size_; ++r)
    for (std::int64_t i = 0; i < counts[static_cast<std::size_t>(r)]; ++i) wanted.push_back(static_cast<std::uint16_t>(1000 * r + i));
  const auto before = static_cast<std::size_t>(std::accumulate(counts.begin(), counts.begin() + rank_, std::int64_t{0}));
  const auto own = static_cast<std::size_t>(counts[static_cast<std::size_t>(rank_)]);
  const std::vector<std::uint16_t> in(wanted.begin() + static_cast<std::ptrdiff_t>(before), wanted.begin() + static_cast<std::ptrdiff_t>(before + own));
  std::vector<std::uint16_t> out(wanted.size(), 9), in_place = out;
  world_->all_gather(in.data(), out.data(), counts, Dtype::bf16);
  EXPECT_EQ(out, wanted);
  std::copy(in.begin(), in.end(), in_place.begin() + static_cast<std::ptrdiff_t>(before));
  world_->all_gather(in_place.data() + before, in_place.data(), counts, Dtype::bf16);
  EXPECT_EQ(in_place, wanted);
}

TEST_P(OfAnyChunk, all_to_all_moves_ragged_blocks_with_gaps_between_them) {
  SCOPED_TRACE(where_);
  const auto block = [](int from, int to) { return static_cast<std::int64_t>((from + 2 * to) % 4 * 3); };  // some are empty
  Counts send_counts, send_offsets, recv_counts, recv_offsets;
  std::int64_t sent = 0, received = 0;
  for (int r = 0; r < size_; ++r) {
    send_counts.push_back(block(rank_, r));
    send_offsets.push_back(sent);
    sent += send_counts.back() + 1;
    recv_counts.push_back(block(r, rank_));
    recv_offsets.push_back(received);
    received += recv_counts.back() + 2;
  }
  std::vector<std::int32_t> in(static_cast<std::size_t>(sent), -5), out(static_cast<std::size_t>(received), -1), wanted = out;
  for (int r = 0; r < size_; ++r) {
    for (std::int64_t i = 0; i < block(rank_, r); ++i) in[static_cast<std::size_t>(send_offsets[static_cast<std::size_t>(r)] + i)] = static_cast<std::int32_t>(10000 * rank_ + 100 * r + i);
    for (std::int64_t i = 0; i < block(r, rank_); ++i) wanted[static_cast<std::size_t>(recv_offsets[static_cast<std::size_t>(r)] + i)] = static_cast<std::int32_t>(10000 * r + 100 * rank_ + i);
  }
  world_->all_to_all(in.data(), send_counts, send_offsets, out.data(), recv_counts, recv_offsets, Dtype::i32);
  EXPECT_EQ(out, wanted);
}

TEST_P(OfAnyChunk, broadcast_reaches_all_from_every_root) {
  SCOPED_TRACE(where_);
  for (int root = 0; root < size_; ++root) {
    std::vector<std::uint8_t> data(11, static_cast<std::uint8_t>(rank_));
    world_->broadcast(View<std::uint8_t, 1>(data.data(), {11}), root);
    EXPECT_THAT(data, testing::Each(static_cast<std::uint8_t>(root)));
  }
}

TEST_P(OfAnyChunk, a_token_goes_round_the_ring) {
  SCOPED_TRACE(where_);
  if (size_ == 1) return;
  std::vector<std::uint64_t> token(9, 1);
  if (rank_ == 0) world_->send(token.data(), 9, Dtype::u64, 1);
  world_->receive(token.data(), 9, Dtype::u64, (rank_ + size_ - 1) % size_);
  EXPECT_THAT(token, testing::Each(rank_ == 0 ? static_cast<std::uint64_t>(size_) : static_cast<std::uint64_t>(rank_)));
  for (auto& t : token) ++t;
  if (rank_ != 0) world_->send(token.data(), 9, Dtype::u64, (rank_ + 1) % size_);
}

TEST_P(OfAnyChunk, exchanges_between_the_same_ranks_match_in_their_order) {
  SCOPED_TRACE(where_);
  const int to = (rank_ + 1) % size_, from = (rank_ + size_ - 1) % size_;
  const std::vector<float> first_out(7, static_cast<float>(rank_)), second_out(3, 100.0f + static_cast<float>(rank_));
  std::vector<float> first_in(7), second_in(3);
  const Outgoing o1{first_out.data(), 7, to}, o2{second_out.data(), 3, to};
  const Incoming i1{first_in.data(), 7, from}, i2{second_in.data(), 3, from};
  auto first = world_->start_exchange({&o1, 1}, {&i1, 1}, Dtype::f32);
  auto second = world_->start_exchange({&o2, 1}, {&i2, 1}, Dtype::f32);
  second->wait();
  first->wait();
  EXPECT_THAT(first_in, testing::Each(static_cast<float>(from)));
  EXPECT_THAT(second_in, testing::Each(100.0f + static_cast<float>(from)));
}

TEST_P(OfAnyChunk, split_orders_by_key_and_negative_colors_join_none) {
  SCOPED_TRACE(where_);
  const auto reversed = world_->split(0, size_ - rank_);
  EXPECT_EQ(reversed->rank(), size_ - 1 - rank_);
  EXPECT_EQ(reversed->size(), size_);
  const auto even = world_->split(rank_ % 2 == 0 ? 3 : -1, 0);
  EXPECT_EQ(even == nullptr, rank_ % 2 != 0);
  if (!even) return;
  EXPECT_EQ(even->size(), (size_ + 1) / 2);
  std::vector<std::int32_t> one(9, 1);
  even->all_reduce(one.data(), one.data(), 9, Dtype::i32, Reduce::sum);
  EXPECT_THAT(one, testing::Each((size_ + 1) / 2));
}

TEST_P(OfAnyChunk, barrier_lets_nobody_leave_before_all_have_come) {
  SCOPED_TRACE(where_);
  const auto now = [] { return static_cast<std::int64_t>(std::chrono::steady_clock::now().time_since_epoch().count()); };  // one clock for the whole host
  if (rank_ == size_ - 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::int64_t last_came = now();
  world_->barrier();
  std::int64_t first_left = now();
  world_->all_reduce(&last_came, &last_came, 1, Dtype::i64, Reduce::max);
  world_->all_reduce(&first_left, &first_left, 1, Dtype::i64, Reduce::min);
  EXPECT_GE(first_left, last_came);
}

TEST(MpiCommunicator, an_error_of_mpi_becomes_an_error_that_names_the_call) {
  const auto world = mpi_world();
  float x = 0;
  try {
    world->send(&x, 1, Dtype::f32, world->size());  // no such rank
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::mpi);
    EXPECT_THAT(e.what(), testing::HasSubstr("MPI_Send: "));
  }
}

TEST(MpiCommunicator, refuses_counts_for_another_number_of_ranks) {
  const auto world = mpi_world();
  float x = 0;
  EXPECT_THROW(world->all_gather(&x, &x, Counts(static_cast<std::size_t>(world->size()) + 1, 0), Dtype::f32), Error);
}

TEST(MpiCommunicator, refuses_chunk_limits_that_do_not_fit_an_int) {
  EXPECT_THROW(mpi_world(0), Error);
  EXPECT_THROW(mpi_world(std::int64_t{1} << 31), Error);
}

TEST(MpiCommunicator, a_borrowed_communicator_keeps_its_own_error_handler) {
  MPI_Errhandler before, after;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
  { const auto borrowed = mpi_communicator(MPI_COMM_WORLD); }
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &after);
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace faibench
