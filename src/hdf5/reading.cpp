#include "hdf5/reading.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace faibench::hdf5 {
namespace {

constexpr std::size_t most_links = 100000;

// HDF5's innermost complaint says what is wrong with the file ("truncated file: eof = 96, ..."); the outer ones repeat which call failed.
std::string innermost_reason() {
  std::string reason;
  const H5E_walk2_t take_first = [](unsigned number, const H5E_error2_t* error, void* out) -> herr_t {
    if (number == 0 && error->desc) *static_cast<std::string*>(out) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &reason);
  H5Eclear2(H5E_DEFAULT);
  return reason.empty() ? "HDF5 cannot read it" : one_line(reason);
}

Error bad(const std::string& message) { return {Error::Kind::bad_input, message}; }

void require_hard_link(hid_t parent, const std::string& name) {
  H5L_info_t info;
  check_status(H5Lget_info(parent, name.c_str(), &info, H5P_DEFAULT), "missing");
  if (info.type == H5L_TYPE_SOFT) throw bad("is a soft link, must be in this file itself");
  if (info.type != H5L_TYPE_HARD) throw bad("is a link out of this file, must be in the file itself");
}

Id open_object(hid_t parent, const std::string& name, H5I_type_t wanted) {
  if (!has_link(parent, name)) throw bad("missing");
  require_hard_link(parent, name);
  Id object = check(H5Oopen(parent, name.c_str(), H5P_DEFAULT), "cannot be opened");
  if (H5Iget_type(object.get()) != wanted) throw bad(wanted == H5I_GROUP ? "is no group" : "is no dataset");
  return object;
}

// One string of `type` (a string type), read by `read(memory type, destination)`.
template <class Read>
std::string read_text(hid_t type, Read read) {
  const Id memory = check(H5Tcopy(H5T_C_S1), "string type");
  check_status(H5Tset_cset(memory.get(), H5Tget_cset(type)), "string type");
  if (H5Tis_variable_str(type) > 0) {
    check_status(H5Tset_size(memory.get(), H5T_VARIABLE), "string type");
    char* text = nullptr;
    check_status(read(memory.get(), &text), "cannot be read");
    std::string result = text ? text : "";
    H5free_memory(text);
    return result;
  }
  const std::size_t size = H5Tget_size(type);
  if (size > (std::size_t{1} << 26)) throw bad("string of " + std::to_string(size) + " bytes is absurd");
  check_status(H5Tset_size(memory.get(), size + 1), "string type");
  std::string result(size + 1, '\0');
  check_status(read(memory.get(), result.data()), "cannot be read");
  result.resize(::strnlen(result.data(), size));
  return result;
}

// How many bytes one stored byte can become.
std::int64_t largest_expansion(hid_t creation) {
  const int filters = H5Pget_nfilters(creation);
  check_status(filters, "filters");
  std::int64_t expansion = 1;
  bool deflated = false;
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, &config);
    if (filter == H5Z_FILTER_DEFLATE && !std::exchange(deflated, true)) expansion = 1032;  // zlib's own limit
    else if (filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_FLETCHER32) throw bad("has a filter other than gzip, shuffle and fletcher32");
  }
  return expansion;
}

double bytes_of_chunk(hid_t dataset, hid_t creation) {
  hsize_t chunk[H5S_MAX_RANK] = {};
  const int rank = H5Pget_chunk(creation, H5S_MAX_RANK, chunk);
  check_status(rank, "chunks");
  const Id type = check(H5Dget_type(dataset), "has no type");
  double bytes = static_cast<double>(H5Tget_size(type.get()));
  for (int d = 0; d < rank; ++d) bytes *= static_cast<double>(chunk[d]);
  return bytes;
}

}  // namespace

QuietErrors::QuietErrors() {
  H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}
QuietErrors::~QuietErrors() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }

std::string one_line(std::string_view text) {
  std::string line;
  for (unsigned char c : text.substr(0, 200)) {
    if (c >= 0x20 && c != 0x7f) line += static_cast<char>(c);
    else line += '?';
  }
  return line;
}

Id check(hid_t id, std::string_view what) {
  if (id < 0) throw bad(std::string(what) + ": " + innermost_reason());
  return Id(id);
}

void check_status(int status, std::string_view what) {
  if (status < 0) throw bad(std::string(what) + ": " + innermost_reason());
}

Id open_file(const std::filesystem::path& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) throw bad("cannot be opened: " + std::generic_category().message(errno));
  if (!S_ISREG(status.st_mode)) throw bad("not a regular file");
  if (status.st_size == 0) throw bad("is empty");
  const Id access = check(H5Pcreate(H5P_FILE_ACCESS), "access list");
  check_status(H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG), "access list");
#if H5_VERSION_GE(1, 10, 7)
  H5Pset_file_locking(access.get(), false, true);  // parallel file systems are often mounted without locks
#endif
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get());
  return check(file, "not a readable HDF5 file");
}

