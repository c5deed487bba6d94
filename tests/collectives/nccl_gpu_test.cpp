#include "communicator/nccl_gpu.h"

#include <gtest/gtest.h>

#include "communicator/mpi_communicator.h"

namespace faibench {
namespace {

std::vector<std::string> gpus(int count) {
  std::vector<std::string> uuids;
  for (int i = 0; i < count; ++i) uuids.push_back("GPU-" + std::to_string(i));
  return uuids;
}

TEST(OwnGpu, is_the_next_of_those_that_all_ranks_see) {
  auto world = mpi_world();
  std::string why;
  EXPECT_EQ(own_gpu(*world, gpus(4), why), world->rank()) << why;
}

TEST(OwnGpu, is_the_only_one_that_a_rank_sees) {
  auto world = mpi_world();
  std::string why;
  EXPECT_EQ(own_gpu(*world, {"GPU-" + std::to_string(world->rank())}, why), 0) << why;
}

TEST(OwnGpu, is_none_where_ranks_would_share_it) {
  auto world = mpi_world();
  std::string why;
  const int device = own_gpu(*world, gpus(1), why);
  EXPECT_EQ(device, world->size() == 1 ? 0 : -1);
  const std::string other = "GPU-0 is also that of rank " + std::to_string(world->rank() == 0 ? 1 : 0);
  EXPECT_EQ(why.find(other) != std::string::npos, world->size() > 1) << why;
}

TEST(OwnGpu, is_none_for_a_rank_that_sees_none) {
  auto world = mpi_world();
  std::string why;
  const bool blind = world->rank() == world->size() - 1;
  EXPECT_EQ(own_gpu(*world, blind ? std::vector<std::string>() : gpus(4), why), blind ? -1 : world->rank());
  EXPECT_EQ(why, blind ? "no GPU" : "");
}

}  // namespace
}  // namespace faibench
