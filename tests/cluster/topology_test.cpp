#include "cluster/topology.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "tensor/error.h"

namespace faibench {
namespace {

Place at(int node, std::vector<int> cores, std::vector<int> numa = {0}) {
  Place place;
  place.host = "node" + std::to_string(node);
  place.node = node;
  place.cpus = cores;
  place.cores = std::move(cores);
  place.numa_nodes = std::move(numa);
  place.host_cores = 8;
  place.slot_folder = "/slots" + std::to_string(node);
  return place;
}

TEST(FindPlace, respects_the_binding) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before)) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const Place bound = find_place();
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(bound.cpus, std::vector<int>{cpu});
  EXPECT_EQ(bound.cores.size(), 1u);
  EXPECT_FALSE(bound.numa_nodes.empty());
  EXPECT_GE(bound.host_cores, 1);
  EXPECT_GE(find_place().cpus.size(), bound.cpus.size());
}

TEST(Place, survives_the_way_to_rank_0) {
  Place place = at(3, {1, 2, 5}, {0, 1});
  place.gpus = {{.uuid = "GPU-a", .name = "NVIDIA H200", .memory_bytes = 5, .capability = 90, .exclusive = true, .sm_clock_hz = 1.98e9}, {.uuid = "GPU-b", .name = ""}};
  place.gpu_driver = "580.65.06";
  place.program_hash = "ab";
  place.host_facts = "{\"name\":\"x\"}";
  const Place back = place_from_json(to_json(place));
  EXPECT_EQ(back.cpus, place.cpus);
  EXPECT_EQ(back.numa_nodes, place.numa_nodes);
  ASSERT_EQ(back.gpus.size(), 2u);
  EXPECT_EQ(facts_text(back.gpus[0]), facts_text(place.gpus[0]));
  EXPECT_EQ(back.gpu_driver, "580.65.06");
  EXPECT_EQ(back.host_facts, place.host_facts);
  EXPECT_EQ(back.node, 3);
  EXPECT_THROW(place_from_json("{}"), Error);
  EXPECT_THROW(place_from_json("no json"), Error);
}

TEST(RangesText, joins_neighbours) {
  EXPECT_EQ(ranges_text({}), "");
  EXPECT_EQ(ranges_text({4}), "4");
  EXPECT_EQ(ranges_text({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
}

TEST(LayOut, gives_ranks_of_one_numa_node_one_slot_and_nodes_their_own) {
  const Layout layout = lay_out({at(0, {0, 1}), at(0, {2, 3}), at(2, {0, 1})});
  EXPECT_EQ(layout.nodes, (std::vector<int>{0, 2}));
  EXPECT_EQ(layout.seats[0].slots, layout.seats[1].slots);
  EXPECT_NE(layout.seats[0].slots, layout.seats[2].slots);
  EXPECT_FALSE(layout.seats[0].whole_task_in_slot);
  EXPECT_EQ(layout.slot_files[1], std::vector<std::string>{"/slots0/numa-0.lock"});
  EXPECT_EQ(layout.slot_files[2], std::vector<std::string>{"/slots2/numa-0.lock"});
}

TEST(LayOut, holds_slots_for_whole_tasks_where_cores_overlap) {
  const Layout layout = lay_out({at(0, {0, 1}), at(0, {1, 2}), at(0, {3}), at(3, {0, 1})});
  EXPECT_TRUE(layout.seats[0].whole_task_in_slot);
  EXPECT_TRUE(layout.seats[1].whole_task_in_slot);
  EXPECT_FALSE(layout.seats[2].whole_task_in_slot);
  EXPECT_FALSE(layout.seats[3].whole_task_in_slot);  // the same numbers on another host are other cores
}

TEST(LayOut, locks_the_slots_of_all_numa_nodes_in_order) {
  const Layout layout = lay_out({at(0, {0, 1, 2, 3}, {0, 1}), at(0, {4}, {1})});
  EXPECT_EQ(layout.slot_files[0], (std::vector<std::string>{"/slots0/numa-0.lock", "/slots0/numa-1.lock"}));
  EXPECT_EQ(layout.seats[0].slots.at(1), layout.seats[1].slots.at(0));
}

TEST(LayOut, says_so_where_most_cores_stay_unused) {
  EXPECT_NE(lay_out({at(0, {0}), at(0, {1})}).hint.find("2 of the 8 cores of node0"), std::string::npos);
  EXPECT_EQ(lay_out({at(0, {0, 1, 2, 3, 4}), at(0, {5, 6, 7})}).hint, "");
}

TEST(SlotFolder, is_this_users_alone) {
  const std::string folder = make_slot_folder();
  struct stat facts{};
  ASSERT_EQ(lstat(folder.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_uid, geteuid());
  EXPECT_EQ(facts.st_mode & 07777, 0700u);
  EXPECT_EQ(make_slot_folder(), folder);
}

TEST(GiveGpus, counts_the_ranks_of_each_node_for_itself) {
  std::vector<Place> places = {at(0, {0}), at(1, {0}), at(0, {1}), at(1, {1}), at(0, {2})};
  for (Place& place : places) place.facts.gpus = {"GPU-a" + std::to_string(place.node), "GPU-b" + std::to_string(place.node)};
  places[3].facts.gpus = {};
  const std::vector<GivenGpu> given = give_gpus(places);
  EXPECT_EQ(given[0].uuid, "GPU-a0");
  EXPECT_EQ(given[1].uuid, "GPU-a1");
  EXPECT_EQ(given[2].uuid, "GPU-b0");
  EXPECT_EQ(given[3].position, -1);
  EXPECT_EQ(given[4].uuid, "GPU-a0");
  EXPECT_EQ(given[4].ranks, (std::vector<int>{0, 4}));
  const Layout layout = lay_out(places);
  EXPECT_EQ(layout.gpu_slot_files[4], "/slots0/GPU-a0.lock");  // one for both
  EXPECT_EQ(layout.gpu_slot_files[0], layout.gpu_slot_files[4]);
  EXPECT_EQ(layout.gpu_slot_files[3], "");
  EXPECT_TRUE(layout.seats[2].has_gpu);
  EXPECT_FALSE(layout.seats[3].has_gpu);
}

}  // namespace
}  // namespace faibench
