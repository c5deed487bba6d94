#include "hdf5/writing.h"

#include "hdf5/reading.h"

namespace faibench::hdf5 {
namespace {

Id dataspace(const std::vector<std::int64_t>& shape) {
  if (shape.empty()) return check(H5Screate(H5S_SCALAR), "dataspace");
  std::vector<hsize_t> extents(shape.begin(), shape.end());
  return check(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), "dataspace");
}

void write_attribute(hid_t object, const std::string& name, hid_t file_type, hid_t memory_type, const std::vector<std::int64_t>& shape, const void* data) {
  const Id space = dataspace(shape);
  const Id attribute = check(H5Acreate2(object, name.c_str(), file_type, space.get(), H5P_DEFAULT, H5P_DEFAULT), "attribute '" + name + "'");
  check_status(H5Awrite(attribute.get(), memory_type, data), "attribute '" + name + "'");
}

// Length of the valid UTF-8 sequence at the front of `text`, 0 if there is none.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return tail(1) ? 2 : 0;
  if (first >= 0xE0 && first < 0xF0) {
    const unsigned second = byte(1);
    const bool overlong = first == 0xE0 && second < 0xA0, surrogate = first == 0xED && second >= 0xA0;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first < 0xF5) {
    const unsigned second = byte(1);
    const bool overlong = first == 0xF0 && second < 0x90, beyond = first == 0xF4 && second >= 0x90;
    return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string file_image(const std::function<void(hid_t file)>& fill) {
  const QuietErrors quiet;
  try {
    const Id access = check(H5Pcreate(H5P_FILE_ACCESS), "access list");
    check_status(H5Pset_fapl_core(access.get(), 1 << 20, false), "access list");
    check_status(H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG), "access list");
    const Id creation = check(H5Pcreate(H5P_FILE_CREATE), "creation list");
    check_status(H5Pset_link_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED), "creation list");
    const Id file = check(H5Fcreate("in-memory", H5F_ACC_TRUNC, creation.get(), access.get()), "file");
    fill(file.get());
    check_status(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), "file");
    const ssize_t size = H5Fget_file_image(file.get(), nullptr, 0);
    check_status(size < 0 ? -1 : 0, "file");
    std::string bytes(static_cast<std::size_t>(size), '\0');
    if (H5Fget_file_image(file.get(), bytes.data(), bytes.size()) != size) throw Error(Error::Kind::internal, "file image changed its size");
    return bytes;
  } catch (const Error& e) {
    throw Error(Error::Kind::internal, std::string("HDF5 cannot build the file: ") + e.what());
  }
}

Id create_group(hid_t parent, const std::string& name) {
  const Id creation = check(H5Pcreate(H5P_GROUP_CREATE), "group list");
  check_status(H5Pset_link_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED), "group list");
  return check(H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), "group '" + one_line(name) + "'");
}

void write_text_attribute(hid_t object, const std::string& name, std::string_view text) {
  const Id type = text_type();
  const std::string value = storable(text);
  const char* pointer = value.c_str();
  write_attribute(object, name, type.get(), type.get(), {}, &pointer);
}

void write_number_attribute(hid_t object, const std::string& name, double number) { write_attribute(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {}, &number); }

void write_integer_attribute(hid_t object, const std::string& name, std::int64_t number) { write_attribute(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, {}, &number); }

void write_texts_attribute(hid_t object, const std::string& name, const std::vector<std::string>& texts) {
  const Id type = text_type();
  std::vector<std::string> values;
  std::vector<const char*> pointers;
  for (const std::string& text : texts) values.push_back(storable(text));
  for (const std::string& value : values) pointers.push_back(value.c_str());
  write_attribute(object, name, type.get(), type.get(), {static_cast<std::int64_t>(texts.size())}, pointers.data());
}

Id write_dataset(hid_t parent, const std::string& name, hid_t file_type, hid_t memory_type, const std::vector<std::int64_t>& shape, const void* data) {
  const Id space = dataspace(shape);
  const Id creation = check(H5Pcreate(H5P_DATASET_CREATE), "dataset list");
  check_status(H5Pset_obj_track_times(creation.get(), false), "dataset list");
  Id dataset = check(H5Dcreate2(parent, name.c_str(), file_type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), "dataset '" + one_line(name) + "'");
  if (H5Sget_simple_extent_npoints(space.get()) > 0)
    check_status(H5Dwrite(dataset.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "dataset '" + one_line(name) + "'");
  return dataset;
}

Id write_text_dataset(hid_t parent, const std::string& name, std::string_view text) {
  const Id type = text_type();
  const std::string value = storable(text);
  const char* pointer = value.c_str();
  return write_dataset(parent, name, type.get(), type.get(), {}, &pointer);
}

Id text_type() {
  Id type = check(H5Tcopy(H5T_C_S1), "string type");
  check_status(H5Tset_size(type.get(), H5T_VARIABLE), "string type");
  check_status(H5Tset_cset(type.get(), H5T_CSET_UTF8), "string type");
  return type;
}

Id half_type() {
  Id type = check(H5Tcopy(H5T_IEEE_F32LE), "half type");
  check_status(H5Tset_fields(type.get(), 15, 10, 5, 0, 10), "half type");
  check_status(H5Tset_size(type.get(), 2), "half type");
  check_status(H5Tset_ebias(type.get(), 15), "half type");
  return type;
}

Id boolean_type() {
  Id type = check(H5Tenum_create(H5T_STD_I8LE), "boolean type");
  const std::int8_t no = 0, yes = 1;
  check_status(H5Tenum_insert(type.get(), "FALSE", &no), "boolean type");
  check_status(H5Tenum_insert(type.get(), "TRUE", &yes), "boolean type");
  return type;
}

std::string storable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = text.front() == '\0' ? 0 : sequence_length(text);
    if (length == 0) result += "\xEF\xBF\xBD";
    else result += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

}  // namespace faibench::hdf5
