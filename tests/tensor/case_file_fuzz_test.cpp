// Damaged case files are read or refused in one line, never a crash. FAIBENCH_FUZZ_SECONDS and FAIBENCH_FUZZ_SEED set how long and which.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>

#include "hdf5/disk.h"
#include "mutation.h"
#include "temporary_folder.h"
#include "tensor/case_file.h"

namespace faibench {
namespace {

using namespace testing_support;

std::vector<std::string> originals() {
  const TemporaryFolder folder;
  std::vector<std::string> bytes;
  CaseFile small;
  small.task = "t";
  small.name = "small";
  small.inputs.add("x", Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  small.inputs.add("n", Tensor::scalar(std::int64_t{4}));
  small.outputs.add("flag", Tensor::boolean(true));
  write_case_file(folder / "small.h5", small);
  small.expect_error = "dim_mismatch";
  for (int i = 0; i < 12; ++i) small.inputs.add("more" + std::to_string(i), Tensor(static_cast<Dtype>(i), {i, 3}));
  write_case_file(folder / "many.h5", small);
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) bytes.push_back(Disk::real().open(file.path(), Disk::Open::read)->read_all());
  // Those of others too: h5py writes older structures (symbol tables), chunks and gzip.
  const char* cases = std::getenv("FAIBENCH_CASES");
  std::error_code none;
  for (std::filesystem::recursive_directory_iterator at(cases ? cases : "", none), end; !none && at != end; at.increment(none))
    if (at->path().extension() == ".h5" && at->file_size() < 40000) bytes.push_back(Disk::real().open(at->path(), Disk::Open::read)->read_all());
  return bytes;
}

TEST(CaseFileFuzz, reads_or_refuses_in_one_line) {
  const TemporaryFolder folder;
  const std::vector<std::string> good = originals();
  const auto path = folder / "fuzzed.h5";
  std::map<std::string, int> outcomes;
  const std::int64_t attempts = fuzz(5, [&](Random& random) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << mutated(good, random);
    try {
      const CaseFile read = read_case_file(path);
      for (const TensorMap* tensors : {&read.inputs, &read.outputs})
        for (const auto& [name, tensor] : *tensors) ASSERT_EQ(tensor.ref().bytes(), tensor.bytes());
      ++outcomes["read"];
    } catch (const Error& e) {
      const std::string text = e.what();
      ASSERT_EQ(e.kind, Error::Kind::bad_input) << text;
      ASSERT_EQ(text.find('\n'), std::string::npos) << text;
      ASSERT_EQ(text.rfind(path.string() + ": ", 0), 0u) << text;
      ++outcomes[text.find("damaged: ") != std::string::npos ? text.substr(text.find("damaged: ")) : "refused"];
    }
  });
  for (const auto& [outcome, count] : outcomes) std::printf("%6d of %lld: %s\n", count, static_cast<long long>(attempts), outcome.c_str());
  EXPECT_GT(outcomes["refused"], 0);
}

}  // namespace
}  // namespace faibench
