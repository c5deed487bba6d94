#include "communicator/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "collectives/fake_nccl.h"
#include "patience.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing_support::FakeNccl;
using testing_support::NcclFabric;
using Counts = std::vector<std::int64_t>;

/// Runs `body` as every rank of a group at once, each on a thread; gives what each threw ("" where nothing).
template <class F>
std::vector<std::string> run_ranks(NcclFabric& fabric, int ranks, F body, NcclOptions options = {.patience_seconds = 60}) {
  NcclLibrary::Id id = FakeNccl(fabric, 0).unique_id();
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        auto library = std::make_shared<FakeNccl>(fabric, rank);
        body(*nccl_communicator(library, id, ranks, rank, NodeMap::regular(ranks, 4), options), *library);
      } catch (const Error& e) {
        errors[static_cast<std::size_t>(rank)] = e.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

void expect_fine(NcclFabric& fabric, const std::vector<std::string>& errors) {
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  EXPECT_EQ(fabric.complaints(), "");
}

class OfAnySize : public testing::TestWithParam<int> {
 protected:
  const int ranks_ = GetParam();
  NcclFabric fabric_;
};
INSTANTIATE_TEST_SUITE_P(NcclCommunicator, OfAnySize, testing::Values(1, 2, 3, 4, 5, 7, 8));

TEST_P(OfAnySize, reduces_gathers_scatters_and_broadcasts_like_any_transport) {
  expect_fine(fabric_, run_ranks(fabric_, ranks_, [&](Communicator& group, FakeNccl&) {
    const int rank = group.rank(), size = group.size();
    Counts counts;
    for (int r = 0; r < size; ++r) counts.push_back(r == 1 ? 0 : 5 + 3 * r);
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    std::vector<float> ones(static_cast<std::size_t>(total), static_cast<float>(rank + 1)), sum(ones.size());
    group.all_reduce(ones.data(), sum.data(), total, Dtype::f32, Reduce::sum);
    EXPECT_EQ(sum, std::vector<float>(sum.size(), static_cast<float>(size * (size + 1) / 2)));

    std::vector<float> piece(static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]), -1);
    group.reduce_scatter(ones.data(), piece.data(), counts, Dtype::f32, Reduce::max);
    EXPECT_EQ(piece, std::vector<float>(piece.size(), static_cast<float>(size)));

    const std::vector<std::uint16_t> own(piece.size(), static_cast<std::uint16_t>(100 + rank));
    std::vector<std::uint16_t> all(static_cast<std::size_t>(total)), wanted;
    group.all_gather(own.data(), all.data(), counts, Dtype::bf16);
    for (int r = 0; r < size; ++r) wanted.insert(wanted.end(), static_cast<std::size_t>(counts[static_cast<std::size_t>(r)]), static_cast<std::uint16_t>(100 + r));
    EXPECT_EQ(all, wanted);

    std::int64_t word = rank == size - 1 ? 77 : 0;
    group.broadcast(&word, 1, Dtype::i64, size - 1);
    EXPECT_EQ(word, 77);
    group.barrier();
  }));
}

TEST_P(OfAnySize, sends_every_pair_its_own_count_and_itself_too) {
  expect_fine(fabric_, run_ranks(fabric_, ranks_, [&](Communicator& group, FakeNccl&) {
    const int rank = group.rank(), size = group.size();
    Counts to, to_at, from, from_at;
    std::int64_t out_total = 0, in_total = 0;
    for (int peer = 0; peer < size; ++peer) {
      to.push_back((rank + 2 * peer) % 4);
      from.push_back((peer + 2 * rank) % 4);
      to_at.push_back(out_total);
      from_at.push_back(in_total);
      out_total += to.back();
      in_total += from.back();
    }
    std::vector<std::int32_t> out(static_cast<std::size_t>(out_total)), in(static_cast<std::size_t>(in_total), -1);
    for (int peer = 0; peer < size; ++peer) std::fill_n(out.begin() + to_at[static_cast<std::size_t>(peer)], to[static_cast<std::size_t>(peer)], 1000 * rank + peer);
    group.all_to_all(out.data(), to, to_at, in.data(), from, from_at, Dtype::i32);
    for (int peer = 0; peer < size; ++peer)
      for (std::int64_t i = 0; i < from[static_cast<std::size_t>(peer)]; ++i) EXPECT_EQ(in[static_cast<std::size_t>(from_at[static_cast<std::size_t>(peer)] + i)], 1000 * peer + rank);
  }));
}

TEST_P(OfAnySize, splits_into_groups_that_know_their_nodes) {
  expect_fine(fabric_, run_ranks(fabric_, ranks_, [&](Communicator& group, FakeNccl&) {
    const auto part = group.split(group.rank() % 2, -group.rank());
    ASSERT_NE(part, nullptr);
    EXPECT_EQ(part->size(), (group.size() + 1 - group.rank() % 2) / 2);
    std::int64_t least = group.rank();
    part->all_reduce(&least, &least, 1, Dtype::i64, Reduce::min);
    EXPECT_EQ(least, group.rank() % 2);
    EXPECT_EQ(part->nodes().ranks(), part->size());
    EXPECT_EQ(part->rank(), (group.size() - 1 - group.rank()) / 2) << "ordered by descending rank, as the key asks";
  }));
}

