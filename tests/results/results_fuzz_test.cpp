// Damaged journals and run files are read or refused in one line, never a crash. FAIBENCH_FUZZ_SECONDS and FAIBENCH_FUZZ_SEED set how long and which.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>

#include "mutation.h"
#include "results/faulty_disk.h"
#include "results/run_file.h"
#include "results/sample_record.h"
#include "temporary_folder.h"

namespace faibench {
namespace {

using namespace testing_support;

std::vector<Record> some_records() {
  std::vector<Record> records = {sample_record("a", "cpu", 4), sample_record("a", "baseline", 2), sample_record("b", "cpu", 0)};
  records[2].verdict = Verdict::lost;
  return records;
}

class Outcomes {
 public:
  void count(const std::string& outcome) { ++counts_[outcome]; }
  void refused(const Error& e, const std::string& path) {
    const std::string text = e.what();
    ASSERT_EQ(e.kind, Error::Kind::bad_input) << text;
    ASSERT_EQ(text.find('\n'), std::string::npos) << text;
    ASSERT_EQ(text.rfind(path + ":", 0), 0u) << text;
    count(text.find("damaged: ") != std::string::npos ? text.substr(text.find("damaged: ")) : "refused");
  }
  ~Outcomes() {
    for (const auto& [outcome, count] : counts_) std::printf("%6d: %s\n", count, outcome.c_str());
  }
  [[nodiscard]] int of(const std::string& outcome) { return counts_[outcome]; }

 private:
  std::map<std::string, int> counts_;
};

TEST(JournalFuzz, reads_or_refuses_in_one_line) {
  FaultyDisk disk;
  {
    Journal journal = Journal::create("run.jsonl", collect_local({"faibench"}), false, disk);
    for (const Record& r : some_records()) journal.append(r);
  }
  const std::vector<std::string> good = {disk.files.at("run.jsonl")->bytes};
  Outcomes outcomes;
  fuzz(2.5, [&](Random& random) {
    const std::string bytes = mutated(good, random);
    disk.files["fuzzed.jsonl"] = std::make_shared<FaultyDisk::Stored>(FaultyDisk::Stored{bytes, bytes, false});
    try {
      Journal journal = Journal::resume("fuzzed.jsonl", disk);
      Record more = sample_record("more", "cpu", 1);
      more.key = "a key of its own";
      journal.append(more);
      const RunContents again = read_journal("fuzzed.jsonl", disk);
      ASSERT_EQ(again.records.size(), journal.records().size());
      outcomes.count("read");
    } catch (const Error& e) {
      outcomes.refused(e, "fuzzed.jsonl");
      ASSERT_EQ(disk.files.at("fuzzed.jsonl")->bytes, bytes) << "changed although refused";
    }
  });
  EXPECT_GT(outcomes.of("refused"), 0);
  EXPECT_GT(outcomes.of("read"), 0);
}

TEST(RunFileFuzz, reads_or_refuses_in_one_line) {
  const TemporaryFolder folder;
  const auto path = folder / "fuzzed.h5";
  FaultyDisk disk;
  write_run_file("full", collect_local({"faibench"}), some_records(), disk);
  write_run_file("empty", Provenance{}, {}, disk);
  const std::vector<std::string> good = {disk.files.at("full")->bytes, disk.files.at("empty")->bytes};
  Outcomes outcomes;
  fuzz(2.5, [&](Random& random) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << mutated(good, random);
    try {
      const RunContents read = read_run_file(path);
      for (const Record& record : read.records) ASSERT_FALSE(name_of(record.verdict).empty());
      outcomes.count("read");
    } catch (const Error& e) {
      outcomes.refused(e, path.string());
    }
  });
  EXPECT_GT(outcomes.of("refused"), 0);
}

}  // namespace
}  // namespace faibench
