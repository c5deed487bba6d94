#include "tensor/case_file.h"

#include <cstring>
#include <span>

#include "hdf5/disk.h"
#include "hdf5/quarantine.h"
#include "hdf5/reading.h"
#include "hdf5/writing.h"

namespace faibench {
namespace {

using hdf5::Id;

constexpr const char* format_name = "faibench-case/1";

/// How a dtype lies in the file and in memory; `marked` ones carry it as attribute `dtype` as well.
Id stored_type(Dtype dtype) {
  const auto standard = [](hid_t type) { return hdf5::check(H5Tcopy(type), "type"); };
  switch (dtype) {
    case Dtype::f16: return hdf5::half_type();
    case Dtype::bf16: return standard(H5T_STD_U16LE);
    case Dtype::f32: return standard(H5T_IEEE_F32LE);
    case Dtype::f64: return standard(H5T_IEEE_F64LE);
    case Dtype::i8: return standard(H5T_STD_I8LE);
    case Dtype::u8: return standard(H5T_STD_U8LE);
    case Dtype::i16: return standard(H5T_STD_I16LE);
    case Dtype::i32: return standard(H5T_STD_I32LE);
    case Dtype::u32: return standard(H5T_STD_U32LE);
    case Dtype::i64: return standard(H5T_STD_I64LE);
    case Dtype::u64: return standard(H5T_STD_U64LE);
    case Dtype::bool_: break;
  }
  return standard(H5T_STD_U8LE);
}

bool is_marked(Dtype dtype) { return dtype == Dtype::bf16 || dtype == Dtype::bool_; }

// u16 is no dtype of tensors: alone it says nothing, marked it is bf16.
Dtype dtype_of_dataset(hid_t dataset) {
  const Id type = hdf5::check(H5Dget_type(dataset), "has no type");
  const auto is = [&](hid_t little, hid_t big) { return H5Tequal(type.get(), little) > 0 || H5Tequal(type.get(), big) > 0; };
  const std::string mark = hdf5::has_attribute(dataset, "dtype") ? hdf5::text_attribute(dataset, "dtype") : "";
  if (is(H5T_STD_U16LE, H5T_STD_U16BE)) {
    if (mark == "bf16") return Dtype::bf16;
    throw Error(Error::Kind::bad_input, "is u16 without attribute dtype = \"bf16\"");
  }
  std::optional<Dtype> found;
  const Id half = hdf5::half_type(), big_half = hdf5::half_type();
  H5Tset_order(big_half.get(), H5T_ORDER_BE);
  if (is(half.get(), big_half.get())) found = Dtype::f16;
  else if (is(H5T_IEEE_F32LE, H5T_IEEE_F32BE)) found = Dtype::f32;
  else if (is(H5T_IEEE_F64LE, H5T_IEEE_F64BE)) found = Dtype::f64;
  else if (is(H5T_STD_I8LE, H5T_STD_I8BE)) found = Dtype::i8;
  else if (is(H5T_STD_U8LE, H5T_STD_U8BE)) found = mark == "bool" ? Dtype::bool_ : Dtype::u8;
  else if (is(H5T_STD_I16LE, H5T_STD_I16BE)) found = Dtype::i16;
  else if (is(H5T_STD_I32LE, H5T_STD_I32BE)) found = Dtype::i32;
  else if (is(H5T_STD_U32LE, H5T_STD_U32BE)) found = Dtype::u32;
  else if (is(H5T_STD_I64LE, H5T_STD_I64BE)) found = Dtype::i64;
  else if (is(H5T_STD_U64LE, H5T_STD_U64BE)) found = Dtype::u64;
  if (!found) throw Error(Error::Kind::bad_input, "has elements of no known type");
  if (!mark.empty() && mark != name_of(*found))
    throw Error(Error::Kind::bad_input, "attribute dtype says '" + hdf5::one_line(mark) + "', elements are " + std::string(name_of(*found)));
  return *found;
}

Tensor read_tensor(hid_t group, const std::string& name, hdf5::StorageAllowance& allowance) {
  const Id dataset = hdf5::open_dataset(group, name);
  const Dtype dtype = dtype_of_dataset(dataset.get());
  const Shape shape = hdf5::extents(dataset.get());
  std::int64_t bytes;
  if (__builtin_mul_overflow(element_count(shape), size_of(dtype), &bytes)) throw Error(Error::Kind::bad_input, "is too large");
  hdf5::require_own_storage(dataset.get(), bytes, allowance);
  Tensor tensor(dtype, shape);
  const Id memory = stored_type(dtype);
  if (bytes > 0) hdf5::check_status(H5Dread(dataset.get(), memory.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.data()), "cannot be read");
  return tensor;
}

TensorMap read_group(hid_t file, const std::string& group_name, hdf5::StorageAllowance& allowance) {
  TensorMap tensors;
  std::string place = group_name;
  try {
    const Id group = hdf5::open_group(file, group_name);
    for (const std::string& name : hdf5::link_names(group.get())) {
      place = group_name + "/" + hdf5::one_line(name);
      tensors.add(name, read_tensor(group.get(), name, allowance));
    }
  } catch (const Error& e) {
    throw Error(Error::Kind::bad_input, e.what()).at(place);
  }
  return tensors;
}

CaseFile read_unguarded(const std::filesystem::path& path) {
  const hdf5::QuietErrors quiet;
  const Id file = hdf5::open_file(path);
  CaseFile contents;
  hdf5::check_format(file.get(), format_name);
  contents.task = hdf5::text_attribute(file.get(), "task");
  contents.name = hdf5::text_attribute(file.get(), "case");
  if (hdf5::has_attribute(file.get(), "note")) contents.note = hdf5::text_attribute(file.get(), "note");
  if (hdf5::has_attribute(file.get(), "expect_error")) {
    contents.expect_error = hdf5::text_attribute(file.get(), "expect_error");
    if (contents.expect_error.empty()) throw Error(Error::Kind::bad_input, "attribute 'expect_error' is empty: name the code of the rejection, or leave the attribute out of a case with outputs");
  }
  if (contents.task.empty()) throw Error(Error::Kind::bad_input, "attribute 'task' is empty");
  hdf5::StorageAllowance allowance(static_cast<std::int64_t>(std::filesystem::file_size(path)));
  contents.inputs = read_group(file.get(), "inputs", allowance);
  const bool has_outputs = hdf5::has_link(file.get(), "outputs");
  if (has_outputs && !contents.expect_error.empty()) throw Error(Error::Kind::bad_input, "has outputs although expect_error is '" + hdf5::one_line(contents.expect_error) + "'");
  if (!has_outputs && contents.expect_error.empty()) throw Error(Error::Kind::bad_input, "has neither outputs nor expect_error");
  if (has_outputs) contents.outputs = read_group(file.get(), "outputs", allowance);
  return contents;
}

// The way out of the quarantine: a flat run of integers, texts and elements. Written by us for us, so reading it only guards against a child that lost its mind.
class Packer {
 public:
  void put(std::int64_t number) { bytes_.append(reinterpret_cast<const char*>(&number), sizeof number); }
  void put(std::string_view text) {
    put(static_cast<std::int64_t>(text.size()));
    bytes_ += text;
  }
  void put(const TensorMap& tensors) {
    put(static_cast<std::int64_t>(tensors.size()));
    for (const auto& [name, tensor] : tensors) {
      put(name);
      put(static_cast<std::int64_t>(tensor.dtype()));
      put(static_cast<std::int64_t>(tensor.shape().size()));
      for (std::int64_t extent : tensor.shape()) put(extent);
      put(std::string_view(reinterpret_cast<const char*>(tensor.data()), static_cast<std::size_t>(tensor.bytes())));
    }
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}
  std::int64_t number() {
    std::int64_t value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view text() { return take(number()); }
  TensorMap tensors() {
    TensorMap result;
    for (std::int64_t left = number(); left > 0; --left) {
      const std::string name(text());
      const std::int64_t dtype = number();
      if (dtype < 0 || dtype >= dtype_count) throw lost();
      Shape shape(static_cast<std::size_t>(std::min<std::int64_t>(number(), H5S_MAX_RANK)));
      for (std::int64_t& extent : shape) extent = number();
      const std::string_view elements = text();
      Tensor tensor(static_cast<Dtype>(dtype), std::move(shape));
      if (tensor.bytes() != static_cast<std::int64_t>(elements.size())) throw lost();
      if (!elements.empty()) std::memcpy(tensor.data(), elements.data(), elements.size());
      result.add(name, std::move(tensor));
    }
    return result;
  }

 private:
  static Error lost() { return {Error::Kind::bad_input, "damaged: the HDF5 library went astray on it"}; }
  std::string_view take(std::int64_t size) {
    if (size < 0 || size > static_cast<std::int64_t>(bytes_.size())) throw lost();
    const std::string_view taken = bytes_.substr(0, static_cast<std::size_t>(size));
    bytes_.remove_prefix(static_cast<std::size_t>(size));
    return taken;
  }
  std::string_view bytes_;
};

std::string packed(const CaseFile& contents) {
  Packer packer;
  for (const std::string* text : {&contents.task, &contents.name, &contents.note, &contents.expect_error}) packer.put(*text);
  packer.put(contents.inputs);
  packer.put(contents.outputs);
  return packer.take();
}

void write_group(hid_t file, const std::string& name, const TensorMap& tensors) {
  const Id group = hdf5::create_group(file, name);
  for (const auto& [tensor_name, tensor] : tensors) {
    const Id type = stored_type(tensor.dtype());
    const Id dataset = hdf5::write_dataset(group.get(), tensor_name, type.get(), type.get(), tensor.shape(), tensor.data());
    if (is_marked(tensor.dtype())) hdf5::write_text_attribute(dataset.get(), "dtype", name_of(tensor.dtype()));
  }
}

}  // namespace

CaseFile read_case_file(const std::filesystem::path& path) {
  try {
    std::error_code ignored;
    const std::uintmax_t size = std::filesystem::file_size(path, ignored);
    hdf5::QuarantineLimits limits;
    if (!ignored) limits.memory_bytes += 4 * 1032 * static_cast<std::int64_t>(size);  // well compressed tensors, what is handed over, and the library's own
    const std::string bytes = hdf5::in_quarantine([&] { return packed(read_unguarded(path)); }, limits);
    Unpacker unpacker(bytes);
    CaseFile contents;
    for (std::string* text : {&contents.task, &contents.name, &contents.note, &contents.expect_error}) *text = unpacker.text();
    contents.inputs = unpacker.tensors();
    contents.outputs = unpacker.tensors();
    return contents;
  } catch (const Error& e) {
    throw e.at(path.string());
  }
}

void write_case_file(const std::filesystem::path& path, const CaseFile& contents) {
  const std::string bytes = hdf5::file_image([&](hid_t file) {
    hdf5::write_text_attribute(file, "format", format_name);
    hdf5::write_text_attribute(file, "task", contents.task);
    hdf5::write_text_attribute(file, "case", contents.name);
    hdf5::write_text_attribute(file, "note", contents.note);
    if (!contents.expect_error.empty()) hdf5::write_text_attribute(file, "expect_error", contents.expect_error);
    write_group(file, "inputs", contents.inputs);
    if (contents.expect_error.empty()) write_group(file, "outputs", contents.outputs);
  });
  write_whole_file(Disk::real(), path, bytes, Existing::refuse);
}

}  // namespace faibench
