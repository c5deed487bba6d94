// Tables in HDF5: a one-dimensional dataset of compound rows, made from the same field lists as the JSON. Private to this part.
#pragma once
#include <any>
#include <deque>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "hdf5/reading.h"
#include "hdf5/writing.h"
#include "results/record_fields.h"

namespace faibench::table {

using hdf5::Id;

/// Separates the entries of a list in one text cell.
inline constexpr char list_separator = ';';

inline std::string cell_text(const std::string& text) { return text; }
inline std::string cell_text(Verdict verdict) { return std::string(name_of(verdict)); }
inline std::string cell_text(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += (joined.empty() ? "" : std::string(1, list_separator)) + text;
  return joined;
}
inline std::string cell_text(const std::vector<int>& numbers) {
  std::string joined;
  for (int number : numbers) joined += (joined.empty() ? "" : ",") + std::to_string(number);
  return joined;
}

/// How a member lies in memory and in the file.
struct CellTypes {
  Id memory, file;
};
template <class T>
CellTypes cell_types() {
  const auto both = [](hid_t memory, hid_t file) { return CellTypes{hdf5::check(H5Tcopy(memory), "type"), hdf5::check(H5Tcopy(file), "type")}; };
  if constexpr (std::is_same_v<T, bool>) return {hdf5::boolean_type(), hdf5::boolean_type()};
  else if constexpr (std::is_same_v<T, double>) return both(H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE);
  else if constexpr (std::is_same_v<T, int>) return both(H5T_NATIVE_INT32, H5T_STD_I32LE);
  else if constexpr (std::is_same_v<T, std::uint32_t>) return both(H5T_NATIVE_UINT32, H5T_STD_U32LE);
  else if constexpr (std::is_same_v<T, std::int64_t>) return both(H5T_NATIVE_INT64, H5T_STD_I64LE);
  else if constexpr (std::is_same_v<T, std::uint64_t>) return both(H5T_NATIVE_UINT64, H5T_STD_U64LE);
  else return {hdf5::text_type(), hdf5::text_type()};
}

/// Collects rows, then writes them as one dataset with the facts of its fields as attributes.
class Writer {
 public:
  /// Adds one field of the current row; the first row decides the columns.
  template <class T>
  void put(const FieldFact& fact, const T& value) {
    if (rows_ == 0) add_column<T>(fact);
    if constexpr (std::is_arithmetic_v<T>) {
      append(&value, sizeof value);
    } else {
      texts_.push_back(hdf5::storable(cell_text(value)));
      const char* pointer = texts_.back().c_str();
      append(&pointer, sizeof pointer);
    }
  }
  void end_row() { ++rows_; }
  /// Forgets the rows, keeps the columns: for a table that may be empty, after one made-up row.
  void drop_rows() {
    dropped_ = true;
    bytes_.clear();
  }

  void write(hid_t parent, const std::string& name, std::string_view description) {
    const Id memory = compound([](const Column& c) { return c.types.memory.get(); });
    const Id file = compound([](const Column& c) { return c.types.file.get(); });
    const Id dataset = hdf5::write_dataset(parent, name, file.get(), memory.get(), {dropped_ ? 0 : rows_}, bytes_.data());
    std::vector<std::string> names, units, descriptions;
    for (const Column& c : columns_) {
      names.emplace_back(c.fact.name);
      units.emplace_back(c.fact.unit);
      descriptions.emplace_back(c.fact.description);
    }
    hdf5::write_text_attribute(dataset.get(), "description", description);
    hdf5::write_texts_attribute(dataset.get(), "field_names", names);
    hdf5::write_texts_attribute(dataset.get(), "field_units", units);
    hdf5::write_texts_attribute(dataset.get(), "field_descriptions", descriptions);
  }

 private:
  struct Column {
    FieldFact fact;
    CellTypes types;
  };

  template <class T>
  void add_column(const FieldFact& fact) { columns_.push_back({fact, cell_types<T>()}); }
  void append(const void* data, std::size_t size) { bytes_.append(static_cast<const char*>(data), size); }

  template <class TypeOf>
  Id compound(TypeOf type_of) const {
    std::size_t size = 0;
    for (const Column& c : columns_) size += H5Tget_size(type_of(c));
    Id type = hdf5::check(H5Tcreate(H5T_COMPOUND, size), "table");
    std::size_t offset = 0;
    for (const Column& c : columns_) {
      hdf5::check_status(H5Tinsert(type.get(), std::string(c.fact.name).c_str(), offset, type_of(c)), "table");
      offset += H5Tget_size(type_of(c));
    }
    return type;
  }

