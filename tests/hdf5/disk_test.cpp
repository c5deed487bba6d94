#include "hdf5/disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "temporary_folder.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing_support::TemporaryFolder;

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::io);
    return e.what();
  }
  return "no error";
}

std::string contents(const std::filesystem::path& path) { return Disk::real().open(path, Disk::Open::read)->read_all(); }
std::ptrdiff_t entries(const TemporaryFolder& folder) { return std::distance(std::filesystem::directory_iterator(folder.path()), {}); }

TEST(Disk, appends_truncates_and_reads) {
  const TemporaryFolder folder;
  const auto file = Disk::real().open(folder / "f", Disk::Open::create_new);
  file->append("hello ");
  file->append("world");
  file->sync();
  EXPECT_EQ(file->size(), 11);
  EXPECT_EQ(file->read_all(), "hello world");
  file->truncate(5);
  file->append("!");
  file->close();
  EXPECT_EQ(contents(folder / "f"), "hello!");
  Disk::real().sync_folder(folder.path());
}

TEST(Disk, reads_files_larger_than_one_piece) {
  const TemporaryFolder folder;
  std::string large(300001, 'x');
  large[300000] = 'y';
  write_whole_file(Disk::real(), folder / "f", large, Existing::refuse);
  EXPECT_EQ(contents(folder / "f"), large);
}

TEST(Disk, locks_against_another_opening) {
  const TemporaryFolder folder;
  auto first = Disk::real().open(folder / "f", Disk::Open::append_or_create);
  const auto second = Disk::real().open(folder / "f", Disk::Open::append);
  EXPECT_TRUE(first->try_lock());
  EXPECT_FALSE(second->try_lock());
  first.reset();
  EXPECT_TRUE(second->try_lock());
}

TEST(Disk, says_which_file_and_why) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { Disk::real().open(folder / "none", Disk::Open::read); }), HasSubstr("none: cannot open: No such file or directory"));
  Disk::real().open(folder / "f", Disk::Open::create_new);
  EXPECT_EQ(error_of([&] { Disk::real().open(folder / "f", Disk::Open::create_new); }), (folder / "f").string() + ": exists already");
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { Disk::real().open(folder / "fifo", Disk::Open::append); }), HasSubstr("fifo: not a regular file"));
  EXPECT_THAT(error_of([] { Disk::real().open("/dev/full", Disk::Open::append)->append("x"); }), HasSubstr("/dev/full: not a regular file"));
}

TEST(WholeFile, is_new_or_replaced_as_asked) {
  const TemporaryFolder folder;
  write_whole_file(Disk::real(), folder / "f", "one", Existing::refuse);
  EXPECT_THAT(error_of([&] { write_whole_file(Disk::real(), folder / "f", "two", Existing::refuse); }), HasSubstr("f: exists already"));
  EXPECT_EQ(contents(folder / "f"), "one");
  write_whole_file(Disk::real(), folder / "f", "two", Existing::replace);
  EXPECT_EQ(contents(folder / "f"), "two");
  EXPECT_EQ(entries(folder), 1) << "a temporary was left behind";
}

TEST(WholeFile, lands_in_the_working_folder_too) {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  write_whole_file(Disk::real(), "plain", "x", Existing::refuse);
  std::filesystem::current_path(before);
  EXPECT_EQ(contents(folder / "plain"), "x");
}

}  // namespace
}  // namespace faibench
