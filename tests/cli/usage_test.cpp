// What every command has in common: help, usage errors, exit codes, one line for what is wrong.
#include <gmock/gmock.h>

#include "cli/program.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing_support::faibench;
using testing_support::is_one_complaint;
using testing_support::Outcome;

TEST(Program, help_goes_to_stdout_and_names_every_command) {
  const Outcome help = faibench({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.err, "");
  for (const char* command : {"list", "show", "run", "check", "report", "scale", "launch", "doctor"}) EXPECT_THAT(help.out, HasSubstr(std::string("\n  ") + command + " ")) << command;
}

TEST(Program, tells_its_version) {
  EXPECT_THAT(faibench({"--version"}).out, StartsWith("faibench "));
  EXPECT_EQ(faibench({"--version"}).code, 0);
}

class EveryCommand : public testing::TestWithParam<const char*> {};
TEST_P(EveryCommand, has_help_with_exit_codes_and_an_example_at_the_foot) {
  const Outcome help = faibench({GetParam(), "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("Exit code: 0 "));
  EXPECT_THAT(help.out, HasSubstr("\nExample: "));
  EXPECT_THAT(help.out, HasSubstr(std::string("faibench ") + GetParam()));
  if (GetParam() != std::string("launch")) EXPECT_THAT(help.out, HasSubstr("--json"));  // which the job's own words may hold
  EXPECT_EQ(help.out.back(), '\n');
}
TEST_P(EveryCommand, refuses_an_unknown_option_with_exit_code_2) {
  const Outcome outcome = faibench({GetParam(), "--jsn"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(is_one_complaint(outcome.err));
}
INSTANTIATE_TEST_SUITE_P(program, EveryCommand, testing::Values("list", "show", "run", "check", "report", "scale", "launch", "doctor"), [](const auto& i) { return std::string(i.param); });

TEST(Program, an_unknown_option_gets_the_nearest_known_one) {
  EXPECT_EQ(faibench({"list", "--taks", "x"}).err, "faibench: unknown option '--taks': did you mean --tasks? (see faibench list --help)\n");
}

TEST(Program, an_unknown_command_gets_the_nearest_known_one) {
  const Outcome outcome = faibench({"reprot"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "faibench: unknown command 'reprot': did you mean report? (see faibench --help)\n");
}

TEST(Program, without_a_command_is_a_usage_error) {
  const Outcome outcome = faibench({});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_complaint(outcome.err));
}

struct Bad { const char* name; std::vector<std::string> words; };
void PrintTo(const Bad& b, std::ostream* os) { *os << b.name; }
class BadUsage : public testing::TestWithParam<Bad> {};
TEST_P(BadUsage, is_one_line_and_exit_code_2) {
  const Outcome outcome = faibench(GetParam().words);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(is_one_complaint(outcome.err));
}
INSTANTIATE_TEST_SUITE_P(program, BadUsage,
                         testing::Values(Bad{"show_without_a_task", {"show"}}, Bad{"check_without_a_case", {"check"}}, Bad{"report_without_a_run", {"report"}},
                                         Bad{"show_with_two_tasks", {"show", "a", "b"}}, Bad{"budget_zero", {"run", "--budget", "0"}}, Bad{"budget_a_word", {"run", "--budget", "much"}},
                                         Bad{"budget_nan", {"run", "--budget", "nan"}}, Bad{"seed_negative", {"run", "--seed", "-1"}}, Bad{"seed_a_word", {"run", "--seed", "x"}},
                                         Bad{"option_without_value", {"run", "--tasks"}}, Bad{"out_and_resume", {"run", "--out", "a.h5", "--resume", "b.h5"}},
                                         Bad{"control_characters", {"show", "\x1b[31m\n"}}, Bad{"very_long_name", {"show", std::string(100000, 'a')}}),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(Program, only_the_first_rank_complains) {
  EXPECT_EQ(faibench({"list", "--tasks", "nope"}, {{"OMPI_COMM_WORLD_RANK=1"}, ""}).err, "");
  EXPECT_EQ(faibench({"list", "--tasks", "nope"}, {{"OMPI_COMM_WORLD_RANK=1"}, ""}).code, 2);
  EXPECT_TRUE(is_one_complaint(faibench({"list", "--tasks", "nope"}, {{"OMPI_COMM_WORLD_RANK=0"}, ""}).err));
}

TEST(Program, says_so_when_stdout_cannot_be_written) {
  const Outcome outcome = testing_support::run_command({"sh", "-c", "\"$FAIBENCH_BIN\" list > /dev/full"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "faibench: standard output cannot be written\n");
}

}  // namespace
}  // namespace faibench
