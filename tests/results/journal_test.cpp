#include "results/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "results/faulty_disk.h"
#include "results/sample_record.h"
#include "temporary_folder.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing_support::expect_equal_records;
using testing_support::FaultyDisk;
using testing_support::sample_record;
using testing_support::TemporaryFolder;

Provenance some_provenance(std::uint64_t seed = 7) {
  Provenance p;
  p.version = "1.2.3";
  p.command_line = "faibench run";
  p.seed = seed;
  p.hosts.emplace_back().name = "node1";
  return p;
}

template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    return e;
  }
  return {Error::Kind::internal, "no error"};
}

std::string contents(FaultyDisk& disk, const std::string& path) { return disk.files.at(path)->bytes; }

TEST(Journal, gives_back_what_was_appended) {
  FaultyDisk disk;
  {
    Journal journal = Journal::create("run.jsonl", some_provenance(), false, disk);
    journal.append(sample_record("a", "cpu", 3));
    journal.append(sample_record("b", "cpu", 0));
    journal.close();
  }
  const Journal journal = Journal::resume("run.jsonl", disk);
  EXPECT_EQ(to_json(journal.provenance()), to_json(some_provenance()));
  ASSERT_EQ(journal.records().size(), 2u);
  expect_equal_records(journal.records()[0], sample_record("a", "cpu", 3));
  expect_equal_records(journal.records()[1], sample_record("b", "cpu", 0));
  EXPECT_EQ(journal.find("k-b-cpu"), &journal.records()[1]);
  EXPECT_EQ(journal.find("nothing"), nullptr);
}

TEST(Journal, is_on_the_device_when_append_returns) {
  FaultyDisk disk;
  Journal journal = Journal::create("run.jsonl", some_provenance(), false, disk);
  journal.append(sample_record("a", "cpu", 3));
  EXPECT_EQ(disk.files.at("run.jsonl")->synced, contents(disk, "run.jsonl"));
  disk.lose_power();
  EXPECT_EQ(Journal::resume("run.jsonl", disk).records().size(), 1u);
}

TEST(Journal, drops_a_torn_last_line_wherever_it_is_torn) {
  FaultyDisk disk;
  std::int64_t before = 0;
  {
    Journal journal = Journal::create("run.jsonl", some_provenance(), false, disk);
    journal.append(sample_record("a", "cpu", 1));
    before = static_cast<std::int64_t>(contents(disk, "run.jsonl").size());
    journal.append(sample_record("b", "cpu", 1));
  }
  const std::string whole = contents(disk, "run.jsonl");
  for (std::int64_t end = before; end < static_cast<std::int64_t>(whole.size()); ++end) {
    disk.files.at("run.jsonl")->bytes = whole.substr(0, static_cast<std::size_t>(end));
    EXPECT_EQ(read_journal("run.jsonl", disk).records.size(), 1u);
    Journal journal = Journal::resume("run.jsonl", disk);
    ASSERT_EQ(journal.records().size(), 1u) << end;
    EXPECT_EQ(static_cast<std::int64_t>(contents(disk, "run.jsonl").size()), before);
    journal.append(sample_record("b", "cpu", 1));
    EXPECT_EQ(contents(disk, "run.jsonl"), whole);
  }
}

TEST(Journal, names_the_damaged_line) {
  FaultyDisk disk;
  {
    Journal journal = Journal::create("run.jsonl", some_provenance(), false, disk);
    for (const char* task : {"a", "b", "c"}) journal.append(sample_record(task, "cpu", 1));
  }
  std::string& bytes = disk.files.at("run.jsonl")->bytes;
  bytes[bytes.find("\"task\":\"b\"") + 1] = 'X';
  const Error error = error_of([&] { Journal::resume("run.jsonl", disk); });
  EXPECT_EQ(error.kind, Error::Kind::bad_input);
  EXPECT_STREQ(error.what(), "run.jsonl:3: field 'task' is missing");
}

