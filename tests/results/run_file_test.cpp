#include "results/run_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <limits>

#include "hdf5/reading.h"
#include "hdf5/writing.h"
#include "results/faulty_disk.h"
#include "results/sample_record.h"
#include "complaint.h"
#include "temporary_folder.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing_support::expect_equal_records;
using testing_support::FaultyDisk;
using testing_support::sample_record;
using testing_support::TemporaryFolder;

Provenance some_provenance() {
  Provenance p = collect_local({"faibench", "run"});
  p.seed = 18446744073709551615u;
  p.started = "2026-01-31T23:59:59Z";
  p.hosts[0].ranks = {0, 1};
  p.hosts[0].copy_bytes_per_second = 1.5e10;
  return p;
}

std::vector<Record> some_records() {
  std::vector<Record> records = {sample_record("transpose", "cpu", 5), sample_record("transpose", "baseline", 3), sample_record("router", "cpu", 0)};
  records[2].verdict = Verdict::crashed;
  records[2].performance = false;
  records[2].flags = {};
  return records;
}

std::string error_of(const std::filesystem::path& path) { return testing_support::complaint_of(read_run_file, path); }

TEST(RunFile, gives_back_records_samples_and_provenance) {
  const TemporaryFolder folder;
  write_run_file(folder / "run.h5", some_provenance(), some_records());
  const RunContents read = read_run_file(folder / "run.h5");
  EXPECT_EQ(to_json(read.provenance), to_json(some_provenance()));
  ASSERT_EQ(read.records.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) expect_equal_records(read.records[i], some_records()[i]);
}

TEST(RunFile, may_be_empty) {
  const TemporaryFolder folder;
  write_run_file(folder / "run.h5", Provenance{}, {});
  EXPECT_TRUE(read_run_file(folder / "run.h5").records.empty());
  EXPECT_EQ(to_json(read_run_file(folder / "run.h5").provenance), to_json(Provenance{}));
}

TEST(RunFile, tells_equal_tasks_and_variants_apart) {
  const TemporaryFolder folder;
  std::vector<Record> records;
  for (int i = 0; i < 6; ++i) records.push_back(sample_record("same", "library:/opt/x.so", i + 1));
  records[1].workload = "smoke";
  records[2].ranks = 4;
  records[3].seed = 1;
  write_run_file(folder / "run.h5", Provenance{}, records);
  const RunContents read = read_run_file(folder / "run.h5");
  for (std::size_t i = 0; i < records.size(); ++i) expect_equal_records(read.records.at(i), records[i]);
}

TEST(RunFile, holds_any_text) {
  const TemporaryFolder folder;
  Record record = sample_record("", ".", 1);
  record.stderr_tail = "\xff broken \n two lines";
  record.detail = std::string("nul\0byte", 8);
  write_run_file(folder / "run.h5", Provenance{}, {record});
  const Record read = read_run_file(folder / "run.h5").records.at(0);
  EXPECT_EQ(read.stderr_tail, "\xEF\xBF\xBD broken \n two lines");
  EXPECT_EQ(read.detail, "nul\xEF\xBF\xBD" "byte");
  EXPECT_EQ(read.samples.size(), 1u);
}

TEST(RunFile, replaces_an_older_one_whole) {
  const TemporaryFolder folder;
  write_run_file(folder / "run.h5", Provenance{}, {});
  write_run_file(folder / "run.h5", Provenance{}, some_records());
  EXPECT_EQ(read_run_file(folder / "run.h5").records.size(), 3u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "a temporary was left behind";
}

TEST(RunFile, leaves_the_old_one_when_anything_fails) {
  for (const char* what : {"open", "sync", "close", "rename", "full"}) {
    FaultyDisk disk;
    write_run_file("run.h5", Provenance{}, {}, disk);
    const std::string before = disk.files.at("run.h5")->bytes;
    if (std::string(what) == "full") disk.room = 1000;
    else disk.failing = {what};
    try {
      write_run_file("run.h5", some_provenance(), some_records(), disk);
      ADD_FAILURE() << what << " did not fail";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, Error::Kind::io);
      EXPECT_THAT(e.what(), HasSubstr("run.h5"));
    }
    EXPECT_EQ(disk.files.size(), 1u) << what;
    EXPECT_EQ(disk.files.at("run.h5")->bytes, before) << what;
  }
}

