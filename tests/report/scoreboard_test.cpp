#include "report/scoreboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "report/made_up_run.h"

namespace faibench {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing_support::made_up_provenance;
using testing_support::made_up_run;
using testing_support::passed;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Summary, counts_failures_as_zero_and_leaves_peers_out) {
  const Summary s = summarize(made_up_run());
  EXPECT_EQ(s.records, 6);
  EXPECT_EQ(s.passed, 3);
  EXPECT_EQ(s.failed, 2);
  EXPECT_EQ(s.not_run, 1);
  EXPECT_DOUBLE_EQ(s.mean_score, 2.0 / 6);
  EXPECT_EQ(s.timed, 2);
  EXPECT_DOUBLE_EQ(s.geometric_mean_speedup, 4);
}

TEST(Summary, ignores_a_score_that_came_with_a_failure) {
  std::vector<Record> records = {passed("a", "cpu", 8, 1)};
  records[0].verdict = Verdict::wrong;
  EXPECT_EQ(summarize(records).mean_score, 0);
  EXPECT_EQ(summarize(records).timed, 0);
}

TEST(Summary, counts_emulated_variants_apart) {
  std::vector<Record> records = made_up_run();
  const Summary before = summarize(records);
  for (const Verdict verdict : {Verdict::passed, Verdict::crashed}) records.push_back(testing_support::verdict_of("coalesced_matrix_transpose", "cuda", verdict)), records.back().emulated = true;
  records.back().reason = "race on shared memory";
  const Summary after = summarize(records);
  EXPECT_EQ(after.records, before.records);
  EXPECT_EQ(after.failed, before.failed);
  EXPECT_EQ(after.mean_score, before.mean_score);
  EXPECT_EQ(after.emulated, 2);
  EXPECT_EQ(after.emulated_passed, 1);
  const std::string board = print_scoreboard(records, made_up_provenance());
  EXPECT_NE(board.find("cuda (emulated)"), std::string::npos) << board;
  EXPECT_NE(board.find("2 variants for GPUs emulated on CPUs, neither timed nor scored: 1 passed, 1 did not"), std::string::npos) << board;
  EXPECT_NE(board.find("crashed (race on shared memory)"), std::string::npos) << board;
  const std::string json = scoreboard_json(records, made_up_provenance());
  EXPECT_NE(json.find("\"emulated\": true"), std::string::npos);
  EXPECT_NE(json.find("\"emulated_passed\": 1"), std::string::npos);
}

TEST(Summary, of_nothing_is_zero) {
  EXPECT_EQ(summarize({}).mean_score, 0);
  EXPECT_EQ(summarize({}).geometric_mean_speedup, 0);
}

TEST(Scoreboard, shows_each_verdict_in_a_line) {
  const std::string text = print_scoreboard(made_up_run(), made_up_provenance(), {.width = 120});
  EXPECT_THAT(text, ContainsRegex("coalesced_matrix_transpose +cpu +passed +8\\.00x +7\\.76\\.\\.8\\.16 +2\\.50x +1\\.000 +100 ms +50%"));
  EXPECT_THAT(text, ContainsRegex("coalesced_matrix_transpose +peer:OpenBLAS +passed +3\\.00x +2\\.91\\.\\.3\\.06 +2\\.50x +- +100 ms"));
  EXPECT_THAT(text, ContainsRegex("runtime_arena_memplan +cpu +wrong +- +- +2\\.50x +0\\.000 +- +-"));
  EXPECT_THAT(text, ContainsRegex("grpo_rloo_advantage +cpu +passed +- +- +- +1\\.000"));
}

TEST(Scoreboard, explains_failures_and_sums_up_openly) {
  const std::string text = print_scoreboard(made_up_run(), made_up_provenance());
  EXPECT_THAT(text, HasSubstr("runtime_arena_memplan cpu standard: wrong (value): case ragged: out[3, 7] is 1.5"));
  EXPECT_THAT(text, HasSubstr("p2c_least_loaded_router cpu standard: crashed (SIGSEGV)\n      | two\n      | three\n      | four  [31mred [0m\n"));
  EXPECT_THAT(text, HasSubstr("compile_cache_key_canon cuda standard: skipped (no GPU)\n"));
  EXPECT_THAT(text, HasSubstr("asked for cuda, ran cpu; outliers:3"));
  EXPECT_THAT(text, HasSubstr("6 verdicts: 3 passed, 2 failed, 1 not run\nmean score 0.333 over all 6, whatever is not passed counting 0\n"
                              "geometric mean speedup 4.00x over the 2 timed and passed; 3 not passed are not in it\n"));
}

