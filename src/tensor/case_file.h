// Case files: inputs of one task and their right answer, in HDF5 (format "faibench-case/1").
#pragma once
#include <filesystem>
#include <string>

#include "tensor/tensor.h"

namespace faibench {

struct CaseFile {
  std::string task;
  std::string name;          ///< attribute `case`
  std::string note;
  std::string expect_error;  ///< the rejection code that must come, empty if the input is valid
  TensorMap inputs;
  TensorMap outputs;         ///< empty when rejected
};

/// Throws Error(bad_input) in one line "<path>: <place>: <reason>" for anything that is not a well-formed case file: truncated, not HDF5, wrong format
/// attribute, unknown element type, absurd sizes. Never crashes, never allocates more than the file's own size can hold.
CaseFile read_case_file(const std::filesystem::path& path);

/// Writes a new file. Throws Error(io) if it exists or cannot be written (nothing half-written is left behind).
void write_case_file(const std::filesystem::path& path, const CaseFile& contents);

}  // namespace faibench
