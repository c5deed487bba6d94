#include "report/wording.h"

#include <gtest/gtest.h>

#include <limits>

namespace faibench::wording {
namespace {

TEST(Wording, gives_ratios_three_digits) {
  EXPECT_EQ(ratio(7.25), "7.25x");
  EXPECT_EQ(ratio(9.996), "10.0x");
  EXPECT_EQ(ratio(99.96), "100x");
  EXPECT_EQ(ratio(1234.4), "1234x");
  EXPECT_EQ(ratio(0.99996), "1.00x");
  EXPECT_EQ(ratio(0.0314), "0.031x");
  EXPECT_EQ(ratio(3e7), "3.00e+07x");
  EXPECT_EQ(ratio(0), "-");
  EXPECT_EQ(ratio(std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(ratio(std::numeric_limits<double>::infinity()), "-");
}

TEST(Wording, gives_durations_the_unit_that_fits) {
  EXPECT_EQ(duration(1.5), "1.50 s");
  EXPECT_EQ(duration(0.99996), "1.00 s");
  EXPECT_EQ(duration(0.0123), "12.3 ms");
  EXPECT_EQ(duration(4.56e-6), "4.56 us");
  EXPECT_EQ(duration(7e-9), "7.00 ns");
  EXPECT_EQ(duration(-1), "-");
}

TEST(Wording, says_how_near_the_floor_is) {
  Record r;
  EXPECT_EQ(floor_share(r), "-");
  r.seconds = 2;
  r.floor_seconds = 1;
  EXPECT_EQ(floor_share(r), "50%");
  r.floor_seconds = 0.01;
  EXPECT_EQ(floor_share(r), "0.5%");
}

TEST(Wording, keeps_control_characters_from_the_terminal) {
  EXPECT_EQ(printable("a\x1b[2Jb\tc\nd\x7f"), "a [2Jb c d ");
  EXPECT_EQ(printable("\xC2\x9B" "31m"), " 31m");  // the one-character escape sequence introducer
  EXPECT_EQ(printable("größer"), "größer");
}

TEST(Wording, takes_the_last_lines) {
  EXPECT_EQ(last_lines("one\ntwo\n\nthree\n  \n", 2), (std::vector<std::string>{"two", "three"}));
  EXPECT_TRUE(last_lines("", 3).empty());
}

}  // namespace
}  // namespace faibench::wording
