#include "launch/journal_state.h"

#include <gtest/gtest.h>

#include <fstream>

#include "temporary_folder.h"

namespace faibench {
namespace {

TEST(JournalState, counts_whole_lines_that_are_no_headers) {
  const testing_support::TemporaryFolder folder;
  const auto run = folder.path() / "run.h5";
  EXPECT_FALSE(journal_state(run).exists);
  std::ofstream(folder.path() / "run.jsonl") << "{\"format\":\"x\"}\n{\"task\":\"a\"}\n{\"format\":\"x\"}\n{\"task\":\"b\"}\n{\"task\":\"tor";
  const JournalState state = journal_state(run);
  EXPECT_TRUE(state.exists);
  EXPECT_EQ(state.lines, 4);
  EXPECT_EQ(state.records, 2);
  EXPECT_EQ(state, journal_state(run));
}

}  // namespace
}  // namespace faibench
