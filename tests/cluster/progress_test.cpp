#include "cluster/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>

namespace faibench {
namespace {

using testing::HasSubstr;
using testing::Not;

Record passed() {
  Record record;
  record.verdict = Verdict::passed;
  record.speedup = 12.34;
  record.speedup_low = 12;
  record.speedup_high = 13;
  record.score = 0.5;
  record.wall_seconds = 4;
  return record;
}

std::string shown(bool quiet) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  {
    const auto progress = make_progress(file.get(), quiet, true);
    progress->started("2 to judge", {.done = 0, .total = 2, .running = 0, .seconds_left = 90});
    progress->stage(0, "t/cpu", "block 1");
    progress->tick({.done = 0, .total = 2});
    progress->verdict("t/cpu", passed(), {.done = 1, .total = 2, .running = 1, .seconds_left = 30});
    progress->notice("a word");
    progress->close();
  }
  std::rewind(file.get());
  std::string text;
  std::array<char, 256> line;
  while (std::fgets(line.data(), line.size(), file.get())) text += line.data();
  return text;
}

TEST(Progress, is_plain_lines_where_there_is_no_terminal) {
  const std::string text = shown(false);
  EXPECT_THAT(text, HasSubstr("[1/2] passed  t/cpu  12.34x [12, 13]  score 0.500  (rank 0, 4.0 s)  about 30 s left\n"));
  EXPECT_THAT(text, HasSubstr("2 to judge, about 90 s left\n"));
  EXPECT_THAT(text, HasSubstr("faibench: a word\n"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST(Progress, is_silent_when_asked_to_be) { EXPECT_EQ(shown(true), ""); }

TEST(VerdictLine, says_why_something_failed) {
  Record record;
  record.verdict = Verdict::wrong;
  record.reason = "value";
  record.detail = "out[3]: got 1, wanted 2";
  EXPECT_EQ(verdict_line("t/cpu", record), "wrong   t/cpu  (value)  out[3]: got 1, wanted 2");
}

TEST(VerdictLine, gives_no_score_to_what_is_not_scored) {
  Record record;
  record.verdict = Verdict::passed;
  record.emulated = true;
  EXPECT_EQ(verdict_line("t/cuda", record), "passed  t/cuda  emulated, not scored");
  record.emulated = false;
  record.variant = "peer:lib";
  EXPECT_EQ(verdict_line("t/peer:lib", record), "passed  t/peer:lib  peer, not scored");
  record.variant = "cpu";
  EXPECT_EQ(verdict_line("t/cpu", record), "passed  t/cpu  score 0.000");
}

TEST(DurationText, takes_the_unit_that_fits) {
  EXPECT_EQ(duration_text(0.2), "1 s");
  EXPECT_EQ(duration_text(45), "45 s");
  EXPECT_EQ(duration_text(200), "3 min");
  EXPECT_EQ(duration_text(4800), "80 min");
  EXPECT_EQ(duration_text(9000), "2 h 30 min");
}

}  // namespace
}  // namespace faibench