TEST(RunFile, is_synced_before_it_is_renamed) {
  FaultyDisk disk;
  write_run_file("run.h5", some_provenance(), some_records(), disk);
  EXPECT_THAT(disk.done, testing::ElementsAre("open", "append", "sync", "close", "rename", "sync_folder"));
}

TEST(RunFile, into_a_folder_that_is_not_there_is_an_io_error) {
  try {
    write_run_file("/nonexistent/run.h5", Provenance{}, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::io);
    EXPECT_THAT(e.what(), HasSubstr("No such file or directory"));
  }
}

TEST(RunFile, cut_off_anywhere_is_refused) {
  const TemporaryFolder folder;
  write_run_file(folder / "run.h5", some_provenance(), some_records());
  const auto size = std::filesystem::file_size(folder / "run.h5");
  for (const auto left : {size - 1, size / 2, size / 10, std::uintmax_t{100}, std::uintmax_t{0}}) {
    std::filesystem::copy_file(folder / "run.h5", folder / "cut.h5", std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(folder / "cut.h5", left);
    EXPECT_NE(error_of(folder / "cut.h5"), "accepted") << left;
  }
}

// The table of records with one column less, as an earlier version wrote it.
void drop_column(hid_t file, const std::string& name) {
  const hdf5::Id table(H5Dopen2(file, "records", H5P_DEFAULT)), type(H5Dget_type(table.get())), rows(H5Dget_space(table.get()));
  std::vector<std::pair<std::string, hdf5::Id>> kept;
  std::size_t size = 0;
  for (unsigned i = 0; i < static_cast<unsigned>(H5Tget_nmembers(type.get())); ++i) {
    char* member = H5Tget_member_name(type.get(), i);
    if (member != name) {
      kept.emplace_back(member, H5Tget_member_type(type.get(), i));
      size += H5Tget_size(kept.back().second.get());
    }
    H5free_memory(member);
  }
  const hdf5::Id less(H5Tcreate(H5T_COMPOUND, size));
  std::size_t at = 0;
  for (const auto& [member, of] : kept) {
    H5Tinsert(less.get(), member.c_str(), at, of.get());
    at += H5Tget_size(of.get());
  }
  std::vector<char> cells(size * static_cast<std::size_t>(H5Sget_simple_extent_npoints(rows.get())));
  ASSERT_GE(H5Dread(table.get(), less.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, cells.data()), 0);
  H5Ldelete(file, "records", H5P_DEFAULT);
  const hdf5::Id earlier(H5Dcreate2(file, "records", less.get(), rows.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  ASSERT_GE(H5Dwrite(earlier.get(), less.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, cells.data()), 0);
}

TEST(RunFile, of_the_first_days_has_no_emulated_records) {
  const TemporaryFolder folder;
  write_run_file(folder / "run.h5", some_provenance(), some_records());
  EXPECT_TRUE(read_run_file(folder / "run.h5").records.at(0).emulated);
  {
    const hdf5::Id file = hdf5::check(H5Fopen((folder / "run.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "file");
    drop_column(file.get(), "emulated");
  }
  const std::vector<Record> records = read_run_file(folder / "run.h5").records;
  ASSERT_EQ(records.size(), 3u);
  EXPECT_FALSE(records[0].emulated);
  EXPECT_EQ(records[0].task, "transpose");
  EXPECT_EQ(records[0].speedup, some_records()[0].speedup);
}

// Damage one thing of a good file with HDF5 itself.
struct Wrong {
  const char* name;
  const char* message;
  std::function<void(hid_t file)> damage;
};
void PrintTo(const Wrong& wrong, std::ostream* os) { *os << wrong.name; }

const Wrong wrongs[] = {
    {"an_unknown_format", "attribute 'format' is 'faibench-run/2', this program reads 'faibench-run/1'",
     [](hid_t file) {
       H5Adelete(file, "format");
       hdf5::write_text_attribute(file, "format", "faibench-run/2");
     }},
    {"no_records", "/records: missing", [](hid_t file) { H5Ldelete(file, "records", H5P_DEFAULT); }},
    {"no_provenance", "/provenance/json: missing", [](hid_t file) { H5Ldelete(file, "provenance", H5P_DEFAULT); }},
    {"provenance_that_is_no_json", "/provenance/json: not valid JSON at byte 2",
     [](hid_t file) {
       H5Ldelete(file, "provenance/json", H5P_DEFAULT);
       hdf5::write_text_dataset(file, "provenance/json", "text\nwith lines");
     }},
    {"records_that_are_numbers", "/records: is no table",
     [](hid_t file) {
       H5Ldelete(file, "records", H5P_DEFAULT);
       const double x = 1;
       hdf5::write_dataset(file, "records", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {1}, &x);
     }},
    {"records_without_columns", "/records: column 'task' is missing",
     [](hid_t file) {
       H5Ldelete(file, "records", H5P_DEFAULT);
       const hdf5::Id type(H5Tcreate(H5T_COMPOUND, 8));
       H5Tinsert(type.get(), "x", 0, H5T_IEEE_F64LE);
       const double x = 1;
       hdf5::write_dataset(file, "records", type.get(), type.get(), {1}, &x);
     }},
    {"a_column_of_another_type", "/records: column 'task' is of another type",
     [](hid_t file) {
       H5Ldelete(file, "records", H5P_DEFAULT);
       const hdf5::Id type(H5Tcreate(H5T_COMPOUND, 8));
       H5Tinsert(type.get(), "task", 0, H5T_IEEE_F64LE);
       const double x = 1;
       hdf5::write_dataset(file, "records", type.get(), type.get(), {1}, &x);
     }},
    {"samples_that_are_gone", "/samples/transpose/cpu (of /records row 0): missing", [](hid_t file) { H5Ldelete(file, "samples/transpose/cpu", H5P_DEFAULT); }},
    {"samples_in_another_file", "/samples/transpose/cpu (of /records row 0): is a link out of this file",
     [](hid_t file) {
       H5Ldelete(file, "samples/transpose", H5P_DEFAULT);
       H5Lcreate_external("other.h5", "/x", file, "samples/transpose", H5P_DEFAULT, H5P_DEFAULT);
     }},
    {"samples_that_loop", "/samples/transpose/cpu (of /records row 0): is no dataset",
     [](hid_t file) {
       H5Ldelete(file, "samples/transpose/cpu", H5P_DEFAULT);
       H5Lcreate_hard(file, "/", file, "samples/transpose/cpu", H5P_DEFAULT, H5P_DEFAULT);
     }},
};

class WrongRunFile : public testing::TestWithParam<Wrong> {};
TEST_P(WrongRunFile, is_one_clear_line) {
  const TemporaryFolder folder;
  write_run_file(folder / "run.h5", some_provenance(), some_records());
  {
    const hdf5::QuietErrors quiet;
    const hdf5::Id file = hdf5::check(H5Fopen((folder / "run.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "file");
    GetParam().damage(file.get());
  }
  EXPECT_THAT(error_of(folder / "run.h5"), HasSubstr(GetParam().message));
}
INSTANTIATE_TEST_SUITE_P(run_file, WrongRunFile, testing::ValuesIn(wrongs), [](const auto& i) { return std::string(i.param.name); });

TEST(Run, is_found_in_the_journal_where_the_run_file_is_missing) {
  const TemporaryFolder folder;
  Journal::create(folder / "run.jsonl", some_provenance(), false).append(sample_record("only_in_journal", "cpu", 2));
  EXPECT_EQ(read_run(folder / "run.h5").records.at(0).task, "only_in_journal");
  EXPECT_EQ(read_run(folder / "run.jsonl").records.at(0).task, "only_in_journal");
  write_run_file(folder / "run.h5", some_provenance(), some_records());
  EXPECT_EQ(read_run(folder / "run.h5").records.at(0).task, "transpose");
  try {
    read_run(folder / "none.h5");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::bad_input);
    EXPECT_THAT(e.what(), HasSubstr("none.h5: no such run file, and no journal"));
  }
}

}  // namespace
}  // namespace faibench