TEST(Journal, refuses_what_is_no_journal) {
  FaultyDisk disk;
  const auto with = [&](const std::string& bytes) {
    disk.files["x.jsonl"] = std::make_shared<FaultyDisk::Stored>(FaultyDisk::Stored{bytes, bytes});
    const Error error = error_of([&] { Journal::resume("x.jsonl", disk); });
    EXPECT_EQ(error.kind, Error::Kind::bad_input);
    EXPECT_EQ(contents(disk, "x.jsonl"), bytes) << "changed although refused";
    return std::string(error.what());
  };
  EXPECT_EQ(with(""), "x.jsonl:1: no header line; not a journal");
  EXPECT_EQ(with("no line feed"), "x.jsonl:1: no header line; not a journal");
  EXPECT_EQ(with("a text\n"), "x.jsonl:1: not valid JSON at byte 1");
  EXPECT_EQ(with("{\"format\":\"faibench-journal/2\",\"provenance\":{}}\n"), "x.jsonl:1: format is 'faibench-journal/2', this program reads 'faibench-journal/1'");
  EXPECT_EQ(with("{\"format\":\"faibench-journal/1\"}\n"), "x.jsonl:1: field 'provenance' is missing");
  EXPECT_EQ(with("{\"format\":\"faibench-journal/1\",\"provenance\":{}}\n"), "x.jsonl:1: provenance: field 'version' is missing");
  EXPECT_THAT(with(to_json(sample_record("a", "cpu", 0)) + "\n"), HasSubstr("field 'format' is missing"));
}

TEST(Journal, does_not_replace_another_unless_told) {
  FaultyDisk disk;
  Journal::create("run.jsonl", some_provenance(), false, disk).append(sample_record("a", "cpu", 1));
  const Error error = error_of([&] { Journal::create("run.jsonl", some_provenance(), false, disk); });
  EXPECT_EQ(error.kind, Error::Kind::io);
  EXPECT_STREQ(error.what(), "run.jsonl: exists already");
  EXPECT_EQ(read_journal("run.jsonl", disk).records.size(), 1u);
  Journal::create("run.jsonl", some_provenance(8), true, disk);
  EXPECT_EQ(read_journal("run.jsonl", disk).records.size(), 0u);
  EXPECT_EQ(read_journal("run.jsonl", disk).provenance.seed, 8u);
}

TEST(Journal, has_one_writer) {
  FaultyDisk disk;
  Journal first = Journal::create("run.jsonl", some_provenance(), false, disk);
  first.append(sample_record("a", "cpu", 1));
  EXPECT_STREQ(error_of([&] { Journal::resume("run.jsonl", disk); }).what(), "run.jsonl: another run is writing it");
  EXPECT_STREQ(error_of([&] { Journal::create("run.jsonl", some_provenance(), true, disk); }).what(), "run.jsonl: another run is writing it");
  EXPECT_EQ(read_journal("run.jsonl", disk).records.size(), 1u) << "reading needs no lock";
  first.close();
  EXPECT_EQ(Journal::resume("run.jsonl", disk).records().size(), 1u);
}

TEST(Journal, stays_whole_when_the_disk_is_full) {
  for (std::int64_t room = 0; room < 1200; room += 37) {
    FaultyDisk disk;
    Journal journal = Journal::create("run.jsonl", some_provenance(), false, disk);
    journal.append(sample_record("a", "cpu", 1));
    const std::string before = contents(disk, "run.jsonl");
    disk.room = room;
    const Error error = error_of([&] { journal.append(sample_record("b", "cpu", 20)); });
    EXPECT_EQ(error.kind, Error::Kind::io);
    EXPECT_STREQ(error.what(), "run.jsonl: cannot write: No space left on device");
    EXPECT_EQ(contents(disk, "run.jsonl"), before);
    EXPECT_EQ(journal.records().size(), 1u);
    disk.room = -1;
    journal.append(sample_record("b", "cpu", 20));
    EXPECT_EQ(read_journal("run.jsonl", disk).records.size(), 2u);
  }
}

TEST(Journal, takes_the_bytes_back_later_when_it_cannot_at_once) {
  FaultyDisk disk;
  Journal journal = Journal::create("run.jsonl", some_provenance(), false, disk);
  disk.room = 10;
  disk.failing = {"truncate"};
  EXPECT_STREQ(error_of([&] { journal.append(sample_record("a", "cpu", 1)); }).what(), "run.jsonl: cannot write: No space left on device");
  disk.room = -1;
  EXPECT_STREQ(error_of([&] { journal.append(sample_record("a", "cpu", 1)); }).what(), "run.jsonl: cannot truncate: Input/output error");
  disk.failing = {};
  journal.append(sample_record("a", "cpu", 1));
  EXPECT_EQ(read_journal("run.jsonl", disk).records.size(), 1u);
}

