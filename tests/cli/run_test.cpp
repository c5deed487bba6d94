// `faibench run` as a user types it, alone without mpirun: names, plans, one small judged run.
#include "results/run_file.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "task/catalog.h"
#include "task/task.h"

namespace faibench {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::faibench;
using testing_support::is_one_complaint;
using testing_support::Outcome;
using testing_support::read_text;
using testing_support::Scratch;

Outcome run_in(const Scratch& scratch, std::vector<std::string> words) {
  words.insert(words.begin(), "run");
  return faibench(words, {{}, scratch.path().string()});
}
std::vector<std::string> small(std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"--tasks", "coalesced_matrix_transpose", "--variant", "cpu", "--workload", "smoke", "--budget", "0.3"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Run, judges_prints_the_scoreboard_and_names_the_file) {
  const Scratch scratch;
  Outcome outcome;
  for (int tries = 0; tries < 5; ++tries) {  // a busy machine may leave the times too noisy to be scored
    outcome = run_in(scratch, small({"--out", "run.h5", "--force"}));
    if (outcome.code == 0) break;
    ASSERT_EQ(read_run_file(scratch.file("run.h5")).records.at(0).verdict, Verdict::noisy) << outcome.out << outcome.err;
  }
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("coalesced_matrix_transpose"));
  EXPECT_THAT(outcome.out, HasSubstr("Results: run.h5"));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("\x1b[")));
  const RunContents run = read_run_file(scratch.file("run.h5"));
  ASSERT_EQ(run.records.size(), 1u);
  EXPECT_EQ(run.records[0].verdict, Verdict::passed);
  EXPECT_EQ(run.records[0].workload, "smoke");
}

TEST(Run, quiet_leaves_stderr_empty_and_json_is_all_of_stdout) {
  const Scratch scratch;
  const Outcome outcome = run_in(scratch, small({"--out", "run.h5", "--quiet", "--json", "--gate-only"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(json::parse(outcome.out)["records"].size(), 1u);
}

TEST(Run, never_overwrites_a_result_without_force) {
  const Scratch scratch;
  scratch.write("run.h5", "precious");
  const Outcome refused = run_in(scratch, small({"--out", "run.h5", "--gate-only"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(is_one_complaint(refused.err));
  EXPECT_THAT(refused.err, HasSubstr("run.h5"));
  EXPECT_EQ(read_text(scratch.file("run.h5")), "precious");
  EXPECT_EQ(run_in(scratch, small({"--out", "run.h5", "--gate-only", "--force"})).code, 0);
}

TEST(Run, a_folder_that_cannot_be_made_is_one_line) {
  const Scratch scratch;
  scratch.write("file", "");
  const Outcome outcome = run_in(scratch, small({"--out", "file/run.h5", "--gate-only"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_complaint(outcome.err));
}

TEST(Run, dry_run_judges_nothing_and_leaves_no_file) {
  const Scratch scratch;
  const Outcome outcome = run_in(scratch, small({"--dry-run"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("coalesced_matrix_transpose"));
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  EXPECT_TRUE(json::accept(run_in(scratch, small({"--dry-run", "--json"})).out));
}

class BadValues : public testing::TestWithParam<std::vector<std::string>> {};
TEST_P(BadValues, are_one_line_and_exit_code_2) {
  std::vector<std::string> words = {"run", "--dry-run"};
  words.insert(words.end(), GetParam().begin(), GetParam().end());
  const Outcome outcome = faibench(words);
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_TRUE(is_one_complaint(outcome.err)) << outcome.err;
}
INSTANTIATE_TEST_SUITE_P(Run, BadValues,
                         testing::Values(std::vector<std::string>{"--seed", "-1"}, std::vector<std::string>{"--seed", "18446744073709551616"}, std::vector<std::string>{"--seed", "1e3"},
                                         std::vector<std::string>{"--resume", ""}, std::vector<std::string>{"--out", ""}, std::vector<std::string>{"--catalog", ""},
                                         std::vector<std::string>{"--budget", "nan"}, std::vector<std::string>{"--budget", "0"}));

TEST(Run, a_pattern_that_finds_only_tasks_without_implementation_is_a_failure) {
  const Outcome outcome = faibench({"run", "--tasks", "moe_routing_map_pad", "--dry-run"});
  EXPECT_THAT(outcome.out + outcome.err, HasSubstr("no implementation"));
}

TEST(Run, lists_cases) {
  const Scratch scratch;
  const Outcome outcome = run_in(scratch, {"--tasks", "coalesced_matrix_transpose", "--list-cases"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("special_values"));
  EXPECT_TRUE(json::accept(run_in(scratch, {"--tasks", "coalesced_matrix_transpose", "--list-cases", "--json"}).out));
}

struct Unknown { const char* name; std::vector<std::string> words; const char* meant; };
void PrintTo(const Unknown& u, std::ostream* os) { *os << u.name; }
class UnknownNames : public testing::TestWithParam<Unknown> {};
TEST_P(UnknownNames, are_one_line_with_the_nearest_and_exit_code_2) {
  const Scratch scratch;
  const Outcome outcome = run_in(scratch, GetParam().words);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_complaint(outcome.err));
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().meant));
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}
INSTANTIATE_TEST_SUITE_P(run, UnknownNames,
                         testing::Values(Unknown{"task", {"--tasks", "coalesced_matrix_transpos"}, "coalesced_matrix_transpose"}, Unknown{"glob", {"--tasks", "zzz*"}, "zzz*"},
                                         Unknown{"exclusion", {"--exclude", "coalesced_matrix_transpos"}, "coalesced_matrix_transpose"}, Unknown{"group", {"--group", "lineal"}, "linalg"},
                                         Unknown{"variant", {"--variant", "cpuu"}, "cpu"}, Unknown{"workload", {"--workload", "standart"}, "standard"}),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(Run, a_damaged_file_to_resume_is_one_line_and_stays_as_it_is) {
  const Scratch scratch;
  const std::string path = scratch.write("run.h5", "no HDF5");
  const Outcome outcome = run_in(scratch, {"--resume", path});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_complaint(outcome.err));
  EXPECT_EQ(read_text(path), "no HDF5");
}

TEST(Run, resume_judges_only_what_is_missing) {
  const Scratch scratch;
  ASSERT_EQ(run_in(scratch, small({"--out", "run.h5", "--gate-only"})).code, 0);
  const Outcome outcome = run_in(scratch, {"--resume", "run.h5"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1 of 1 were judged before"));
  EXPECT_EQ(read_run_file(scratch.file("run.h5")).records.size(), 1u);
}

TEST(Run, what_was_asked_for_and_has_no_implementation_is_a_failure) {
  const Scratch scratch;
  for (const CatalogEntry& entry : embedded_catalog().entries) {
    if (find_task(entry.name)) continue;
    const Outcome outcome = run_in(scratch, small({"--tasks", entry.name, "--out", "run.h5", "--gate-only"}));
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(entry.name));
    return;
  }
  GTEST_SKIP() << "every task of the catalog is implemented";
}

}  // namespace
}  // namespace faibench
