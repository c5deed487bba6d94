// Reading HDF5 with suspicion: hard links only, no foreign storage or filters, nothing larger than the file that claims to hold it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5/handle.h"
#include "tensor/error.h"

namespace faibench::hdf5 {

/// HDF5 prints nothing on this thread while this lives.
class QuietErrors {
 public:
  QuietErrors();
  ~QuietErrors();
  QuietErrors(const QuietErrors&) = delete;
  QuietErrors& operator=(const QuietErrors&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// Text made fit for one line of an error message: control characters escaped, cut at 200 bytes.
std::string one_line(std::string_view text);

/// The id, owned. Throws Error(bad_input) "<what>: <HDF5's innermost reason>" if it is negative.
Id check(hid_t id, std::string_view what);
void check_status(int status, std::string_view what);

/// Read-only, without file locks. Throws for a file that is not there, not regular or not HDF5.
Id open_file(const std::filesystem::path& path);

/// Names in a group, in creation order where the file tracks it, else by name. Throws past 100,000.
std::vector<std::string> link_names(hid_t group);
bool has_link(hid_t group, const std::string& name);
/// The group or dataset behind a hard link. Throws for soft and external links and for the other kind of object.
Id open_group(hid_t parent, const std::string& name);
Id open_dataset(hid_t parent, const std::string& name);

bool has_attribute(hid_t object, const std::string& name);
/// A scalar string attribute (fixed or variable length). Throws if it is missing or of another type.
std::string text_attribute(hid_t object, const std::string& name);
/// Throws Error(bad_input) unless attribute `format` of `object` is `wanted`.
void check_format(hid_t object, const std::string& wanted);

/// Extents of a dataset; empty for a scalar. Throws for a null dataspace and extents past 2^62 elements.
std::vector<std::int64_t> extents(hid_t dataset);

/// Bytes that the datasets of a file may still claim to be stored in: in all no more than the file has, however often a dataset is linked.
struct StorageAllowance {
  explicit StorageAllowance(std::int64_t bytes) : file_bytes(bytes), left(bytes) {}
  std::int64_t file_bytes, left;
};

/// Throws unless the dataset's elements (`bytes` in all) can lie whole in this file, and takes their storage from the allowance: contiguous, compact or chunked,
/// no external or virtual storage, no filters but HDF5's own deflate, shuffle and fletcher32.
void require_own_storage(hid_t dataset, std::int64_t bytes, StorageAllowance& allowance);

/// A scalar dataset holding one string.
std::string text_dataset(hid_t dataset);

}  // namespace faibench::hdf5
