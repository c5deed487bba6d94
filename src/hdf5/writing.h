// Writing HDF5: the file is built in memory and handed over as bytes, so that a full disk meets our own careful writing and not the library's.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5/handle.h"

namespace faibench::hdf5 {

/// The bytes of an HDF5 file that `fill(file)` fills. Equal contents give equal bytes: no times are stored.
std::string file_image(const std::function<void(hid_t file)>& fill);

/// A group that keeps the order in which things were put in.
Id create_group(hid_t parent, const std::string& name);
void write_text_attribute(hid_t object, const std::string& name, std::string_view text);
void write_number_attribute(hid_t object, const std::string& name, double number);
void write_integer_attribute(hid_t object, const std::string& name, std::int64_t number);
/// A one-dimensional array of strings.
void write_texts_attribute(hid_t object, const std::string& name, const std::vector<std::string>& texts);
/// `data` may be null where there are no elements.
Id write_dataset(hid_t parent, const std::string& name, hid_t file_type, hid_t memory_type, const std::vector<std::int64_t>& shape, const void* data);
Id write_text_dataset(hid_t parent, const std::string& name, std::string_view text);

/// UTF-8 of variable length; in memory a `const char*`.
Id text_type();
/// HDF5's 16-bit IEEE float, little-endian.
Id half_type();
/// FALSE and TRUE in one byte, as h5py writes and reads numpy's bool.
Id boolean_type();
/// Valid UTF-8 without NUL: what a string in HDF5 can hold. Other bytes become U+FFFD.
std::string storable(std::string_view text);

}  // namespace faibench::hdf5