TEST(NcclCommunicator, takes_device_buffers_without_staging) {
  NcclFabric fabric;
  expect_fine(fabric, run_ranks(fabric, 2, [](Communicator& group, FakeNccl& library) {
    auto* data = static_cast<float*>(library.allocate(3 * sizeof(float)));
    std::fill_n(data, 3, 1.5f);
    group.all_reduce(data, data, 3, Dtype::f32, Reduce::sum);
    EXPECT_EQ(data[2], 3.0f);
    library.free(data);
  }, {.buffers_on_device = true, .patience_seconds = 60}));
}

TEST(NcclCommunicator, messages_of_one_exchange_progress_together_whatever_their_order) {
  NcclFabric fabric;
  expect_fine(fabric, run_ranks(fabric, 3, [](Communicator& group, FakeNccl&) {
    const int next = (group.rank() + 1) % 3, before = (group.rank() + 2) % 3;
    const std::vector<int> out(1000, group.rank());
    std::vector<int> in(1000, -1);
    const Outgoing outgoing{out.data(), 1000, next};
    const Incoming incoming{in.data(), 1000, before};
    group.start_exchange({&outgoing, 1}, {&incoming, 1}, Dtype::i32)->wait();
    EXPECT_EQ(in, std::vector<int>(1000, before));
  }));
}

TEST(NcclDouble, catches_unequal_counts) {
  NcclFabric fabric;
  const auto errors = run_ranks(fabric, 2, [](Communicator& group, FakeNccl&) {
    std::vector<float> data(10);
    group.all_reduce(data.data(), data.data(), group.rank() == 0 ? 10 : 9, Dtype::f32, Reduce::sum);
  });
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("rank 0 calls all_reduce of 10 f32 where rank 1 calls all_reduce of 9 f32"));
  EXPECT_EQ(fabric.complaints(), "");
}

TEST(NcclDouble, catches_unequal_types_of_a_message) {
  NcclFabric fabric;
  const auto errors = run_ranks(fabric, 2, [](Communicator& group, FakeNccl&) {
    std::vector<float> data(4);
    if (group.rank() == 0) group.send(data.data(), 4, Dtype::f32, 1);
    else group.receive(data.data(), 4, Dtype::i32, 0);
  });
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("send of 4 f32"));
}

TEST(NcclDouble, catches_calls_that_had_to_be_in_one_group) {
  NcclFabric fabric;
  const auto errors = run_ranks(fabric, 2, [](Communicator& group, FakeNccl&) {
    int word = group.rank();
    const int peer = 1 - group.rank();
    group.send(&word, 1, Dtype::i32, peer);  // each waits for the other's receive
    group.receive(&word, 1, Dtype::i32, peer);
  });
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("must be in one group"));
}

TEST(NcclDouble, catches_collectives_in_another_order) {
  NcclFabric fabric;
  const auto errors = run_ranks(fabric, 2, [](Communicator& group, FakeNccl&) {
    std::int64_t word = 1;
    if (group.rank() == 0) group.broadcast(&word, 1, Dtype::i64, 0);
    else group.all_reduce(&word, &word, 1, Dtype::i64, Reduce::sum);
  });
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("rank 0 calls broadcast of 1 i64"));
}

TEST(NcclCommunicator, a_peer_that_dies_ends_the_wait_of_all_others_and_the_group_is_aborted) {
  NcclFabric fabric;
  const auto errors = run_ranks(fabric, 3, [&](Communicator& group, FakeNccl&) {
    if (group.rank() == 2) {
      group.barrier();  // all have started
      fabric.kill(2);
      return;
    }
    std::vector<float> data(8);
    try {
      group.barrier();
      group.all_reduce(data.data(), data.data(), 8, Dtype::f32, Reduce::sum);
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("remote process of rank 2 exited"));
    }
    group.barrier();  // the group is of no use any more, and says so
  });
  EXPECT_THAT(errors[0], HasSubstr("was aborted"));
  EXPECT_THAT(errors[1], HasSubstr("was aborted"));
  EXPECT_EQ(fabric.complaints(), "") << "aborted, not destroyed, and nothing leaks";
}

TEST(NcclCommunicator, gives_up_on_a_peer_that_never_comes) {
  NcclFabric fabric;
  std::atomic<bool> given_up = false;
  const auto errors = run_ranks(fabric, 2, [&](Communicator& group, FakeNccl&) {
    if (group.rank() == 1) {
      EXPECT_TRUE(testing_support::wait_until([&] { return given_up.load(); }));
      return;
    }
    try {
      group.barrier();
    } catch (const Error&) {
      given_up = true;
      throw;
    }
  }, {.patience_seconds = 2});  // in which both come through the start, too
  EXPECT_THAT(errors[0], HasSubstr("a peer is gone or made another call"));
  EXPECT_EQ(errors[1], "");
}

TEST(NcclCommunicator, sixteen_bit_floats_are_moved_not_reduced) {
  NcclFabric fabric;
  const auto errors = run_ranks(fabric, 1, [](Communicator& group, FakeNccl&) {
    std::uint16_t word = 0;
    group.all_reduce(&word, &word, 1, Dtype::bf16, Reduce::sum);
  });
  EXPECT_THAT(errors[0], HasSubstr("bf16 is moved, not reduced"));
}

TEST(NcclLibrary, says_why_it_cannot_be_had) {
  std::string why;
  const auto library = load_nccl(1000, why);  // no machine has so many GPUs
  EXPECT_EQ(library, nullptr);
  EXPECT_NE(why, "");
}

}  // namespace
}  // namespace faibench
