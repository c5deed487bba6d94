#include "task/catalog.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "tensor/error.h"

namespace faibench {

extern const std::string_view embedded_catalog_text;  // generated from catalog/tasks.json

namespace {

constexpr std::size_t largest_file_bytes = 16 << 20;
constexpr std::size_t largest_depth = 64;
constexpr std::size_t most_entries = 100000;
constexpr std::int64_t most_tasks = 1000000;

/// Input iterator that counts lines, because the parser's events do not say where they happen.
struct Reading {
  int line = 1;
  bool after_newline = false;  // the last character taken ended a line: a number's end is seen one character late
};
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  CountingIterator(const char* at, Reading* reading) : at_(at), reading_(reading) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    reading_->after_newline = *at_++ == '\n';
    reading_->line += reading_->after_newline;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return a.at_ != b.at_; }

 private:
  const char* at_;
  Reading* reading_;
};

/// Foreign bytes on their way into an error message: printable, one line, not too long.
std::string printable(std::string_view text, std::size_t limit = 60) {
  std::string out;
  for (char c : text.substr(0, limit)) out += c >= ' ' && c < 127 ? c : '?';
  return text.size() > limit ? out + "..." : out;
}

/// A scalar of the file.
struct Value {
  enum class Kind { null, boolean, integer, real, text, list, object } kind = Kind::null;
  double number = 0;      // of integer and real
  std::string text = {};  // of text: the text; of others: how the file writes it
};

std::string shown(const Value& value) {
  switch (value.kind) {
    case Value::Kind::text: return "'" + printable(value.text) + "'";
    case Value::Kind::list: return "a list";
    case Value::Kind::object: return "an object";
    default: return value.text;
  }
}

