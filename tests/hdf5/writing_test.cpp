#include "hdf5/writing.h"

#include <gtest/gtest.h>

#include "hdf5/disk.h"
#include "hdf5/reading.h"
#include "temporary_folder.h"

namespace faibench::hdf5 {
namespace {

TEST(Storable, keeps_utf8_and_replaces_the_rest) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(storable("plain, größer, 日本, 🚀"), "plain, größer, 日本, 🚀");
  EXPECT_EQ(storable(std::string("a\0b", 3)), "a" + mark + "b");
  EXPECT_EQ(storable("\xff"), mark);
  EXPECT_EQ(storable("\xC3"), mark);                                 // cut off
  EXPECT_EQ(storable("\xC0\x80"), mark + mark);                      // overlong NUL
  EXPECT_EQ(storable("\xE0\x80\x80"), mark + mark + mark);           // overlong
  EXPECT_EQ(storable("\xED\xA0\x80"), mark + mark + mark);           // a surrogate
  EXPECT_EQ(storable("\xF4\x90\x80\x80"), mark + mark + mark + mark);  // beyond Unicode
  EXPECT_EQ(storable("\xF4\x8F\xBF\xBF"), "\xF4\x8F\xBF\xBF");
}

TEST(FileImage, is_equal_for_equal_contents_and_reads_back) {
  const testing_support::TemporaryFolder folder;
  const auto fill = [](hid_t file) {
    write_text_attribute(file, "text", "größer");
    const Id group = create_group(file, "z");
    const std::int32_t values[] = {1, 2, 3};
    write_dataset(group.get(), "numbers", H5T_STD_I32LE, H5T_NATIVE_INT32, {3}, values);
    write_text_dataset(group.get(), "a_text", "two words");
  };
  const std::string bytes = file_image(fill);
  EXPECT_EQ(bytes, file_image(fill));
  write_whole_file(Disk::real(), folder / "f.h5", bytes, Existing::refuse);
  const Id file = open_file(folder / "f.h5");
  EXPECT_EQ(text_attribute(file.get(), "text"), "größer");
  const Id group = open_group(file.get(), "z");
  EXPECT_EQ(link_names(group.get()), (std::vector<std::string>{"numbers", "a_text"})) << "the order of creation";
  EXPECT_EQ(extents(open_dataset(group.get(), "numbers").get()), (std::vector<std::int64_t>{3}));
  EXPECT_EQ(text_dataset(open_dataset(group.get(), "a_text").get()), "two words");
}

TEST(FileImage, turns_failures_into_one_error) {
  try {
    file_image([](hid_t file) {
      create_group(file, "a");
      create_group(file, "a");
    });
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::internal);
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
  }
}

TEST(Id, closes_what_it_owns_once) {
  const Id type = text_type();
  const hid_t raw = type.get();
  EXPECT_EQ(H5Iget_ref(raw), 1);
  {
    H5Iinc_ref(raw);
    Id second(raw);
    Id third = std::move(second);
    EXPECT_EQ(H5Iget_ref(raw), 2);
  }
  EXPECT_EQ(H5Iget_ref(raw), 1);
}

}  // namespace
}  // namespace faibench::hdf5
