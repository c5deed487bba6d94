#include "tensor/case_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "hdf5/disk.h"
#include "hdf5/reading.h"
#include "hdf5/writing.h"
#include "complaint.h"
#include "temporary_folder.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing_support::TemporaryFolder;

std::string error_of(const std::filesystem::path& path) { return testing_support::complaint_of(read_case_file, path); }

void expect_equal(const TensorMap& got, const TensorMap& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  auto at = got.begin();
  for (const auto& [name, tensor] : wanted) {
    EXPECT_EQ(at->first, name);
    EXPECT_EQ(at->second.dtype(), tensor.dtype()) << name;
    ASSERT_EQ(at->second.shape(), tensor.shape()) << name;
    EXPECT_EQ(std::memcmp(at->second.data(), tensor.data(), static_cast<std::size_t>(tensor.bytes())), 0) << name;
    ++at;
  }
}

// Every dtype, with every bit pattern of a byte in it: quiet and signalling NaN, infinities, subnormals.
CaseFile every_dtype() {
  CaseFile file;
  file.task = "a_task";
  file.name = "every dtype";
  file.note = "größer";
  for (int d = 0; d < dtype_count; ++d) {
    const Dtype dtype = static_cast<Dtype>(d);
    Tensor tensor(dtype, {3, 256});
    for (std::int64_t i = 0; i < tensor.bytes(); ++i) tensor.data()[i] = static_cast<std::byte>(dtype == Dtype::bool_ ? i % 2 : i * 7 + (i >> 8));
    file.inputs.add("z_" + std::string(name_of(dtype)), std::move(tensor));
  }
  file.inputs.add("a_scalar", Tensor::scalar(2.5));
  file.inputs.add("no_rows", Tensor(Dtype::f32, {0, 7}));
  file.outputs.add("flag", Tensor::boolean(true));
  file.outputs.add("text", Tensor::text("offsets"));
  return file;
}

TEST(CaseFile, comes_back_bit_for_bit_in_order) {
  const TemporaryFolder folder;
  const CaseFile written = every_dtype();
  write_case_file(folder / "c.h5", written);
  const CaseFile read = read_case_file(folder / "c.h5");
  EXPECT_EQ(read.task, "a_task");
  EXPECT_EQ(read.name, "every dtype");
  EXPECT_EQ(read.note, "größer");
  EXPECT_EQ(read.expect_error, "");
  expect_equal(read.inputs, written.inputs);
  expect_equal(read.outputs, written.outputs);
}

TEST(CaseFile, of_a_rejection_has_no_outputs) {
  const TemporaryFolder folder;
  CaseFile file = every_dtype();
  file.expect_error = "wrong_rank";
  write_case_file(folder / "c.h5", file);
  const CaseFile read = read_case_file(folder / "c.h5");
  EXPECT_EQ(read.expect_error, "wrong_rank");
  EXPECT_TRUE(read.outputs.empty());
}

TEST(CaseFile, is_never_overwritten) {
  const TemporaryFolder folder;
  write_case_file(folder / "c.h5", every_dtype());
  CaseFile other;
  other.task = "other";
  try {
    write_case_file(folder / "c.h5", other);
    FAIL() << "overwritten";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::io);
    EXPECT_THAT(e.what(), HasSubstr("c.h5: exists already"));
  }
  EXPECT_EQ(read_case_file(folder / "c.h5").task, "a_task");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "a temporary was left behind";
}

TEST(CaseFile, is_written_the_same_byte_for_byte) {
  const TemporaryFolder folder;
  write_case_file(folder / "a.h5", every_dtype());
  write_case_file(folder / "b.h5", every_dtype());
  EXPECT_EQ(Disk::real().open(folder / "a.h5", Disk::Open::read)->read_all(), Disk::real().open(folder / "b.h5", Disk::Open::read)->read_all());
}

TEST(CaseFile, in_a_missing_folder_is_an_io_error) {
  const TemporaryFolder folder;
  try {
    write_case_file(folder / "none" / "c.h5", every_dtype());
    FAIL() << "written";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::io);
    EXPECT_THAT(e.what(), HasSubstr("No such file or directory"));
  }
}

