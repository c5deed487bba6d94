#include "device/assignment.h"

#include <gtest/gtest.h>

namespace faibench {
namespace {

using Visible = std::vector<std::vector<std::string>>;

TEST(AssignGpus, gives_the_ith_rank_the_ith_gpu_where_all_see_all) {
  EXPECT_EQ(assign_gpus({{"a", "b", "c"}, {"a", "b", "c"}, {"a", "b", "c"}}), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(assign_gpus({{"a", "b", "c"}, {"a", "b", "c"}}), (std::vector<int>{0, 1}));
}

TEST(AssignGpus, gives_each_rank_its_own_where_the_launcher_gave_one_each) { EXPECT_EQ(assign_gpus({{"b"}, {"a"}, {"c"}}), (std::vector<int>{0, 0, 0})); }

TEST(AssignGpus, gives_none_where_none_is_visible) {
  EXPECT_EQ(assign_gpus({{}, {}}), (std::vector<int>{-1, -1}));
  EXPECT_EQ(assign_gpus({{"a"}, {}}), (std::vector<int>{0, -1}));
  EXPECT_EQ(assign_gpus({}), std::vector<int>());
}

TEST(AssignGpus, shares_evenly_where_there_are_more_ranks_than_gpus) {
  EXPECT_EQ(assign_gpus(Visible(5, {"a", "b"})), (std::vector<int>{0, 1, 0, 1, 0}));
  EXPECT_EQ(assign_gpus({{"a"}, {"a"}}), (std::vector<int>{0, 0}));
}

TEST(AssignGpus, knows_a_gpu_by_its_uuid_whatever_its_number_is) {
  EXPECT_EQ(assign_gpus({{"a", "b"}, {"b", "a"}}), (std::vector<int>{0, 0}));  // a to the first, b to the second
  EXPECT_EQ(assign_gpus({{"a", "b"}, {"a"}}), (std::vector<int>{1, 0}));       // the second has no choice
}

TEST(OnlyDevice, names_a_device_as_the_rank_saw_it) {
  EXPECT_EQ(only_device(std::nullopt, 3), "3");
  EXPECT_EQ(only_device("4,5,7", 0), "4");
  EXPECT_EQ(only_device("4,5,7", 2), "7");
  EXPECT_EQ(only_device("GPU-aa, MIG-bb ,GPU-cc", 1), "MIG-bb");
  EXPECT_EQ(only_device("5", 0), "5");
  EXPECT_EQ(only_device("", 0), "");
  EXPECT_EQ(only_device("4,5", 2), "");
}

}  // namespace
}  // namespace faibench