/// Builds a Catalog from parser events. A frame a nesting level; what no field asks for is skipped but still counted in depth.
class CatalogBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  CatalogBuilder(std::string_view source, const Reading& reading) : source_(printable(source, 200)), reading_(reading) {}
  Catalog finish() {
    if (static_cast<std::size_t>(catalog_.task_count) < catalog_.entries.size())
      fail_at(count_line_, "task_count", std::to_string(catalog_.task_count) + ", yet " + std::to_string(catalog_.entries.size()) + " tasks are listed");
    return std::move(catalog_);
  }

  bool null() override { return scalar({Value::Kind::null, 0, "null"}); }
  bool boolean(bool value) override { return scalar({Value::Kind::boolean, 0, value ? "true" : "false"}); }
  bool number_integer(number_integer_t value) override { return scalar({Value::Kind::integer, static_cast<double>(value), std::to_string(value)}); }
  bool number_unsigned(number_unsigned_t value) override { return scalar({Value::Kind::integer, static_cast<double>(value), std::to_string(value)}); }
  bool number_float(number_float_t value, const string_t& text) override { return scalar({Value::Kind::real, value, printable(text, 40)}); }
  bool string(string_t& text) override { return scalar({Value::Kind::text, 0, text}); }
  bool binary(binary_t&) override { return true; }  // JSON text has none
  bool start_object(std::size_t) override { return open(Value::Kind::object); }
  bool start_array(std::size_t) override { return open(Value::Kind::list); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    Frame& frame = frames_.back();
    frame.key = name;
    if (frame.at != At::skipped && !frame.seen.insert(name).second) fail("is given twice");
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    std::string_view what = error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..."
    if (const auto tag = what.find("] "); tag != std::string_view::npos) what.remove_prefix(tag + 2);
    std::string column;
    if (const auto from = what.find("column "), to = what.find(": "); what.starts_with("parse error at ") && from < to && to != std::string_view::npos) {
      column = std::string(what.substr(from, to - from)) + ": ";
      what.remove_prefix(to + 2);
    }
    std::string reason(what);
    if (const auto from = reason.find("; last read: "); from != std::string::npos) {  // foreign bytes, sometimes many: line and column say where
      const auto to = reason.rfind("; expected ");
      reason.erase(from, to == std::string::npos || to < from ? std::string::npos : to - from);
    }
    throw Error(Error::Kind::bad_input, source_ + ": line " + std::to_string(line()) + ": " + printable(column, 30) + "not valid JSON: " + printable(reason, 160));
  }

 private:
  enum class At { root, by_bench, tasks, entry, skipped };
  struct Frame {
    At at;
    int line;
    std::string key = {};
    std::set<std::string> seen = {};
  };

  [[nodiscard]] int line() const { return reading_.line - reading_.after_newline; }
  [[noreturn]] void fail_at(int line, const std::string& field, const std::string& reason) const {
    throw Error(Error::Kind::bad_input, source_ + ": line " + std::to_string(line) + ": " + (field.empty() ? "" : field + ": ") + reason);
  }
  [[noreturn]] void fail(const std::string& reason) const { fail_at(line(), place(), reason); }
  /// "tasks[3].gpus"
  [[nodiscard]] std::string place() const {
    std::string text;
    for (const Frame& frame : frames_) {
      if (frame.at == At::tasks) text += "[" + std::to_string(catalog_.entries.size() - entry_open_) + "]";
      else if (!frame.key.empty()) text += (text.empty() ? "" : ".") + printable(frame.key);
    }
    return text;
  }

  bool open(Value::Kind kind) {
    const bool object = kind == Value::Kind::object;
    if (frames_.size() >= largest_depth) fail("nested deeper than " + std::to_string(largest_depth) + " levels");
    At inside = At::skipped;
    if (frames_.empty()) {
      if (!object) fail("a catalog is an object, not a list");
      inside = At::root;
    } else if (frames_.back().at == At::root && frames_.back().key == "by_bench") {
      if (!object) fail("must be an object of counts, not a list");
      inside = At::by_bench;
    } else if (frames_.back().at == At::root && frames_.back().key == "tasks") {
      if (object) fail("must be a list of tasks, not an object");
      inside = At::tasks;
    } else if (frames_.back().at == At::tasks) {
      if (!object) fail("a task is an object, not a list");
      if (catalog_.entries.size() >= most_entries) fail("more than " + std::to_string(most_entries) + " tasks");
      inside = At::entry;
    } else if (frames_.back().at != At::skipped) {
      take({kind});  // says that a field is of a wrong type, or nothing: an unknown field
    }
    frames_.push_back({inside, line()});
    if (inside == At::entry) {
      catalog_.entries.emplace_back();
      entry_open_ = 1;
      anchor_given_ = false;
    }
    return true;
  }

  bool close() {
    const At at = frames_.back().at;
    if (at == At::root) require({"schema", "task_count", "tasks"});
    if (at == At::entry) close_entry();
    frames_.pop_back();
    return true;
  }

  void require(std::initializer_list<const char*> names) {
    Frame& frame = frames_.back();
    for (const char* name : names) {
      if (frame.seen.contains(name)) continue;
      frame.key = name;
      fail_at(frame.line, place(), "is missing");
    }
  }

  void close_entry() {
    require({"bench", "task_dir", "infra_name", "reward_class"});
    Frame& frame = frames_.back();
    CatalogEntry& entry = catalog_.entries.back();
    if (entry.reward_class == RewardClass::implementation) entry.ref_speedup = 0;
    else if (!anchor_given_) {
      frame.key = "ref_speedup";
      fail_at(frame.line, place(), frame.seen.contains("ref_speedup") ? "must be a number above 1 in a performance task, not null" : "is missing");
    }
    if (!names_.insert(entry.name).second) {
      frame.key = "infra_name";
      fail_at(frame.line, place(), "'" + entry.name + "' is listed twice");
    }
    entry_open_ = 0;
  }

  bool scalar(Value value) {
    if (frames_.empty()) fail("a catalog is an object, not " + shown(value));
    if (frames_.back().at == At::tasks) fail("a task is an object, not " + shown(value));
    if (frames_.back().at != At::skipped) take(value);
    return true;
  }

  void take(const Value& value) {
    const std::string& key = frames_.back().key;
    switch (frames_.back().at) {
      case At::root: return take_root(key, value);
      case At::by_bench:
        catalog_.by_bench[label(Value{Value::Kind::text, 0, key})] = static_cast<int>(whole(value, 0, most_tasks));
        return;
      case At::entry: return take_field(key, value, catalog_.entries.back());
      default: return;
    }
  }

  void take_root(const std::string& key, const Value& value) {
    if (key == "schema") {
      if (value.kind != Value::Kind::text || value.text != "fai_bench_task_catalog_v2") fail("must be 'fai_bench_task_catalog_v2', not " + shown(value));
    } else if (key == "task_count") {
      catalog_.task_count = static_cast<int>(whole(value, 0, most_tasks));
      count_line_ = line();
    } else if (key == "tasks") {
      fail("must be a list of tasks, not " + shown(value));
    } else if (key == "by_bench") {
      fail("must be an object of counts, not " + shown(value));
    }
  }

  void take_field(const std::string& key, const Value& value, CatalogEntry& entry) {
    if (key == "bench") entry.bench = label(value);
    else if (key == "task_dir") entry.task_dir = label(value);
    else if (key == "infra_name") entry.name = label(value);
    else if (key == "group") entry.group = label(value);
    else if (key == "summary") entry.summary = sentence(value);
    else if (key == "gpus") entry.gpus = static_cast<int>(whole(value, 0, 1024));
    else if (key == "max_submissions") entry.max_submissions = static_cast<int>(whole(value, 0, most_tasks));
    else if (key == "reward_class") entry.reward_class = reward_class(value);
    else if (key == "ref_speedup") anchor_given_ = anchor(value, entry.ref_speedup);
  }

  [[nodiscard]] std::int64_t whole(const Value& value, std::int64_t low, std::int64_t high) const {
    if (value.kind != Value::Kind::integer || value.number < static_cast<double>(low) || value.number > static_cast<double>(high))
      fail("must be an integer from " + std::to_string(low) + " to " + std::to_string(high) + ", not " + shown(value));
    return static_cast<std::int64_t>(value.number);
  }
  /// A name that can stand in paths and commands.
  [[nodiscard]] std::string label(const Value& value) const {
    const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.'; };
    bool good = value.kind == Value::Kind::text && !value.text.empty() && value.text.size() <= 128 && value.text[0] != '.' && value.text[0] != '-';
    for (char c : value.text) good = good && fits(c);
    if (!good) fail("must be a name of letters, digits, '_', '-' and '.', not " + shown(value));
    return value.text;
  }
  [[nodiscard]] std::string sentence(const Value& value) const {
    bool good = value.kind == Value::Kind::text && value.text.size() <= 400;
    for (char c : value.text) good = good && static_cast<unsigned char>(c) >= ' ' && c != 127;
    if (!good) fail("must be one line of at most 400 bytes, not " + shown(value));
    return value.text;
  }
  [[nodiscard]] RewardClass reward_class(const Value& value) const {
    if (value.kind == Value::Kind::text && value.text == "performance") return RewardClass::performance;
    if (value.kind == Value::Kind::text && value.text == "implementation") return RewardClass::implementation;
    fail("must be 'performance' or 'implementation', not " + shown(value));
  }
  /// False for null.
  [[nodiscard]] bool anchor(const Value& value, double& out) const {
    if (value.kind == Value::Kind::null) return false;
    const bool number = value.kind == Value::Kind::integer || value.kind == Value::Kind::real;
    if (!number || !std::isfinite(value.number) || value.number <= 1 || value.number > 1e12) fail("must be null or a number above 1, at most 1e12, not " + shown(value));
    out = value.number;
    return true;
  }

  std::string source_;
  const Reading& reading_;
  Catalog catalog_;
  std::vector<Frame> frames_;
  std::set<std::string> names_;
  std::size_t entry_open_ = 0;  // 1 while the last entry is being read: its index is one below the count
  bool anchor_given_ = false;
  int count_line_ = 1;
};

}  // namespace

