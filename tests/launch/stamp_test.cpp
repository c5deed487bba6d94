#include "launch/stamp.h"

#include <gtest/gtest.h>

#include <fstream>

#include "temporary_folder.h"

namespace faibench {
namespace {

Stamp some_stamp(int rank) {
  Stamp stamp;
  stamp.job = "job.1";
  stamp.rank = rank;
  stamp.host = "node7";
  stamp.pid = 42;
  stamp.phase = "gang";
  stamp.detail = "block 7";
  stamp.item = "tp_allreduce_bias_fuse/mpi@2";
  stamp.deadline_seconds = 60;
  stamp.steps = 5;
  stamp.beats = 9;
  stamp.beat_seconds = 2;
  return stamp;
}

void write(const std::filesystem::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

TEST(Stamp, comes_back_from_its_text) {
  const auto back = stamp_from_text(to_text(some_stamp(3)));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->job, "job.1");
  EXPECT_EQ(back->rank, 3);
  EXPECT_EQ(back->host, "node7");
  EXPECT_EQ(back->pid, 42);
  EXPECT_EQ(back->item, "tp_allreduce_bias_fuse/mpi@2");
  EXPECT_EQ(back->deadline_seconds, 60);
  EXPECT_EQ(back->steps, 5);
  EXPECT_EQ(back->beats, 9);
  EXPECT_EQ(back->beat_seconds, 2);
  EXPECT_EQ(describe_phase(*back), "gang tp_allreduce_bias_fuse/mpi@2 (block 7)");
}

TEST(Stamp, has_one_length_whatever_it_says) {
  Stamp stamp = some_stamp(3);
  const std::size_t length = to_text(stamp).size();
  stamp.item.clear();
  stamp.detail = std::string(5000, 'x');
  EXPECT_EQ(to_text(stamp).size(), length);
  EXPECT_TRUE(stamp_from_text(to_text(stamp)));
}

TEST(Stamp, is_nothing_where_the_text_is_torn_or_of_another_kind) {
  const std::string text = to_text(some_stamp(3));
  EXPECT_FALSE(stamp_from_text(""));
  EXPECT_FALSE(stamp_from_text(text.substr(0, 40)));
  EXPECT_FALSE(stamp_from_text("{\"rank\": 3}"));
  EXPECT_FALSE(stamp_from_text("[1, 2]"));
}

TEST(Stamps, of_another_launch_and_of_other_names_are_not_read) {
  const testing_support::TemporaryFolder folder;
  write(stamp_path(folder.path(), 0), to_text(some_stamp(0)));
  write(stamp_path(folder.path(), 1), to_text(some_stamp(1)).substr(0, 100));
  write(folder.path() / "2.old", to_text(some_stamp(2)));
  write(stamp_path(folder.path(), 4), to_text(some_stamp(5)));
  Stamp earlier = some_stamp(6);
  earlier.job = "job.0";
  write(stamp_path(folder.path(), 6), to_text(earlier));
  const auto stamps = read_stamps(folder.path(), "job.1");
  ASSERT_EQ(stamps.size(), 1u);
  EXPECT_EQ(stamps.begin()->first, 0);
  EXPECT_TRUE(read_stamps(folder.path() / "none", "job.1").empty());
}

TEST(Stamps, lie_beside_the_run_file) { EXPECT_EQ(stamp_folder("results/a.h5"), "results/a.ranks"); }

}  // namespace
}  // namespace faibench
