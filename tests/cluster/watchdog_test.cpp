#include "cluster/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <thread>

#include "launch/launcher_words.h"
#include "patience.h"
#include "temporary_folder.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing_support::TemporaryFolder;
using testing_support::wait_until;

// The first line that the watchdog says.
class Words {
 public:
  std::function<void(const std::string&)> hear() {
    return [this](const std::string& line) {
      if (!told_.exchange(true)) line_.set_value(line);
    };
  }
  std::string wait() {
    auto future = line_.get_future();
    return future.wait_for(std::chrono::seconds(100)) == std::future_status::ready ? future.get() : "nothing";
  }
  [[nodiscard]] bool told() const { return told_; }

 private:
  std::promise<std::string> line_;
  std::atomic<bool> told_ = false;
};

void write_stamp(const TemporaryFolder& folder, int rank, std::int64_t beats) {
  Stamp stamp;
  stamp.rank = rank;
  stamp.host = "node" + std::to_string(rank);
  stamp.phase = "judging";
  stamp.item = "other/cpu";
  stamp.deadline_seconds = 60;
  stamp.beats = beats;
  stamp.beat_seconds = 0;
  std::ofstream(stamp_path(folder.path(), rank), std::ios::binary) << to_text(stamp);
}

TEST(Watchdog, names_rank_host_phase_and_task_of_what_is_stuck) {
  Words words;
  Watchdog watchdog(0, 2, "node7", 60, words.hear());
  watchdog.enter("gang", 0.5, "t/mpi@2", "block 7");
  const std::string line = words.wait();
  EXPECT_THAT(line, HasSubstr("stuck: rank 0 on node7 makes no progress for "));
  EXPECT_THAT(line, HasSubstr("gang t/mpi@2 (block 7)"));
  const auto casualty = casualty_in("faibench: " + line);
  ASSERT_TRUE(casualty) << "the supervisor must understand it";
  EXPECT_EQ(casualty->rank, 0);
  EXPECT_EQ(casualty->host, "node7");
}

// Three deadlines long. Where this thread itself was late by most of one, the watchdog may have been right, and it is tried again.
TEST(Watchdog, is_silent_while_the_main_thread_steps) {
  for (int tries = 0; tries < 20; ++tries) {
    Words words;
    Watchdog watchdog(0, 2, "node7", 60, words.hear());
    std::chrono::duration<double> longest{0};
    auto before = std::chrono::steady_clock::now();
    for (int i = 0; i < 30; ++i) {
      watchdog.enter("idle", 0.8);
      longest = std::max<std::chrono::duration<double>>(longest, std::chrono::steady_clock::now() - before);
      before = std::chrono::steady_clock::now();
      std::this_thread::sleep_for(std::chrono::milliseconds(80));
    }
    longest = std::max<std::chrono::duration<double>>(longest, std::chrono::steady_clock::now() - before);
    if (!words.told()) return;
    ASSERT_GT(longest.count(), 0.6) << "it spoke of " << words.wait();
  }
  GTEST_SKIP() << "this machine does not let a thread step once in 0.8 s";
}

TEST(Watchdog, leaves_its_stamp_in_the_folder_at_once_when_an_item_begins) {
  const TemporaryFolder folder;
  Words words;
  Watchdog watchdog(3, 1000, "node7", 60, words.hear());  // of so many ranks, the next beat is a quarter of a minute away
  watchdog.publish(folder.path());
  const auto item_is = [&](const std::string& item) {
    return wait_until([&] {
      const auto stamp = read_stamp(folder.path(), 3);
      return stamp && stamp->item == item;
    }, 5);
  };
  watchdog.enter("judging", 60, "t/cpu", "case a");
  EXPECT_TRUE(item_is("t/cpu"));
  watchdog.enter("idle", 60);
  EXPECT_TRUE(item_is(""));
}

TEST(Watchdog, names_the_next_rank_where_that_shows_no_sign_of_life) {
  const TemporaryFolder folder;
  Words words;
  write_stamp(folder, 0, 5);
  Watchdog watchdog(1, 2, "node1", 2, words.hear());
  watchdog.publish(folder.path());
  watchdog.enter("idle", 60);
  EXPECT_THAT(words.wait(), testing::StartsWith("stuck: rank 0 on node0 shows no sign of life"));
}

TEST(Watchdog, blames_the_silent_rank_and_not_itself_that_waits_for_it) {
  const TemporaryFolder folder;
  Words words;
  write_stamp(folder, 2, 5);  // not the next one of rank 0 of 4
  Watchdog watchdog(0, 4, "node0", 60, words.hear());
  watchdog.publish(folder.path());
  watchdog.enter("gang", 0.5, "t/mpi@4", "block 1");
  const std::string line = words.wait();
  EXPECT_THAT(line, testing::StartsWith("stuck: rank 2 on node2 shows no sign of life"));
  EXPECT_THAT(line, HasSubstr("rank 0 on node0"));
}

TEST(Watchdog, does_without_a_folder_that_is_not_there) {
  Words words;
  Watchdog watchdog(0, 2, "node0", 60, words.hear());
  watchdog.publish("/nowhere/at/all");
  watchdog.enter("gang", 0.5, "t/mpi@4", "block 1");
  EXPECT_THAT(words.wait(), testing::StartsWith("stuck: rank 0 on node0"));
}

}  // namespace
}  // namespace faibench
