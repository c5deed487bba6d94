#include "cluster/ledger.h"

#include <gtest/gtest.h>

#include <fstream>

#include "temporary_folder.h"

namespace faibench {
namespace {

Record judged(const std::string& key, Verdict verdict = Verdict::passed) {
  Record record;
  record.key = key;
  record.task = "t" + key;
  record.variant = "cpu";
  record.workload = "smoke";
  record.verdict = verdict;
  return record;
}

class LedgerTest : public testing::Test {
 protected:
  testing_support::TemporaryFolder folder;
  std::filesystem::path run = folder / "deep/run.h5";
};

TEST_F(LedgerTest, makes_its_folder_and_an_empty_result_file) {
  Ledger ledger = Ledger::create(run, {}, false);
  ledger.fold();
  EXPECT_TRUE(read_run_file(run).records.empty());
}

TEST_F(LedgerTest, refuses_to_overwrite_unless_forced) {
  { Ledger::create(run, {}, false).append(judged("1")); }
  try {
    Ledger::create(run, {}, false);
    FAIL() << "overwrote a run";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, Error::Kind::bad_input);
    EXPECT_NE(std::string(error.what()).find("--force"), std::string::npos);
  }
  EXPECT_EQ(read_run(run).records.size(), 1u);
  EXPECT_TRUE(Ledger::create(run, {}, true).records().empty());
}

TEST_F(LedgerTest, goes_on_from_the_journal_by_either_name) {
  {
    Ledger ledger = Ledger::create(run, {}, false);
    ledger.append(judged("1"));
  }
  {
    Ledger ledger = Ledger::resume(run);
    EXPECT_TRUE(ledger.holds("1"));
    ledger.append(judged("2"));
    ledger.fold();
  }
  const Ledger again = Ledger::resume(journal_path(run));
  EXPECT_TRUE(again.holds("2"));
  EXPECT_EQ(again.run_file(), run);
  EXPECT_EQ(read_run_file(run).records.size(), 2u);
}

TEST_F(LedgerTest, makes_a_lost_journal_anew_from_the_result_file) {
  {
    Ledger ledger = Ledger::create(run, {}, false);
    ledger.append(judged("1"));
    ledger.fold();
  }
  std::filesystem::remove(journal_path(run));
  EXPECT_TRUE(Ledger::resume(run).holds("1"));
  EXPECT_EQ(read_journal(journal_path(run)).records.size(), 1u);
}

TEST_F(LedgerTest, says_what_is_missing) {
  try {
    Ledger::resume(run);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, Error::Kind::bad_input);
    EXPECT_NE(std::string(error.what()).find("no such run"), std::string::npos);
  }
  EXPECT_THROW(Ledger::create(folder / "run.jsonl", {}, false), Error);
}

TEST_F(LedgerTest, judges_lost_items_again_and_shows_them_once) {
  {
    Ledger ledger = Ledger::create(run, {}, false);
    ledger.append(judged("1", Verdict::lost));
    EXPECT_FALSE(ledger.holds("1"));
    ASSERT_EQ(ledger.records().size(), 1u);
    EXPECT_EQ(ledger.records()[0].verdict, Verdict::lost);
  }
  Ledger ledger = Ledger::resume(run);
  ledger.append(judged("1", Verdict::lost));
  EXPECT_EQ(ledger.records().size(), 1u);
  ledger.append(judged("1"));
  ASSERT_EQ(ledger.records().size(), 1u);
  EXPECT_EQ(ledger.records()[0].verdict, Verdict::passed);
}

TEST_F(LedgerTest, says_where_verdicts_are_safe_when_the_result_file_cannot_be_written) {
  Ledger ledger = Ledger::create(run, {}, false);
  ledger.append(judged("1"));
  std::filesystem::create_directory(run);  // a folder where the file should go: rename must fail, for root too
  std::ofstream(run / "occupied") << "x";
  try {
    ledger.fold();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, Error::Kind::io);
    EXPECT_NE(std::string(error.what()).find("1 verdict is safe in"), std::string::npos);
  }
}

TEST_F(LedgerTest, folds_from_time_to_time) {
  Ledger ledger = Ledger::create(run, {}, false);
  ledger.append(judged("1"));
  ledger.fold_if_due(1000);
  EXPECT_EQ(read_run_file(run).records.size(), 1u);
  ledger.append(judged("2"));
  ledger.fold_if_due(1001);
  EXPECT_EQ(read_run_file(run).records.size(), 1u);
  ledger.fold_if_due(1100);
  EXPECT_EQ(read_run_file(run).records.size(), 2u);
}

}  // namespace
}  // namespace faibench