std::vector<std::string> link_names(hid_t group) {
  const Id creation = check(H5Gget_create_plist(group), "group");
  unsigned order = 0;
  check_status(H5Pget_link_creation_order(creation.get(), &order), "group");
  std::vector<std::string> names;
  const H5L_iterate_t take = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
    auto& list = *static_cast<std::vector<std::string>*>(out);
    if (list.size() >= most_links) return 1;
    list.emplace_back(name);
    return 0;
  };
  const bool tracked = (order & H5P_CRT_ORDER_INDEXED) != 0;
  const herr_t status = H5Literate(group, tracked ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME, H5_ITER_INC, nullptr, take, &names);
  check_status(status, "cannot be listed");
  if (status > 0) throw bad("has more than " + std::to_string(most_links) + " entries");
  return names;
}

bool has_link(hid_t group, const std::string& name) {
  const htri_t found = H5Lexists(group, name.c_str(), H5P_DEFAULT);
  check_status(found, "cannot be looked up");
  return found > 0;
}

Id open_group(hid_t parent, const std::string& name) { return open_object(parent, name, H5I_GROUP); }
Id open_dataset(hid_t parent, const std::string& name) { return open_object(parent, name, H5I_DATASET); }

bool has_attribute(hid_t object, const std::string& name) {
  const htri_t found = H5Aexists(object, name.c_str());
  check_status(found, "attributes cannot be read");
  return found > 0;
}

std::string text_attribute(hid_t object, const std::string& name) {
  const std::string what = "attribute '" + name + "'";
  if (!has_attribute(object, name)) throw bad(what + " is missing");
  try {
    const Id attribute = check(H5Aopen(object, name.c_str(), H5P_DEFAULT), "cannot be opened");
    const Id type = check(H5Aget_type(attribute.get()), "has no type");
    const Id space = check(H5Aget_space(attribute.get()), "has no extent");
    if (H5Tget_class(type.get()) != H5T_STRING) throw bad("is no string");
    if (H5Sget_simple_extent_type(space.get()) == H5S_NULL || H5Sget_simple_extent_npoints(space.get()) != 1) throw bad("is not one string");
    return read_text(type.get(), [&](hid_t memory, void* out) { return H5Aread(attribute.get(), memory, out); });
  } catch (const Error& e) {
    throw e.at(what);
  }
}

void check_format(hid_t object, const std::string& wanted) {
  if (const std::string format = text_attribute(object, "format"); format != wanted)
    throw Error(Error::Kind::bad_input, "attribute 'format' is '" + one_line(format) + "', this program reads '" + wanted + "'");
}

std::vector<std::int64_t> extents(hid_t dataset) {
  const Id space = check(H5Dget_space(dataset), "has no extent");
  const H5S_class_t kind = H5Sget_simple_extent_type(space.get());
  if (kind == H5S_SCALAR) return {};
  if (kind != H5S_SIMPLE) throw bad("has no extent");
  const int rank = H5Sget_simple_extent_ndims(space.get());
  check_status(rank, "has no extent");
  std::vector<hsize_t> raw(static_cast<std::size_t>(rank));
  check_status(H5Sget_simple_extent_dims(space.get(), raw.data(), nullptr), "has no extent");
  std::vector<std::int64_t> result;
  std::int64_t count = 1;
  for (hsize_t extent : raw) {
    if (extent > (hsize_t{1} << 62) || __builtin_mul_overflow(count, static_cast<std::int64_t>(extent), &count) || count > (std::int64_t{1} << 62))
      throw bad("has more than 2^62 elements");
    result.push_back(static_cast<std::int64_t>(extent));
  }
  return result;
}

void require_own_storage(hid_t dataset, std::int64_t bytes, StorageAllowance& allowance) {
  const Id creation = check(H5Dget_create_plist(dataset), "has no layout");
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  if (layout != H5D_CONTIGUOUS && layout != H5D_COMPACT && layout != H5D_CHUNKED) throw bad("is stored outside this file (virtual)");
  const int external = H5Pget_external_count(creation.get());
  check_status(external, "storage");
  if (external > 0) throw bad("is stored outside this file (external)");
  const std::int64_t expansion = largest_expansion(creation.get());
  const auto claim = [](std::int64_t claimed, std::int64_t held) { return "claims " + std::to_string(claimed) + " bytes, the file holds " + std::to_string(held); };
  if (bytes / expansion > allowance.file_bytes) throw bad(claim(bytes, allowance.file_bytes));
  if (layout == H5D_CHUNKED && bytes_of_chunk(dataset, creation.get()) / static_cast<double>(expansion) > static_cast<double>(allowance.file_bytes))
    throw bad("has chunks larger than the file can hold");
  const hsize_t stored = H5Dget_storage_size(dataset);
  if (static_cast<hsize_t>(bytes / expansion) > stored || (bytes > 0 && stored == 0)) throw bad(claim(bytes, static_cast<std::int64_t>(stored)));
  if (stored > static_cast<hsize_t>(allowance.left)) throw bad("the datasets together claim more bytes than the file has");
  allowance.left -= static_cast<std::int64_t>(stored);
}

std::string text_dataset(hid_t dataset) {
  const Id type = check(H5Dget_type(dataset), "has no type");
  if (H5Tget_class(type.get()) != H5T_STRING) throw bad("is no string");
  if (!extents(dataset).empty()) throw bad("is not one string");
  return read_text(type.get(), [&](hid_t memory, void* out) { return H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, out); });
}

}  // namespace faibench::hdf5
