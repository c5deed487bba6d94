// Schedules on ranks: right sums for every algorithm, in messages of any chunk, in emulated nodes, and read straight from registered memory.
#include "schedule/executor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "communicator/mpi_communicator.h"
#include "tensor/error.h"

namespace faibench {
namespace {

struct Setting {
  const char* name;
  MpiOptions options;
};
const Setting settings[] = {
    {"one_node", {}},
    {"small_chunks_by_messages", {.chunk_limit = 5, .shared_memory = false}},
    {"nodes_of_one", {.ranks_per_node = 1}},
    {"nodes_of_two", {.ranks_per_node = 2}},
};
constexpr AllReduce algorithms[] = {AllReduce::one_shot, AllReduce::two_shot, AllReduce::recursive_doubling, AllReduce::halving_doubling, AllReduce::ring, AllReduce::hierarchical};
constexpr std::int64_t counts[] = {0, 1, 2, 7, 1000, 4099};

class OnSchedules : public testing::TestWithParam<Setting> {
 protected:
  std::unique_ptr<Communicator> world_ = mpi_world(GetParam().options);
  const int rank_ = world_->rank(), size_ = world_->size();
};
INSTANTIATE_TEST_SUITE_P(Executor, OnSchedules, testing::ValuesIn(settings), [](const auto& i) { return std::string(i.param.name); });

std::int32_t value_of(int rank, std::int64_t i) { return static_cast<std::int32_t>((rank + 1) * (i + 3) % 1009); }

/// i32 on the wire, i64 under way; the finished sum gets 5 * index on top, so that what is finished twice or never is seen.
void add(const SumCall& call) {
  for (std::int64_t i = 0; i < call.count; ++i) {
    std::int64_t sum = 0;
    for (const auto& term : call.terms) {
      const bool wide = term.buffer == Buffer::partial || term.buffer == Buffer::arrived_partial;
      sum += wide ? static_cast<const std::int64_t*>(term.data)[i] : static_cast<const std::int32_t*>(term.data)[i];
    }
    if (call.into_buffer == Buffer::output) static_cast<std::int32_t*>(call.into)[i] = static_cast<std::int32_t>(sum + 5 * (call.offset + i));
    else static_cast<std::int64_t*>(call.into)[i] = sum;
  }
}

std::vector<std::int32_t> sums(int ranks, std::int64_t first, std::int64_t count) {
  std::vector<std::int32_t> wanted(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    for (int r = 0; r < ranks; ++r) wanted[static_cast<std::size_t>(i)] += value_of(r, first + i) + (r == 0 ? static_cast<std::int32_t>(5 * i) : 0);
  return wanted;
}

TEST_P(OnSchedules, every_all_reduce_gives_every_rank_the_sum) {
  for (const AllReduce algorithm : algorithms)
    for (const std::int64_t count : counts) {
      if (algorithm == AllReduce::hierarchical && !world_->nodes().uniform()) continue;
      SCOPED_TRACE(std::string(name_of(algorithm)) + ", " + std::to_string(count) + " on rank " + std::to_string(rank_) + " of " + std::to_string(size_));
      const auto schedule = all_reduce_schedule(algorithm, count, world_->nodes(), 4, 8);
      std::vector<std::int32_t> in(static_cast<std::size_t>(count)), out(in.size(), -7);
      for (std::int64_t i = 0; i < count; ++i) in[static_cast<std::size_t>(i)] = value_of(rank_, i);
      const auto before = in;
      const Executed executed = execute(*schedule, *world_, {in.data(), out.data(), nullptr, nullptr, nullptr}, add);
      EXPECT_EQ(out, sums(size_, 0, count));
      EXPECT_EQ(in, before);
      EXPECT_EQ(executed.rounds, schedule->rounds());
      EXPECT_EQ(executed.bytes_read, 0);  // vectors are private
    }
}

// Twice, with other numbers: what is read too early or too late gives the first time's.
TEST_P(OnSchedules, registered_buffers_are_read_in_place) {
  const std::int64_t most = 4099;
  const auto memory = world_->share(8 * most);
  if (!memory) {
    EXPECT_FALSE(GetParam().options.shared_memory) << world_->why_not_shared();
    return;
  }
  auto* in = reinterpret_cast<std::int32_t*>(memory->own());
  auto* shared_out = in + most;
  std::vector<std::int32_t> private_out(static_cast<std::size_t>(most));
  for (const AllReduce algorithm : algorithms)
    for (const std::int64_t count : counts)
      for (const bool output_too : {false, true})
        for (int again = 0; again < 2; ++again) {
          if (algorithm == AllReduce::hierarchical && !world_->nodes().uniform()) continue;
          SCOPED_TRACE(std::string(name_of(algorithm)) + ", " + std::to_string(count) + " on rank " + std::to_string(rank_) + " of " + std::to_string(size_) + (output_too ? ", output too" : ""));
          const auto schedule = all_reduce_schedule(algorithm, count, world_->nodes(), 4, 8);
          std::int32_t* const out = output_too ? shared_out : private_out.data();
          for (std::int64_t i = 0; i < count; ++i) in[i] = value_of(rank_, 100 * again + i);
          const Executed executed = execute(*schedule, *world_, {in, out, nullptr, nullptr, nullptr}, add);
          EXPECT_EQ(std::vector<std::int32_t>(out, out + count), sums(size_, 100 * again, count));
          EXPECT_LE(executed.bytes_read, executed.bytes_received[0]);
          if (algorithm == AllReduce::one_shot || (output_too && algorithm == AllReduce::two_shot)) { EXPECT_EQ(executed.bytes_read, executed.bytes_received[0]); }
          if (world_->nodes().nodes() == 1 && algorithm == AllReduce::one_shot) { EXPECT_EQ(executed.messages_sent, 0); }
        }
}

TEST_P(OnSchedules, every_all_gather_concatenates) {
  std::vector<std::int64_t> lengths;
  for (int r = 0; r < size_; ++r) lengths.push_back(r == 1 ? 0 : 3 + 40 * r);
  std::vector<std::int32_t> wanted;
  for (int r = 0; r < size_; ++r)
    for (std::int64_t i = 0; i < lengths[static_cast<std::size_t>(r)]; ++i) wanted.push_back(value_of(r, i));
  for (const AllGather algorithm : {AllGather::direct, AllGather::ring, AllGather::log_step}) {
    SCOPED_TRACE(std::string(name_of(algorithm)) + " on rank " + std::to_string(rank_) + " of " + std::to_string(size_));
    const auto schedule = all_gather_schedule(algorithm, lengths, world_->nodes(), 4);
    std::vector<std::int32_t> in(static_cast<std::size_t>(lengths[static_cast<std::size_t>(rank_)])), out(wanted.size(), -1);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = value_of(rank_, static_cast<std::int64_t>(i));
    execute(*schedule, *world_, {in.data(), out.data(), nullptr, nullptr, nullptr}, [](const SumCall& call) {
      ASSERT_EQ(call.terms.size(), 1u);
      std::memmove(call.into, call.terms[0].data, static_cast<std::size_t>(call.count) * 4);
    });
    EXPECT_EQ(out, wanted);
  }
}

TEST_P(OnSchedules, a_pipeline_runs_every_stage_once_and_in_order) {
  constexpr std::int64_t part = 301;
  for (const AllReduce algorithm : {AllReduce::one_shot, AllReduce::two_shot, AllReduce::ring})
    for (const int depth : {1, 2, 3})
      for (const std::size_t parts : {0u, 1u, 2u, 5u}) {
        SCOPED_TRACE(std::string(name_of(algorithm)) + ", " + std::to_string(parts) + " parts, " + std::to_string(depth) + " deep, rank " + std::to_string(rank_) + " of " + std::to_string(size_));
        const auto schedule = all_reduce_schedule(algorithm, part, world_->nodes(), 4, 8);
        std::vector<std::int32_t> in(part * parts), out(in.size(), -7);
        std::vector<std::size_t> began, ended;
        std::vector<Stage> stages;
        for (std::size_t k = 0; k < parts; ++k)
          stages.push_back({schedule.get(), {in.data() + k * part, out.data() + k * part, nullptr, nullptr, nullptr},
                            [&, k] {
                              began.push_back(k);
                              EXPECT_LE(began.size() - ended.size(), static_cast<std::size_t>(depth));
                              for (std::int64_t i = 0; i < part; ++i) in[k * part + static_cast<std::size_t>(i)] = value_of(rank_, 1000 * static_cast<std::int64_t>(k) + i);
                            },
                            [&, k] {
                              ended.push_back(k);
                              EXPECT_EQ(std::vector<std::int32_t>(out.begin() + static_cast<std::ptrdiff_t>(k * part), out.begin() + static_cast<std::ptrdiff_t>((k + 1) * part)),
                                        sums(size_, 1000 * static_cast<std::int64_t>(k), part));
                            }});
        const Executed executed = execute_pipelined(stages, depth, *world_, [&](std::size_t stage, const SumCall& call) {
          EXPECT_LT(stage, parts);
          add(call);
        });
        std::vector<std::size_t> all(parts);
        std::iota(all.begin(), all.end(), 0u);
        EXPECT_EQ(began, all);
        EXPECT_EQ(ended, all);
        EXPECT_EQ(executed.rounds, static_cast<int>(parts) * schedule->rounds());
      }
}

TEST(Executor, refuses_a_schedule_for_other_ranks_and_missing_buffers) {
  const auto world = mpi_world();
  const auto schedule = all_reduce_schedule(AllReduce::two_shot, 8, NodeMap::regular(world->size() + 1, 8), 4, 8);
  EXPECT_THROW(execute(*schedule, *world, {}, add), Error);
  const auto fitting = all_reduce_schedule(AllReduce::one_shot, 8, world->nodes(), 4, 8);
  EXPECT_THROW(execute(*fitting, *world, {}, add), Error);
  EXPECT_THROW(execute_pipelined({}, 0, *world, {}), Error);
}

}  // namespace
}  // namespace faibench