TEST(CaseFile, that_is_no_file_is_one_clear_line) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of(folder / "missing.h5"), "cannot be opened: No such file or directory");
  EXPECT_EQ(error_of(folder.path()), "not a regular file");
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(error_of(folder / "fifo"), "not a regular file");
  std::ofstream(folder / "empty.h5");
  EXPECT_EQ(error_of(folder / "empty.h5"), "is empty");
  std::ofstream(folder / "text.h5") << "these are not tensors\n";
  EXPECT_THAT(error_of(folder / "text.h5"), HasSubstr("not a readable HDF5 file"));
}

TEST(CaseFile, cut_off_anywhere_is_refused) {
  const TemporaryFolder folder;
  write_case_file(folder / "c.h5", every_dtype());
  const auto size = std::filesystem::file_size(folder / "c.h5");
  for (const auto left : {size - 1, size / 2, size / 10, std::uintmax_t{96}, std::uintmax_t{9}}) {
    std::filesystem::copy_file(folder / "c.h5", folder / "cut.h5", std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(folder / "cut.h5", left);
    EXPECT_NE(error_of(folder / "cut.h5"), "accepted") << left;
  }
}

// Files with one thing wrong each, made with HDF5 itself.
struct Wrong {
  const char* name;
  const char* message;
  std::function<void(hid_t file, hid_t inputs)> damage;
};
void PrintTo(const Wrong& wrong, std::ostream* os) { *os << wrong.name; }

hdf5::Id floats(hid_t parent, const char* name, const std::vector<std::int64_t>& shape) {
  const std::vector<float> values(64);
  return hdf5::write_dataset(parent, name, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, shape, values.data());
}

hdf5::Id create(hid_t parent, const char* name, hid_t type, std::vector<hsize_t> shape, const hdf5::Id& list) {
  const hdf5::Id space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
  return hdf5::check(H5Dcreate2(parent, name, type, space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT), "dataset");
}

const Wrong wrongs[] = {
    {"an_unknown_format", "attribute 'format' is 'faibench-case/99', this program reads 'faibench-case/1'",
     [](hid_t file, hid_t) {
       H5Adelete(file, "format");
       hdf5::write_text_attribute(file, "format", "faibench-case/99");
     }},
    {"no_format", "attribute 'format' is missing", [](hid_t file, hid_t) { H5Adelete(file, "format"); }},
    {"no_task", "attribute 'task' is missing", [](hid_t file, hid_t) { H5Adelete(file, "task"); }},
    {"a_task_that_is_a_number", "attribute 'task': is no string",
     [](hid_t file, hid_t) {
       H5Adelete(file, "task");
       hdf5::write_number_attribute(file, "task", 1);
     }},
    {"two_tasks", "attribute 'task': is not one string",
     [](hid_t file, hid_t) {
       H5Adelete(file, "task");
       hdf5::write_texts_attribute(file, "task", {"a", "b"});
     }},
    {"no_inputs", "inputs: missing", [](hid_t file, hid_t) { H5Ldelete(file, "inputs", H5P_DEFAULT); }},
    {"no_outputs", "has neither outputs nor expect_error", [](hid_t file, hid_t) { H5Ldelete(file, "outputs", H5P_DEFAULT); }},
    {"an_empty_rejection", "attribute 'expect_error' is empty: name the code of the rejection, or leave the attribute out", [](hid_t file, hid_t) { hdf5::write_text_attribute(file, "expect_error", ""); }},
    {"an_empty_rejection_without_outputs", "attribute 'expect_error' is empty",
     [](hid_t file, hid_t) {
       H5Ldelete(file, "outputs", H5P_DEFAULT);
       hdf5::write_text_attribute(file, "expect_error", "");
     }},
    {"outputs_of_a_rejection", "has outputs although expect_error is 'bad'", [](hid_t file, hid_t) { hdf5::write_text_attribute(file, "expect_error", "bad"); }},
    {"inputs_that_are_a_dataset", "inputs: is no group",
     [](hid_t file, hid_t) {
       H5Ldelete(file, "inputs", H5P_DEFAULT);
       floats(file, "inputs", {4});
     }},
    {"a_group_among_the_tensors", "inputs/deep: is no dataset",
     [](hid_t, hid_t inputs) {
       std::string name = "deep";
       for (int i = 0; i < 200; ++i, name += "/deep") hdf5::create_group(inputs, name);
     }},
    {"a_loop", "inputs/loop: is no dataset", [](hid_t file, hid_t inputs) { H5Lcreate_hard(file, "/", inputs, "loop", H5P_DEFAULT, H5P_DEFAULT); }},
    {"a_soft_link", "inputs/soft: is a soft link, must be in this file itself",
     [](hid_t, hid_t inputs) { H5Lcreate_soft("/inputs/x", inputs, "soft", H5P_DEFAULT, H5P_DEFAULT); }},
    {"an_external_link", "inputs/away: is a link out of this file, must be in the file itself",
     [](hid_t, hid_t inputs) { H5Lcreate_external("/etc/passwd", "/x", inputs, "away", H5P_DEFAULT, H5P_DEFAULT); }},
    {"external_storage", "inputs/away: is stored outside this file (external)",
     [](hid_t, hid_t inputs) {
       const hdf5::Id list(H5Pcreate(H5P_DATASET_CREATE));
       H5Pset_external(list.get(), "/etc/passwd", 0, 16);
       create(inputs, "away", H5T_STD_U8LE, {16}, list);
     }},
    {"virtual_storage", "inputs/away: is stored outside this file (virtual)",
     [](hid_t, hid_t inputs) {
       const hdf5::Id list(H5Pcreate(H5P_DATASET_CREATE));
       const hsize_t extent = 16;
       const hdf5::Id space(H5Screate_simple(1, &extent, nullptr));
       H5Pset_virtual(list.get(), space.get(), "other.h5", "/x", space.get());
       create(inputs, "away", H5T_STD_U8LE, {16}, list);
     }},
    {"a_filter_of_others", "inputs/zip: has a filter other than gzip, shuffle and fletcher32",
     [](hid_t, hid_t inputs) {
       const hdf5::Id list(H5Pcreate(H5P_DATASET_CREATE));
       const hsize_t chunk = 16;
       H5Pset_chunk(list.get(), 1, &chunk);
       H5Pset_filter(list.get(), 32004, H5Z_FLAG_OPTIONAL, 0, nullptr);
       create(inputs, "zip", H5T_STD_U8LE, {16}, list);
     }},
    {"gzip_within_gzip", "inputs/zip: has a filter other than gzip, shuffle and fletcher32",
     [](hid_t, hid_t inputs) {
       const hdf5::Id list(H5Pcreate(H5P_DATASET_CREATE));
       const hsize_t chunk = 16;
       H5Pset_chunk(list.get(), 1, &chunk);
       H5Pset_deflate(list.get(), 9);
       H5Pset_deflate(list.get(), 9);
       create(inputs, "zip", H5T_STD_U8LE, {16}, list);
     }},
    {"gzip_that_holds_one_chunk_of_many", "inputs/zip: claims 16777216 bytes, the file holds",
     [](hid_t, hid_t inputs) {
       const hdf5::Id list(H5Pcreate(H5P_DATASET_CREATE));
       const hsize_t chunk = 16, start = 0, count = 16;
       H5Pset_chunk(list.get(), 1, &chunk);
       H5Pset_deflate(list.get(), 9);
       const hdf5::Id dataset = create(inputs, "zip", H5T_STD_U8LE, {1 << 24}, list);
       const hdf5::Id all(H5Dget_space(dataset.get())), some(H5Screate_simple(1, &count, nullptr));
       H5Sselect_hyperslab(all.get(), H5S_SELECT_SET, &start, nullptr, &count, nullptr);
       const char zeros[16] = {};
       H5Dwrite(dataset.get(), H5T_STD_U8LE, some.get(), all.get(), H5P_DEFAULT, zeros);
     }},
    {"huge_extents_without_data", "inputs/huge: claims 4611686018427387904 bytes, the file holds",
     [](hid_t, hid_t inputs) {
       const hdf5::Id list(H5Pcreate(H5P_DATASET_CREATE));
       const hsize_t chunk[2] = {16, 16};
       H5Pset_chunk(list.get(), 2, chunk);
       create(inputs, "huge", H5T_IEEE_F32LE, {hsize_t{1} << 30, hsize_t{1} << 30}, list);
     }},
    {"extents_past_all_numbers", "inputs/huge: has more than 2^62 elements",
     [](hid_t, hid_t inputs) {
       const hdf5::Id list(H5Pcreate(H5P_DATASET_CREATE));
       const hsize_t chunk[3] = {4, 4, 4};
       H5Pset_chunk(list.get(), 3, chunk);
       create(inputs, "huge", H5T_IEEE_F32LE, {hsize_t{1} << 30, hsize_t{1} << 30, hsize_t{1} << 30}, list);
     }},
    {"extents_without_data", "inputs/hollow: claims 64 bytes, the file holds 0",
     [](hid_t, hid_t inputs) { create(inputs, "hollow", H5T_IEEE_F32LE, {16}, hdf5::Id(H5Pcreate(H5P_DATASET_CREATE))); }},
    {"one_dataset_under_many_names", "the datasets together claim more bytes than the file has",
     [](hid_t, hid_t inputs) {
       const std::vector<float> values(4096);
       hdf5::write_dataset(inputs, "a", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {4096}, values.data());
       for (int i = 0; i < 8; ++i) H5Lcreate_hard(inputs, "a", inputs, ("b" + std::to_string(i)).c_str(), H5P_DEFAULT, H5P_DEFAULT);
     }},
    {"no_extent", "inputs/null: has no extent",
     [](hid_t, hid_t inputs) {
       const hdf5::Id space(H5Screate(H5S_NULL));
       hdf5::check(H5Dcreate2(inputs, "null", H5T_IEEE_F32LE, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "dataset");
     }},
    {"strings", "inputs/words: has elements of no known type", [](hid_t, hid_t inputs) { hdf5::write_text_dataset(inputs, "words", "text"); }},
    {"an_enumeration", "inputs/flag: has elements of no known type",
     [](hid_t, hid_t inputs) { create(inputs, "flag", hdf5::boolean_type().get(), {4}, hdf5::Id(H5Pcreate(H5P_DATASET_CREATE))); }},
    {"a_compound", "inputs/pair: has elements of no known type",
     [](hid_t, hid_t inputs) {
       const hdf5::Id type(H5Tcreate(H5T_COMPOUND, 8));
       H5Tinsert(type.get(), "a", 0, H5T_IEEE_F32LE);
       H5Tinsert(type.get(), "b", 4, H5T_IEEE_F32LE);
       create(inputs, "pair", type.get(), {4}, hdf5::Id(H5Pcreate(H5P_DATASET_CREATE)));
     }},
    {"odd_integers", "inputs/odd: has elements of no known type",
     [](hid_t, hid_t inputs) {
       const hdf5::Id type(H5Tcopy(H5T_STD_I32LE));
       H5Tset_precision(type.get(), 17);
       create(inputs, "odd", type.get(), {4}, hdf5::Id(H5Pcreate(H5P_DATASET_CREATE)));
     }},
    {"an_unmarked_u16", "inputs/half: is u16 without attribute dtype = \"bf16\"",
     [](hid_t, hid_t inputs) { create(inputs, "half", H5T_STD_U16LE, {4}, hdf5::Id(H5Pcreate(H5P_DATASET_CREATE))); }},
    {"a_mark_that_does_not_fit", "inputs/x: attribute dtype says 'bf16', elements are f32",
     [](hid_t, hid_t inputs) { hdf5::write_text_attribute(hdf5::open_dataset(inputs, "x").get(), "dtype", "bf16"); }},
    {"a_name_with_a_line_break", "inputs/a?b: is no dataset", [](hid_t, hid_t inputs) { hdf5::create_group(inputs, "a\nb"); }},
};

class WrongCaseFile : public testing::TestWithParam<Wrong> {};
TEST_P(WrongCaseFile, is_one_clear_line) {
  const TemporaryFolder folder;
  const std::string bytes = hdf5::file_image([&](hid_t file) {
    hdf5::write_text_attribute(file, "format", "faibench-case/1");
    hdf5::write_text_attribute(file, "task", "t");
    hdf5::write_text_attribute(file, "case", "c");
    const hdf5::Id inputs = hdf5::create_group(file, "inputs");
    floats(inputs.get(), "x", {4});
    hdf5::create_group(file, "outputs");
    GetParam().damage(file, inputs.get());
  });
  write_whole_file(Disk::real(), folder / "c.h5", bytes, Existing::refuse);
  EXPECT_THAT(error_of(folder / "c.h5"), HasSubstr(GetParam().message));
}
INSTANTIATE_TEST_SUITE_P(case_file, WrongCaseFile, testing::ValuesIn(wrongs), [](const auto& i) { return std::string(i.param.name); });

TEST(CaseFile, opens_in_h5py_and_reads_what_h5py_wrote) {
  if (std::system("/usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null") != 0) GTEST_SKIP() << "/usr/bin/python3 has no h5py: install python3-h5py to run this test";
  const TemporaryFolder folder;
  write_case_file(folder / "ours.h5", every_dtype());
  std::ofstream(folder / "check.py") << R"py(
import sys, h5py, numpy as np
with h5py.File(sys.argv[1]) as f:
    assert f.attrs["format"] == "faibench-case/1" and f.attrs["note"] == "größer", dict(f.attrs)
    x = f["inputs"]
    assert x["z_f16"].dtype == np.float16 and x["z_f32"].dtype == np.float32 and x["z_i8"].dtype == np.int8
    assert x["z_u64"].dtype == np.uint64 and x["z_bf16"].dtype == np.uint16 and x["z_bf16"].attrs["dtype"] == "bf16"
    assert x["z_bool"].dtype == np.uint8 and x["z_bool"].attrs["dtype"] == "bool"
    assert x["no_rows"].shape == (0, 7) and x["a_scalar"][()] == 2.5
    assert f["outputs/text"][()].tobytes() == b"offsets"
with h5py.File(sys.argv[2], "w") as f:
    f.attrs["format"] = "faibench-case/1"; f.attrs["task"] = "t"; f.attrs["case"] = "from h5py"; f.attrs["note"] = np.bytes_("fixed length")
    f["inputs/half"] = np.array([1.5, np.inf, 6e-8], np.float16)
    f["inputs/big"] = np.array([1, -2], ">i4")
    f["inputs/big_half"] = np.array([1.5, -2], ">f2")
    f.create_dataset("inputs/chunked", data=np.arange(100.0), chunks=(7,))
    f.create_dataset("inputs/zipped", data=np.arange(3000, dtype=np.float32).reshape(30, 100), compression="gzip", shuffle=True, fletcher32=True)
    f["outputs/n"] = np.int64(7)
)py";
  const std::string command = "/usr/bin/python3 " + (folder / "check.py").string() + " " + (folder / "ours.h5").string() + " " + (folder / "theirs.h5").string();
  ASSERT_EQ(std::system(command.c_str()), 0);
  const CaseFile read = read_case_file(folder / "theirs.h5");
  EXPECT_EQ(read.note, "fixed length");
  const auto half = read.inputs.at("half").flat<f16>();
  EXPECT_EQ(half[0], to_f16(1.5f));
  EXPECT_EQ(half[1], to_f16(std::numeric_limits<float>::infinity()));
  EXPECT_EQ(half[2].bits, 1);
  EXPECT_EQ(read.inputs.at("big").flat<std::int32_t>()[1], -2);
  EXPECT_EQ(read.inputs.at("big_half").flat<f16>()[1], to_f16(-2.0f));
  EXPECT_EQ(read.inputs.at("chunked").flat<double>()[99], 99);
  EXPECT_EQ(read.inputs.at("zipped").flat<float>()[2999], 2999);
  EXPECT_EQ(read.outputs.at("n").ref().scalar<std::int64_t>(), 7);
}

}  // namespace
}  // namespace faibench
