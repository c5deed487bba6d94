// `faibench scale` from outside, under mpirun: what a user gets on 1, 2, 3 and 4 ranks, what resuming keeps, and what a plan says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/program.h"

namespace faibench {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::faibench;
using testing_support::is_one_complaint;
using testing_support::Outcome;
using testing_support::read_text;
using testing_support::run_command;
using testing_support::Scratch;

const std::string task = "tp_allreduce_bias_fuse";

Outcome launch(int ranks, std::vector<std::string> words) {
  std::vector<std::string> all = {"mpirun", "--oversubscribe", "--bind-to", "none", "-n", std::to_string(ranks), std::getenv("FAIBENCH_BIN"), "scale", task};
  all.insert(all.end(), words.begin(), words.end());
  return run_command(all);
}

class Scale : public testing::TestWithParam<int> {};

TEST_P(Scale, times_every_cell_of_one_launch) {
  const int world = GetParam();
  const Scratch scratch;
  const Outcome outcome = launch(world, {"--sizes", "1K,16K", "--variants", "mpi,mpi_baseline,nccl,library:reduce+broadcast", "--budget", "0.02", "--json", "--quiet", "--out", scratch.file("s.h5")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json study = json::parse(outcome.out);
  std::set<int> ranks;
  for (int n = 1; n < world; n *= 2) ranks.insert(n);
  ranks.insert(world);
  EXPECT_EQ(study["rows"].size(), 2 * 4 * 2 * ranks.size());  // sizes, variants, cadences
  std::set<std::string> keys;
  int timed = 0;
  for (const json& row : study["rows"]) {
    const std::string where = row.dump();
    EXPECT_TRUE(keys.insert(row["key"]).second) << where;
    EXPECT_TRUE(ranks.contains(row["ranks"])) << where;
    if (row["variant"] == "nccl") {
      EXPECT_EQ(row["verdict"], "skipped") << where;
      EXPECT_NE(row["detail"], "") << where;
      continue;
    }
    if (row["verdict"] == "late") {
      EXPECT_EQ(row["seconds"], 0) << where;
      continue;
    }
    ASSERT_EQ(row["verdict"], "passed") << where;
    ++timed;
    const double seconds = row["seconds"], alg = row["algbw"];
    const int P = row["ranks"];
    EXPECT_GT(row["samples"], 0) << where;
    EXPECT_GT(seconds, 0) << where;
    EXPECT_LE(row["low"], seconds) << where;
    EXPECT_GE(row["high"], seconds) << where;
    if (P == 1) {
      EXPECT_EQ(alg, 0) << where;
      EXPECT_EQ(row["busbw"], 0) << where;
    } else {
      EXPECT_NEAR(alg, row["bytes"].get<double>() / seconds, 1e-6 * alg) << where;
      EXPECT_NEAR(row["busbw"].get<double>(), alg * 2 * (P - 1) / P, 1e-6 * alg) << where;
      EXPECT_GT(row["wire_node"], 0) << where;
      EXPECT_GE(row["visits"], 1) << where;
      EXPECT_GE(row["visit_spread"], 1) << where;
      EXPECT_GT(row["bound_seconds"], 0) << where;
    }
  }
  EXPECT_GT(timed, 0);
  EXPECT_EQ(study["links"].size(), ranks.size() - 1);
  EXPECT_TRUE(std::filesystem::exists(scratch.file("s.h5")));
}
INSTANTIATE_TEST_SUITE_P(Ranks, Scale, testing::Values(1, 2, 3, 4));

TEST(ChunkLimit, of_one_element_ends) {
  const Scratch scratch;
  const Outcome outcome = launch(2, {"--sizes", "256", "--ranks", "2", "--variants", "mpi", "--chunk-limit", "1", "--budget", "0.02", "--visits", "1", "--quiet", "--out", scratch.file("s.h5")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST(Resuming, times_what_is_missing_and_keeps_the_rest) {
  const Scratch scratch;
  const std::vector<std::string> study = {"--sizes", "1K,4K", "--variants", "mpi,mpi_baseline", "--budget", "0.02", "--visits", "1", "--json", "--quiet"};
  auto first = study;
  first.insert(first.end(), {"--out", scratch.file("s.h5")});
  const Outcome whole = launch(2, first);
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(launch(2, first).code, 2) << "overwrote a file";
  // As if it had been killed while it wrote the last line but two.
  std::string journal = read_text(scratch.file("s.jsonl"));
  for (int i = 0; i < 3; ++i) journal.erase(journal.rfind('\n', journal.size() - 2) + 1);
  scratch.write("s.jsonl", journal + "{\"task\":\"tp_all");
  auto again = study;
  again.insert(again.end(), {"--resume", scratch.file("s.h5")});
  const Outcome resumed = launch(2, again);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const json before = json::parse(whole.out)["rows"], after = json::parse(resumed.out)["rows"];
  ASSERT_EQ(before.size(), 2u * 2 * 2 * 2);
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i]["key"], after[i]["key"]);
    if (i + 3 < before.size()) {
      EXPECT_EQ(before[i]["seconds"], after[i]["seconds"]);
    }
  }
}

TEST(Resuming, goes_on_after_a_signal_that_stopped_it_cleanly) {
  const Scratch scratch;
  const std::string words = "1K,4K --variants mpi,mpi_baseline --budget 0.6 --visits 2 --quiet --out " + scratch.file("s.h5");
  const Outcome stopped = run_command({"sh", "-c",
                                       "mpirun --oversubscribe --bind-to none -n 2 \"$FAIBENCH_BIN\" scale " + task + " --sizes " + words + " & job=$!\n"
                                       "until [ \"$(wc -l <" + scratch.file("s.jsonl") + " 2>/dev/null || echo 0)\" -ge 4 ]; do sleep 0.05; done\n"
                                       "kill -USR1 $job; wait $job"});
  EXPECT_EQ(stopped.code, 1) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("stopped by SIGUSR1: "));
  EXPECT_THAT(stopped.err, HasSubstr("go on with --resume " + scratch.file("s.h5")));
  EXPECT_TRUE(std::filesystem::exists(scratch.file("s.h5"))) << "what was timed is in the file";
  const std::string before = read_text(scratch.file("s.jsonl"));
  const Outcome resumed = launch(2, {"--sizes", "1K,4K", "--variants", "mpi,mpi_baseline", "--budget", "0.02", "--visits", "2", "--quiet", "--json", "--resume", scratch.file("s.h5")});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(json::parse(resumed.out)["rows"].size(), 2u * 2 * 2 * 2);
  EXPECT_THAT(read_text(scratch.file("s.jsonl")), testing::StartsWith(before));
}

TEST(Resuming, refuses_a_journal_of_something_else) {
  const Scratch scratch;
  scratch.write("s.jsonl", "{\"format\":\"other\"}\n");
  const Outcome outcome = launch(2, {"--resume", scratch.file("s.h5")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("s.jsonl:1: no journal of a scaling study"));
  EXPECT_EQ(read_text(scratch.file("s.jsonl")), "{\"format\":\"other\"}\n");
}

TEST(Resuming, takes_the_journals_name_counts_a_key_once_and_says_what_was_wrong) {
  const Scratch scratch;
  ASSERT_EQ(launch(1, {"--sizes", "64", "--variants", "mpi", "--budget", "0.01", "--visits", "1", "--quiet", "--out", scratch.file("s.h5")}).code, 0);
  const std::string journal = read_text(scratch.file("s.jsonl")), last = journal.substr(journal.rfind('\n', journal.size() - 2) + 1);
  const std::vector<std::string> words = {"--sizes", "64", "--variants", "mpi", "--budget", "0.01", "--visits", "1", "--json", "--quiet", "--resume", scratch.file("s.jsonl")};
  scratch.write("s.jsonl", journal + last);
  const Outcome twice = launch(1, words);
  ASSERT_EQ(twice.code, 0) << twice.err;
  const json once = json::parse(twice.out);  // outlives its rows
  for (const json& row : once["rows"]) EXPECT_EQ(row["visits"], 1);

  const auto with_verdict = [&](const std::string& verdict) {
    const std::string field = "\"verdict\":\"";
    std::string changed = last;
    const std::size_t at = changed.find(field) + field.size();
    scratch.write("s.jsonl", journal.substr(0, journal.size() - last.size()) + changed.replace(at, changed.find('"', at) - at, verdict));
    return launch(1, words);
  };
  EXPECT_EQ(with_verdict("wrong").code, 1);
  const Outcome none_such = with_verdict("fine");
  EXPECT_EQ(none_such.code, 2);
  EXPECT_THAT(none_such.err, HasSubstr("s.jsonl:3: field 'verdict'"));
}

TEST(Output, that_cannot_be_written_is_said_before_anything_is_timed) {
  const Scratch scratch;
  const std::string file = scratch.write("file", ""), folder = scratch.file("folder.h5");
  std::filesystem::create_directory(folder);
  for (const std::string& out : {file + "/s.h5", file + "/deeper/s.h5", folder, scratch.file("s.jsonl"), scratch.file(std::string(300, 'a'))}) {
    const Outcome outcome = faibench({"scale", task, "--sizes", "64", "--force", "--out", out});
    EXPECT_EQ(outcome.code, 2) << out;
    EXPECT_TRUE(is_one_complaint(outcome.err)) << out;
  }
  EXPECT_FALSE(std::filesystem::exists(scratch.file("folder.jsonl")));
}

TEST(Usage, mpirun_does_not_end_the_rank_that_says_what_was_wrong) {
  for (int again = 0; again < 3; ++again) {
    EXPECT_THAT(launch(4, {"--ranks", "9"}).err, HasSubstr("'9' is more than the 4 of this launch"));
    EXPECT_THAT(launch(4, {"--sizes", "none"}).err, HasSubstr("'none' is no number"));
  }
}

TEST(Usage, a_variant_that_no_task_has_is_an_error_also_among_others) {
  const Outcome outcome = faibench({"scale", task, "--variants", "mpi,mpi_registerd"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_complaint(outcome.err));
  EXPECT_THAT(outcome.err, HasSubstr("did you mean mpi_registered"));
}

TEST(PlanOnly, a_simulation_that_cannot_be_is_one_line_and_exit_code_2) {
  const Scratch scratch;
  const auto file_of = [&](const std::string& alpha, const std::string& bytes, const std::string& ranks, const std::string& ranks_per_node, const std::string& seconds) {
    return scratch.write("s.json", R"({"cost":{"alpha":[)" + alpha + R"(,5e-6],"beta":[1e-10,8e-11],"gamma":0},"points":[{"task":")" + task + R"(","bytes":)" + bytes + R"(,"ranks":)" + ranks +
                                       R"(,"ranks_per_node":)" + ranks_per_node + R"(,"seconds":)" + seconds + "}]}");
  };
  const auto plan = [&](const std::string& file) { return faibench({"scale", task, "--plan-only", "--ranks", "8", "--sizes", "1K", "--simulated", file}); };
  EXPECT_EQ(plan(file_of("1e-6", "1024", "8", "8", "1e-5")).code, 0);
  const std::string valid[] = {"1e-6", "1024", "8", "8", "1e-5"};
  const std::vector<std::string> bad[] = {{"-1", "1e300", "null"}, {"-5", "0", "1e300", "9223372036854775807"}, {"0", "-8", "8.7", "true", "99999999999"}, {"0", "-3", "\"8\""}, {"0", "-1", "1e-320", "1e308", "NaN"}};
  for (std::size_t field = 0; field < std::size(valid); ++field) {
    for (const std::string& value : bad[field]) {
      std::string words[] = {valid[0], valid[1], valid[2], valid[3], valid[4]};
      words[field] = value;
      const Outcome outcome = plan(file_of(words[0], words[1], words[2], words[3], words[4]));
      EXPECT_EQ(outcome.code, 2) << field << ": " << value << outcome.err;
      EXPECT_TRUE(is_one_complaint(outcome.err)) << field << ": " << value;
    }
  }
  EXPECT_EQ(plan(scratch.path().string()).code, 2) << "a folder";
}

TEST(PlanOnly, forecasts_65536_ranks_and_its_error_against_a_simulation) {
  const std::string simulated = std::string(std::getenv("FAIBENCH_SOURCE")) + "/tests/simgrid/simulated.json";
  const std::vector<std::string> words = {"scale", task, "--plan-only", "--ranks", "1024,65536", "--ranks-per-node", "8", "--sizes", "64K,1M", "--simulated", simulated};
  const Outcome table = faibench(words);
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("forecast us"));
  auto as_json = words;
  as_json.push_back("--json");
  const json rows = json::parse(faibench(as_json).out)["rows"];
  ASSERT_EQ(rows.size(), 4u);
  for (const json& row : rows) {
    EXPECT_GT(row["rounds"], 0);
    EXPECT_GT(row["partners"], 0);
    EXPECT_GT(row["in_degree"], 0);
    EXPECT_GT(row["bytes_sent"][1], 0);
    EXPECT_GE(row["forecast_seconds"], row["bound_seconds"]);
    EXPECT_GT(row["ranks_checked"], 0);
    EXPECT_EQ(row["error"].is_null(), row["ranks"] != 1024);
    if (row["ranks"] == 1024) {
      EXPECT_NEAR(row["error"].get<double>(), row["forecast_seconds"].get<double>() / row["simulated_seconds"].get<double>() - 1, 1e-9);
    }
  }
}

TEST(PlanOnly, of_every_task_is_sound_and_not_below_its_bound) {
  for (const char* name : {"tp_allreduce_bias_fuse", "all2all_tensor_redistribute", "grad_signsgd_error_feedback", "diloco_comm_chunk_balance", "dcp_shard_meta_merge", "fused_global_grad_clip"}) {
    const Outcome outcome = faibench({"scale", name, "--plan-only", "--ranks", "8,64,4096", "--sizes", "64K", "--json"});
    ASSERT_EQ(outcome.code, 0) << name << outcome.err;
    const json rows = json::parse(outcome.out)["rows"];
    ASSERT_EQ(rows.size(), 3u) << name;
    for (const json& row : rows) {
      if (row["forecast_seconds"].is_null()) continue;
      EXPECT_EQ(row["soundness"].get<std::string>().rfind("sound", 0), 0u) << row;
      EXPECT_GE(row["forecast_seconds"].get<double>(), row["bound_seconds"].get<double>() * (1 - 1e-9)) << row;
    }
  }
}

/// simulated_tasks.json is what collectives_at_scale printed for each task; simulate again where a task changes what it sends.
TEST(PlanOnly, meets_simulated_times_of_every_task_that_it_was_not_fitted_to) {
  const std::string simulated = std::string(std::getenv("FAIBENCH_SOURCE")) + "/tests/scale/simulated_tasks.json";
  for (const char* name : {"tp_allreduce_bias_fuse", "all2all_tensor_redistribute", "grad_signsgd_error_feedback", "diloco_comm_chunk_balance", "dcp_shard_meta_merge", "fused_global_grad_clip"}) {
    const Outcome outcome = faibench({"scale", name, "--plan-only", "--ranks", "16", "--sizes", "64K", "--simulated", simulated, "--json"});
    ASSERT_EQ(outcome.code, 0) << name << outcome.err;
    const json plan = json::parse(outcome.out);
    EXPECT_LT(plan["calibration"]["median_error"], 0.05);
    ASSERT_GE(plan["held_out"].size(), 2u) << name;
    for (const json& row : plan["held_out"]) EXPECT_LT(std::abs(row["error"].get<double>()), 0.15) << row;
  }
}

TEST(Usage, what_cannot_be_is_one_line_and_exit_code_2) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"scale", task, "--ranks", "2"},
                                                                                     {"scale", "coalesced_matrix_transpose"},
                                                                                     {"scale", task, "--sizes", "4K:1K"},
                                                                                     {"scale", task, "--variants", "none_such"},
                                                                                     {"scale", task, "--plan-only", "--simulated", "/nowhere.json"},
                                                                                     {"scale", task, "--plan-only", "--out", "s.h5"},
                                                                                     {"scale", task, "--plan-only", "--ranks", "2147483647"}}) {
    const Outcome outcome = faibench(words);
    EXPECT_EQ(outcome.code, 2) << words.back();
    EXPECT_TRUE(is_one_complaint(outcome.err)) << words.back();
  }
}

}  // namespace
}  // namespace faibench