  std::vector<Column> columns_;
  std::string bytes_;                ///< packed rows, as `memory` types; texts as pointers into texts_
  std::deque<std::string> texts_;    ///< a deque never moves them
  std::int64_t rows_ = 0;
  bool dropped_ = false;
};

/// Writes `items`, each listed by `visit(item, f)`. An empty table keeps its columns.
template <class Item, class Visit>
void write(hid_t parent, const std::string& name, std::string_view description, const std::vector<Item>& items, Visit visit) {
  Writer writer;
  const auto put = [&](const FieldFact& fact, const auto& value) { writer.put(fact, value); };
  for (const Item& item : items) {
    visit(item, put);
    writer.end_row();
  }
  if (items.empty()) {
    const Item pattern{};
    visit(pattern, put);
    writer.drop_rows();
  }
  writer.write(parent, name, description);
}

/// Reads columns by name. Throws Error(bad_input) that names the column.
class Reader {
 public:
  Reader(hid_t dataset, hdf5::StorageAllowance& allowance) : dataset_(dataset), type_(hdf5::check(H5Dget_type(dataset), "has no type")) {
    if (H5Tget_class(type_.get()) != H5T_COMPOUND) throw Error(Error::Kind::bad_input, "is no table");
    const std::vector<std::int64_t> shape = hdf5::extents(dataset);
    if (shape.size() != 1) throw Error(Error::Kind::bad_input, "is no table of one dimension");
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(shape[0], static_cast<std::int64_t>(H5Tget_size(type_.get())), &bytes)) throw Error(Error::Kind::bad_input, "is too large");
    hdf5::require_own_storage(dataset, bytes, allowance);
    rows_ = static_cast<std::size_t>(shape[0]);
  }
  [[nodiscard]] std::size_t rows() const { return rows_; }

  template <class T>
  std::vector<T> column(std::string_view name) const requires std::is_arithmetic_v<T> {
    const std::string text(name);
    require(text, std::is_same_v<T, bool> ? H5T_ENUM : std::is_same_v<T, double> ? H5T_FLOAT : H5T_INTEGER);
    const CellTypes types = cell_types<T>();
    using Stored = std::conditional_t<std::is_same_v<T, bool>, std::int8_t, T>;
    std::vector<Stored> values(rows_);
    read(text, types.memory.get(), sizeof(Stored), values.data());
    return {values.begin(), values.end()};
  }

  [[nodiscard]] bool has(std::string_view name) const { return H5Tget_member_index(type_.get(), std::string(name).c_str()) >= 0; }

  [[nodiscard]] std::vector<std::string> text_column(std::string_view name) const {
    const std::string text(name);
    const Id member = require(text, H5T_STRING);
    if (H5Tis_variable_str(member.get()) <= 0) throw Error(Error::Kind::bad_input, "column '" + text + "' has strings of fixed length");
    const Id memory = hdf5::text_type();
    hdf5::check_status(H5Tset_cset(memory.get(), H5Tget_cset(member.get())), "type");
    std::vector<char*> pointers(rows_, nullptr);
    read(text, memory.get(), sizeof(char*), pointers.data());
    std::vector<std::string> values;
    values.reserve(rows_);
    for (char* pointer : pointers) {
      values.emplace_back(pointer ? pointer : "");
      H5free_memory(pointer);
    }
    return values;
  }

 private:
  Id require(const std::string& name, H5T_class_t wanted) const {
    const int index = H5Tget_member_index(type_.get(), name.c_str());
    if (index < 0) throw Error(Error::Kind::bad_input, "column '" + name + "' is missing");
    Id member = hdf5::check(H5Tget_member_type(type_.get(), static_cast<unsigned>(index)), "column '" + name + "'");
    if (H5Tget_class(member.get()) != wanted) throw Error(Error::Kind::bad_input, "column '" + name + "' is of another type");
    return member;
  }
  // HDF5 picks members by name: a row in memory of one member reads one column.
  void read(const std::string& name, hid_t member, std::size_t size, void* out) const {
    if (rows_ == 0) return;
    const Id row = hdf5::check(H5Tcreate(H5T_COMPOUND, size), "column");
    hdf5::check_status(H5Tinsert(row.get(), name.c_str(), 0, member), "column");
    hdf5::check_status(H5Dread(dataset_, row.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, out), "column '" + name + "'");
  }

  hid_t dataset_;
  Id type_;
  std::size_t rows_ = 0;
};

inline void from_cell(const std::string& cell, std::string& text) { text = cell; }
inline void from_cell(const std::string& cell, Verdict& verdict) { verdict = verdict_from_name(cell); }
inline void from_cell(const std::string& cell, std::vector<std::string>& texts) {
  texts.clear();
  for (std::size_t at = 0; at < cell.size();) {
    const std::size_t end = std::min(cell.find(list_separator, at), cell.size());
    texts.push_back(cell.substr(at, end - at));
    at = end + 1;
  }
}

/// The rows of a table as `Item`s, every field of `visit` filled.
template <class Item, class Visit>
std::vector<Item> read(hid_t dataset, hdf5::StorageAllowance& allowance, Visit visit) {
  const Reader reader(dataset, allowance);
  std::vector<Item> items(reader.rows());
  std::map<std::string_view, std::any> columns;
  for (std::size_t i = 0; i < items.size(); ++i) {
    visit(items[i], [&]<class T>(const FieldFact& fact, T& member) {
      if (fact.later && !reader.has(fact.name)) return;
      std::any& column = columns[fact.name];
      if constexpr (std::is_arithmetic_v<T>) {
        if (!column.has_value()) column = reader.column<T>(fact.name);
        member = std::any_cast<const std::vector<T>&>(column)[i];
      } else {
        if (!column.has_value()) column = reader.text_column(fact.name);
        try {
          from_cell(std::any_cast<const std::vector<std::string>&>(column)[i], member);
        } catch (const Error& e) {
          throw e.at("row " + std::to_string(i));
        }
      }
    });
  }
  return items;
}

}  // namespace faibench::table