const CatalogEntry* Catalog::find(std::string_view name) const {
  for (const CatalogEntry& entry : entries)
    if (entry.name == name) return &entry;
  return nullptr;
}

Catalog parse_catalog(std::string_view text, std::string_view source) {
  Reading reading;
  CatalogBuilder builder(source, reading);
  const char* const first = text.data() ? text.data() : "";
  nlohmann::json::sax_parse(CountingIterator(first, &reading), CountingIterator(first + text.size(), &reading), &builder);
  return builder.finish();
}

Catalog read_catalog(const std::filesystem::path& path) {
  const std::string name = printable(path.string(), 200);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw Error(Error::Kind::io, name + ": is a folder, not a catalog file");
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) throw Error(Error::Kind::io, name + ": is no regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(Error::Kind::io, name + ": cannot be opened: " + (std::filesystem::exists(path, ignored) ? "no permission to read it" : "no such file"));
  std::string text;
  char buffer[1 << 16];
  while (file.read(buffer, sizeof buffer) || file.gcount() > 0) {
    text.append(buffer, static_cast<std::size_t>(file.gcount()));
    if (text.size() > largest_file_bytes) throw Error(Error::Kind::bad_input, name + ": larger than 16 MiB: this is no catalog");
  }
  if (file.bad()) throw Error(Error::Kind::io, name + ": cannot be read");
  if (text.empty()) throw Error(Error::Kind::bad_input, name + ": line 1: the file is empty");
  return parse_catalog(text, name);
}

const Catalog& embedded_catalog() {
  static const Catalog catalog = parse_catalog(embedded_catalog_text, "embedded catalog");
  return catalog;
}

}  // namespace faibench
