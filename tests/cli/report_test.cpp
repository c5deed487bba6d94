#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "results/run_file.h"
#include "results/scaling.h"

namespace faibench {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::faibench;
using testing_support::is_one_complaint;
using testing_support::Outcome;
using testing_support::read_text;
using testing_support::Scratch;

Record record_of(const std::string& task, Verdict verdict, double score) {
  Record record;
  record.key = task;
  record.task = task;
  record.group = "linalg";
  record.variant = "cpu";
  record.workload = "smoke";
  record.verdict = verdict;
  record.score = score;
  record.ref_speedup = 2;
  if (verdict == Verdict::passed) record.speedup = record.speedup_low = record.speedup_high = 4;
  if (verdict != Verdict::passed) record.reason = "SIGSEGV", record.detail = "case one_row: the candidate died";
  return record;
}

std::string written_run(const Scratch& scratch) {
  Provenance provenance;
  provenance.version = "0.1.0";
  provenance.hosts.emplace_back().name = "host1";
  write_run_file(scratch.file("run.h5"), provenance, {record_of("good_task", Verdict::passed, 1), record_of("bad_task", Verdict::crashed, 0)});
  return scratch.file("run.h5");
}

TEST(Report, prints_the_scoreboard_whatever_the_verdicts) {
  const Scratch scratch;
  const Outcome outcome = faibench({"report", written_run(scratch)});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("good_task"));
  EXPECT_THAT(outcome.out, HasSubstr("bad_task"));
  EXPECT_THAT(outcome.out, HasSubstr("SIGSEGV"));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("\x1b["))) << "colours without a terminal";
}

TEST(Report, reads_a_journal_as_well) {
  const Scratch scratch;
  Journal journal = Journal::create(scratch.file("run.jsonl"), Provenance(), false);
  journal.append(record_of("good_task", Verdict::passed, 1));
  EXPECT_THAT(faibench({"report", scratch.file("run.jsonl")}).out, HasSubstr("good_task"));
}

std::string written_study(const Scratch& scratch, int ranks) {
  ScalingStudy study;
  ScalingRow row;
  row.task = "sum", row.variant = "mpi", row.cadence = "isolated", row.verdict = "passed";
  row.ranks = ranks;
  row.bytes = 1024;
  row.seconds = row.low = row.high = 1e-6 * ranks;
  row.key = "sum|mpi|1024|" + std::to_string(ranks);
  study.rows = {row};
  const std::string path = scratch.file("scale-" + std::to_string(ranks) + ".h5");
  write_run_file(path, Provenance(), {}, &study);
  return path;
}

TEST(Report, shows_several_studies_as_one) {
  const Scratch scratch;
  const std::string one = written_study(scratch, 1), two = written_study(scratch, 2), four = written_study(scratch, 4);
  const Outcome outcome = faibench({"report", one, two, four, "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json study = json::parse(outcome.out);
  ASSERT_EQ(study["rows"].size(), 3u);
  EXPECT_EQ(study["rows"][2]["ranks"], 4);
  EXPECT_DOUBLE_EQ(study["rows"][2]["weak_efficiency"], 0.25);
  EXPECT_THAT(faibench({"report", four, one}).out, testing::AllOf(HasSubstr("isolated       4      1 KiB mpi"), HasSubstr("isolated       1      1 KiB mpi")));
  EXPECT_THAT(faibench({"report", four}).out, HasSubstr("isolated       4      1 KiB mpi"));
}

TEST(Report, takes_several_files_of_studies_only) {
  const Scratch scratch;
  const std::string study = written_study(scratch, 1), run = written_run(scratch);
  const Outcome mixed = faibench({"report", study, run});
  EXPECT_EQ(mixed.code, 2);
  EXPECT_TRUE(is_one_complaint(mixed.err)) << mixed.err;
  EXPECT_THAT(mixed.err, HasSubstr("run.h5: is no result file of a scaling study"));
  EXPECT_EQ(faibench({"report", study, scratch.file("missing.h5")}).code, 2);
  EXPECT_THAT(faibench({"report", study, "--html", scratch.file("page.html")}).err, HasSubstr("--html"));
}

TEST(Report, a_journal_of_a_study_is_named_as_one) {
  const Scratch scratch;
  const Outcome outcome = faibench({"report", scratch.write("s.jsonl", "{\"format\":\"faibench-scaling-journal/2\"}\n")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_complaint(outcome.err));
  EXPECT_THAT(outcome.err, HasSubstr("faibench scale --resume"));
}

TEST(Report, json_is_for_programs) {
  const Scratch scratch;
  const Outcome outcome = faibench({"report", written_run(scratch), "--json"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(json::parse(outcome.out)["records"].size(), 2u);
}

TEST(Report, writes_html_and_never_over_a_file_without_force) {
  const Scratch scratch;
  const std::string run = written_run(scratch), page = scratch.file("run.html");
  EXPECT_EQ(faibench({"report", run, "--html", page}).code, 0);
  EXPECT_THAT(read_text(page), HasSubstr("good_task"));
  scratch.write("run.html", "precious");
  const Outcome refused = faibench({"report", run, "--html", page});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err, "faibench: " + page + ": exists already; --force overwrites it\n");
  EXPECT_EQ(read_text(page), "precious");
  EXPECT_EQ(faibench({"report", run, "--html", page, "--force"}).code, 0);
  EXPECT_THAT(read_text(page), HasSubstr("good_task"));
}

TEST(Report, a_page_that_cannot_be_written_is_one_line_and_leaves_nothing) {
  const Scratch scratch;
  const Outcome outcome = faibench({"report", written_run(scratch), "--html", scratch.file("no/such/folder.html")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_complaint(outcome.err));
  EXPECT_EQ(faibench({"report", written_run(scratch), "--html", scratch.path().string()}).code, 2);
}

TEST(Report, a_damaged_or_missing_run_is_one_line_with_its_name) {
  const Scratch scratch;
  for (const std::string& path : {scratch.write("text.h5", "no HDF5"), scratch.write("empty.h5", ""), scratch.write("text.jsonl", "{\n"), scratch.file("missing.h5"), scratch.file("missing.jsonl")}) {
    const Outcome outcome = faibench({"report", path});
    EXPECT_EQ(outcome.code, 2) << path;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(is_one_complaint(outcome.err));
    EXPECT_THAT(outcome.err, HasSubstr(path));
  }
}

}  // namespace
}  // namespace faibench