TEST(Journal, counts_nothing_that_was_not_synced) {
  FaultyDisk disk;
  Journal journal = Journal::create("run.jsonl", some_provenance(), false, disk);
  disk.failing = {"sync"};
  EXPECT_STREQ(error_of([&] { journal.append(sample_record("a", "cpu", 1)); }).what(), "run.jsonl: cannot sync: Input/output error");
  EXPECT_TRUE(journal.records().empty());
  disk.failing = {};
  journal.append(sample_record("a", "cpu", 1));
  EXPECT_EQ(read_journal("run.jsonl", disk).records.size(), 1u);
}

TEST(Journal, leaves_nothing_behind_when_the_header_cannot_be_written) {
  FaultyDisk disk;
  disk.room = 5;
  EXPECT_STREQ(error_of([&] { Journal::create("run.jsonl", some_provenance(), false, disk); }).what(), "run.jsonl: cannot write: No space left on device");
  EXPECT_TRUE(disk.files.empty());
}

TEST(Journal, refuses_a_second_verdict_of_one_key) {
  FaultyDisk disk;
  Journal journal = Journal::create("run.jsonl", some_provenance(), false, disk);
  journal.append(sample_record("a", "cpu", 1));
  const Error error = error_of([&] { journal.append(sample_record("a", "cpu", 2)); });
  EXPECT_EQ(error.kind, Error::Kind::internal);
  EXPECT_THAT(error.what(), HasSubstr("k-a-cpu"));
  EXPECT_EQ(read_journal("run.jsonl", disk).records.size(), 1u);
}

TEST(Journal, lets_the_first_verdict_stand_where_a_file_holds_two) {
  FaultyDisk disk;
  Journal::create("run.jsonl", some_provenance(), false, disk).append(sample_record("a", "cpu", 1));
  Record second = sample_record("a", "cpu", 1);
  second.verdict = Verdict::lost;
  disk.files.at("run.jsonl")->bytes += to_json(second) + "\n";
  const Journal journal = Journal::resume("run.jsonl", disk);
  ASSERT_EQ(journal.records().size(), 1u);
  EXPECT_EQ(journal.records()[0].verdict, Verdict::passed);
}

TEST(Journal, takes_new_provenance_on_the_way) {
  FaultyDisk disk;
  Journal journal = Journal::create("run.jsonl", some_provenance(1), false, disk);
  journal.append(sample_record("a", "cpu", 1));
  journal.update_provenance(some_provenance(2));
  journal.append(sample_record("b", "cpu", 1));
  const RunContents read = read_journal("run.jsonl", disk);
  EXPECT_EQ(read.provenance.seed, 2u);
  EXPECT_EQ(read.records.size(), 2u);
}

TEST(Journal, on_the_real_disk_is_locked_against_others) {
  const TemporaryFolder folder;
  Journal journal = Journal::create(folder / "run.jsonl", some_provenance(), false);
  journal.append(sample_record("a", "cpu", 2));
  EXPECT_THAT(error_of([&] { Journal::resume(folder / "run.jsonl"); }).what(), HasSubstr("another run is writing it"));
  EXPECT_EQ(read_journal(folder / "run.jsonl").records.size(), 1u);
  journal.close();
  std::ofstream(folder / "run.jsonl", std::ios::app) << "{\"task\":\"torn";
  EXPECT_EQ(Journal::resume(folder / "run.jsonl").records().size(), 1u);
  EXPECT_THAT(error_of([&] { Journal::create(folder / "run.jsonl", some_provenance(), false); }).what(), HasSubstr("run.jsonl: exists already"));
  EXPECT_THAT(error_of([&] { Journal::create(folder / "none" / "run.jsonl", some_provenance(), false); }).what(), HasSubstr("cannot create: No such file or directory"));
  EXPECT_THAT(error_of([&] { Journal::resume(folder.path()); }).what(), HasSubstr("Is a directory"));
}

TEST(Journal, lies_beside_its_run_file) {
  EXPECT_EQ(journal_path("results/monday.h5"), "results/monday.jsonl");
  EXPECT_EQ(journal_path("results/monday"), "results/monday.jsonl");
  EXPECT_EQ(journal_path("v1.2"), "v1.2.jsonl");
}

}  // namespace
}  // namespace faibench