TEST(Scoreboard, fits_the_terminal) {
  for (int width : {80, 90, 100, 120, 200}) {
    for (const std::string& line : lines_of(print_scoreboard(made_up_run(), made_up_provenance(), {.width = width}))) EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
  }
  const std::string narrow = print_scoreboard(made_up_run(), made_up_provenance(), {.width = 10});
  for (const std::string& line : lines_of(narrow)) EXPECT_LE(line.size(), 80u) << line;
  for (const char* column : {"task", "variant", "verdict", "speedup", "interval", "score"}) EXPECT_THAT(narrow, HasSubstr(column));
}

TEST(Scoreboard, has_no_escapes_unless_colour_is_asked) {
  EXPECT_THAT(print_scoreboard(made_up_run(), made_up_provenance()), Not(HasSubstr("\x1b")));
  const std::string coloured = print_scoreboard(made_up_run(), made_up_provenance(), {.colour = true});
  EXPECT_THAT(coloured, HasSubstr("\x1b[32mpassed"));
  EXPECT_THAT(coloured, HasSubstr("\x1b[31mcrashed"));
  EXPECT_THAT(coloured, HasSubstr("\x1b[33mskipped"));
}

TEST(Scoreboard, shows_workloads_and_ranks_where_they_tell_lines_apart) {
  EXPECT_THAT(print_scoreboard(made_up_run(), made_up_provenance()), Not(HasSubstr("  workload")));
  std::vector<Record> records = {passed("tp_allreduce_bias_fuse", "cpu", 2, 0), passed("tp_allreduce_bias_fuse", "cpu", 3, 0)};
  records[1].workload = "smoke";
  records[1].ranks = 4;
  const std::string text = print_scoreboard(records, made_up_provenance());
  EXPECT_THAT(text, ContainsRegex("smoke +4 +passed"));
  EXPECT_THAT(text, ContainsRegex("standard +1 +passed"));
}

TEST(Scoreboard, sets_ours_against_the_fastest_peer) {
  std::vector<Record> records = made_up_run();
  records.push_back(passed("coalesced_matrix_transpose", "peer:slow", 1, 0));
  records.push_back(passed("coalesced_matrix_transpose", "peer:broken", 99, 0));
  records.back().verdict = Verdict::wrong;
  const std::string text = print_scoreboard(records, made_up_provenance(), {.width = 140});
  EXPECT_THAT(text, ContainsRegex("time +floor +of peer\n"));
  EXPECT_THAT(text, ContainsRegex("coalesced_matrix_transpose +cpu +passed .* +50% +2\.67x\n"));
  EXPECT_THAT(text, ContainsRegex("flash_causal_attn_prefill +cpu +passed .* +50% +-\n"));
  const auto json = nlohmann::json::parse(scoreboard_json(records, made_up_provenance()));
  EXPECT_EQ(json["records"][0]["peer"], "peer:OpenBLAS");
  EXPECT_NEAR(json["records"][0]["speedup_over_peer"].get<double>(), 8.0 / 3, 1e-9);
  EXPECT_THAT(print_scoreboard({passed("a", "cpu", 8, 1)}, made_up_provenance(), {.width = 140}), Not(HasSubstr("of peer")));
}

TEST(Scoreboard, of_nothing_says_so) { EXPECT_THAT(print_scoreboard({}, {}), HasSubstr("no verdicts\n")); }

TEST(Scoreboard, is_json_for_programs) {
  std::vector<Record> records = made_up_run();
  records[0].samples.resize(3);
  const auto json = nlohmann::json::parse(scoreboard_json(records, made_up_provenance()));
  EXPECT_EQ(json["format"], "faibench-scoreboard/1");
  EXPECT_EQ(json["summary"]["failed"], 2);
  EXPECT_EQ(json["summary"]["geometric_mean_speedup"], 4);
  ASSERT_EQ(json["records"].size(), 7u);
  EXPECT_EQ(json["records"][0]["task"], "coalesced_matrix_transpose");
  EXPECT_FALSE(json["records"][0].contains("samples"));
  EXPECT_EQ(json["provenance"]["commit"], "0123456789ab");
}

}  // namespace
}  // namespace faibench
