#include "results/journal.h"

#include "results/json_fields.h"

namespace faibench {
namespace {

using json_fields::Json;

constexpr std::string_view format_name = "faibench-journal/1";

std::string header_line(const Provenance& provenance) {
  return "{\"format\":\"" + std::string(format_name) + "\",\"provenance\":" + to_json(provenance) + "}\n";
}

bool is_header(std::string_view line) { return line.starts_with("{\"format\":"); }

Provenance parse_header(std::string_view line) {
  const Json json = json_fields::parse_object(line);
  std::string format;
  json_fields::read(json, "format", format);
  if (format.starts_with("faibench-scaling-journal/")) throw Error(Error::Kind::bad_input, "is the journal of a scaling study; faibench scale --resume goes on with it and writes its result file");
  if (format != format_name) throw Error(Error::Kind::bad_input, "format is '" + format.substr(0, 60) + "', this program reads '" + std::string(format_name) + "'");
  const Json& provenance = json_fields::required(json, "provenance");
  try {
    return provenance_from_json(json_fields::dump(provenance));
  } catch (const Error& e) {
    throw e.at("provenance");
  }
}

struct Parsed {
  RunContents contents;
  std::unordered_map<std::string, std::size_t> by_key;
  std::int64_t whole = 0;  ///< bytes up to the end of the last whole line
};

// A line counts once its line feed is there: a write that was cut short lacks it.
Parsed parse(const std::filesystem::path& path, std::string_view text) {
  Parsed parsed;
  std::int64_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(0, end);
    ++number;
    try {
      if (number == 1 || is_header(line)) {
        parsed.contents.provenance = parse_header(line);
      } else {
        Record record = record_from_json(line);
        if (parsed.by_key.try_emplace(record.key, parsed.contents.records.size()).second) parsed.contents.records.push_back(std::move(record));
      }
    } catch (const Error& e) {
      throw e.at(path.string() + ":" + std::to_string(number));
    }
    parsed.whole += static_cast<std::int64_t>(end) + 1;
    text.remove_prefix(end + 1);
  }
  if (number == 0) throw Error(Error::Kind::bad_input, path.string() + ":1: no header line; not a journal");
  return parsed;
}

void lock(DiskFile& file, const std::filesystem::path& path) {
  if (!file.try_lock()) throw Error(Error::Kind::io, path.string() + ": another run is writing it");
}

}  // namespace

Journal Journal::create(const std::filesystem::path& path, const Provenance& provenance, bool overwrite, Disk& disk) {
  Journal journal(path, disk.open(path, overwrite ? Disk::Open::append_or_create : Disk::Open::create_new));
  lock(*journal.file_, path);
  if (overwrite) journal.file_->truncate(0);
  try {
    journal.update_provenance(provenance);
    disk.sync_folder(path.parent_path());
  } catch (const Error&) {
    disk.remove(path);
    throw;
  }
  return journal;
}

Journal Journal::resume(const std::filesystem::path& path, Disk& disk) {
  Journal journal(path, disk.open(path, Disk::Open::append));
  lock(*journal.file_, path);
  const std::string text = journal.file_->read_all();
  Parsed parsed = parse(path, text);
  if (parsed.whole < static_cast<std::int64_t>(text.size())) {
    journal.file_->truncate(parsed.whole);
    journal.file_->sync();
  }
  journal.length_ = parsed.whole;
  journal.contents_ = std::move(parsed.contents);
  journal.by_key_ = std::move(parsed.by_key);
  return journal;
}

void Journal::write_line(const std::string& line) {
  if (!file_) throw Error(Error::Kind::internal, path_.string() + ": is closed");
  try {
    if (torn_) file_->truncate(length_);
    torn_ = true;
    file_->append(line);
    file_->sync();
    torn_ = false;
  } catch (const Error& e) {
    try {
      file_->truncate(length_);
      torn_ = false;
    } catch (const Error&) {}  // the first failure says more; the next write tries again to take the bytes back
    throw e;
  }
  length_ += static_cast<std::int64_t>(line.size());
}

void Journal::append(const Record& record) {
  if (by_key_.contains(record.key)) throw Error(Error::Kind::internal, path_.string() + ": has a verdict for the key '" + record.key + "' already");
  write_line(to_json(record) + "\n");
  by_key_.emplace(record.key, contents_.records.size());
  contents_.records.push_back(record);
}

void Journal::update_provenance(const Provenance& provenance) {
  write_line(header_line(provenance));
  contents_.provenance = provenance;
}

const Record* Journal::find(std::string_view key) const {
  const auto found = by_key_.find(std::string(key));
  return found == by_key_.end() ? nullptr : &contents_.records[found->second];
}

void Journal::close() {
  if (!file_) return;
  const std::unique_ptr<DiskFile> file = std::move(file_);
  file->close();
}

RunContents read_journal(const std::filesystem::path& path, Disk& disk) { return parse(path, disk.open(path, Disk::Open::read)->read_all()).contents; }

std::filesystem::path journal_path(const std::filesystem::path& run_file) {
  std::filesystem::path path = run_file;
  return path.extension() == ".h5" ? path.replace_extension(".jsonl") : path += ".jsonl";
}

}  // namespace faibench
