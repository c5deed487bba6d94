#include "cluster/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

namespace faibench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Place on(int node, std::vector<int> cores) {
  Place place;
  place.host = "node" + std::to_string(node);
  place.node = node;
  place.cpus = place.cores = std::move(cores);
  place.program_hash = "p";
  place.worker_hash = "w";
  place.facts.host = place.host;
  place.facts.mpi = "Open MPI v4.1.4";
  place.facts.clock_source = "tsc";
  place.facts.memory_available_bytes = std::int64_t{64} << 30;
  place.facts.shared_memory_bytes = std::int64_t{8} << 30;
  return place;
}
// Two nodes with two ranks each, on cores of their own.
std::vector<Place> tidy() { return {on(0, {0}), on(0, {1}), on(2, {0}), on(2, {1})}; }

TEST(Audit, has_nothing_to_say_of_ranks_that_belong_together) {
  const Audit found = audit(tidy());
  EXPECT_THAT(found.errors, IsEmpty());
  EXPECT_THAT(found.notices, IsEmpty());
  ASSERT_EQ(found.ranks.size(), 4u);
  EXPECT_EQ(found.ranks[3].rank, 3);
  EXPECT_EQ(found.ranks[3].host, "node2");
}

TEST(Audit, names_ranks_with_another_program) {
  auto places = tidy();
  places[2].program_hash = places[3].program_hash = "q";
  EXPECT_THAT(audit(places).errors, ElementsAre(HasSubstr("ranks 2-3 on node2 run another build of faibench than rank 0 on node0")));
  places = tidy();
  places[1].worker_hash = "q";
  EXPECT_THAT(audit(places).errors, ElementsAre(HasSubstr("rank 1 on node0 runs another build")));
}

TEST(Audit, names_ranks_with_another_mpi) {
  auto places = tidy();
  places[3].facts.mpi = "Open MPI v5.0.0";
  EXPECT_THAT(audit(places).errors, ElementsAre(HasSubstr("rank 3 on node2 runs with Open MPI v5.0.0, rank 0 on node0 with Open MPI v4.1.4")));
}

TEST(Audit, says_who_shares_cores) {
  auto places = tidy();
  places[3].cores = {0};
  EXPECT_THAT(audit(places).notices, ElementsAre(HasSubstr("oversubscribed: ranks 2-3 on node2 share core 0")));
  places = {on(0, {0, 1}), on(0, {0, 1})};
  EXPECT_THAT(audit(places).notices, ElementsAre(testing::StartsWith("ranks 0-1 on node0 share cores 0-1: tasks take turns")));
}

TEST(Audit, says_where_room_is_short) {
  auto places = tidy();
  places[2].facts.memory_available_bytes = std::int64_t{1} << 30;
  places[0].facts.shared_memory_bytes = 1 << 20;
  EXPECT_THAT(audit(places).notices, ElementsAre(HasSubstr("/dev/shm of node0 has 1 MiB"), HasSubstr("node2 has 1024 MiB of memory available for ranks 2-3 on node2")));
}

TEST(Audit, says_which_ranks_share_a_gpu) {
  auto places = tidy();
  for (Place& place : places) place.facts.gpus = {"GPU-a", "GPU-b"};  // all see both of their node: each takes its own
  EXPECT_THAT(audit(places).notices, IsEmpty());
  places[0].facts.gpus = places[1].facts.gpus = {"GPU-a"};
  EXPECT_THAT(audit(places).notices, ElementsAre(HasSubstr("ranks 0-1 on node0 share one GPU, GPU-a")));
  EXPECT_EQ(audit(places).ranks[1].gpu, "GPU-a");
  EXPECT_EQ(audit(places).ranks[3].gpu, "GPU-b");
}

TEST(Audit, tells_of_the_gpu_that_a_rank_was_given_and_of_one_that_takes_no_two_processes) {
  auto places = tidy();
  places[1].facts.gpus = {"GPU-a"};
  places[1].gpus = {{.uuid = "GPU-a", .name = "NVIDIA H200", .exclusive = true}};
  places[1].gpu_driver = "580.65.06";
  const Audit found = audit(places);
  EXPECT_THAT(found.notices, ElementsAre(HasSubstr("the GPU of rank 1 on node0, GPU-a, is in exclusive mode")));
  EXPECT_THAT(found.ranks[1].gpu_facts, HasSubstr("GPU-a: NVIDIA H200"));
  EXPECT_THAT(found.ranks[1].gpu_facts, HasSubstr("driver 580.65.06"));
  EXPECT_EQ(found.ranks[0].gpu, "");
}

TEST(Audit, says_where_the_clock_is_slow) {
  auto places = tidy();
  places[1].facts.clock_source = "hpet";
  EXPECT_THAT(audit(places).notices, ElementsAre(HasSubstr("rank 1 on node0: the kernel's clock is hpet")));
}

TEST(Audit, keeps_of_the_environment_what_differs_from_rank_0) {
  auto places = tidy();
  for (Place& place : places) place.facts.environment = {"OMP_NUM_THREADS=2", "UCX_TLS=tcp"};
  places[2].facts.environment = {"OMP_NUM_THREADS=4", "UCX_TLS=tcp"};
  const Audit found = audit(places);
  EXPECT_THAT(found.notices, ElementsAre(HasSubstr("rank 2 on node2 has other settings")));
  EXPECT_THAT(found.ranks[1].environment, IsEmpty());
  EXPECT_THAT(found.ranks[2].environment, ElementsAre("OMP_NUM_THREADS=4"));
}

TEST(Audit, takes_milliseconds_for_a_thousand_ranks) {
  std::vector<Place> places;
  for (int rank = 0; rank < 1024; ++rank) places.push_back(on(rank / 8 * 8, {rank % 8}));
  const std::clock_t start = std::clock();  // of this process alone
  EXPECT_THAT(audit(places).notices, IsEmpty());
  EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC);
}

TEST(RanksText, names_hosts_and_cuts_long_lists) {
  std::vector<Place> places;
  for (int node = 0; node < 6; ++node) places.push_back(on(node, {0}));
  EXPECT_EQ(ranks_text(places, {3}), "rank 3 on node3");
  EXPECT_EQ(ranks_text(places, {0, 1}), "ranks 0 on node0 and 1 on node1");
  EXPECT_EQ(ranks_text(places, {0, 1, 2, 3, 4, 5}), "ranks 0 on node0, 1 on node1, 2 on node2 and on 3 more hosts");
}

}  // namespace
}  // namespace faibench
