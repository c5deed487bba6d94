#include <algorithm>
#include <filesystem>

#include "hdf5/quarantine.h"
#include "results/run_file.h"
#include "results/run_layout.h"
#include "results/table.h"

namespace faibench {
namespace {

using hdf5::Id;

// Opens "samples/task/variant" step by step, so that no link on the way leads out of the file.
Id open_place(hid_t file, const std::string& place) {
  Id group;
  hid_t at = file;
  std::size_t start = 0;
  for (std::size_t end; (end = place.find('/', start)) != std::string::npos; start = end + 1) {
    Id next = hdf5::open_group(at, place.substr(start, end - start));
    group = std::move(next);
    at = group.get();
  }
  return hdf5::open_dataset(at, place.substr(start));
}

// The file as JSON lines: the provenance, then the records. That is what leaves the quarantine.
std::string read_as_lines(const std::filesystem::path& path) {
  const hdf5::QuietErrors quiet;
  const Id file = hdf5::open_file(path);
  hdf5::StorageAllowance allowance(static_cast<std::int64_t>(std::filesystem::file_size(path)));
  hdf5::check_format(file.get(), run_format_name);
  std::string place = "/provenance/json";
  try {
    std::string lines = hdf5::text_dataset(open_place(file.get(), "provenance/json").get());
    std::replace(lines.begin(), lines.end(), '\n', ' ');  // in JSON a line feed can only be white space
    lines += '\n';
    place = "/records";
    auto rows = table::read<std::pair<Record, std::string>>(hdf5::open_dataset(file.get(), "records").get(), allowance, visit_record_row);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto& [record, samples] = rows[i];
      if (!samples.empty()) {
        place = "/" + hdf5::one_line(samples) + " (of /records row " + std::to_string(i) + ")";
        record.samples = table::read<Sample>(open_place(file.get(), samples).get(), allowance, [](Sample& sample, auto&& f) { visit_sample_fields(sample, f); });
      }
      lines += to_json(record) + "\n";
    }
    return lines;
  } catch (const Error& e) {
    throw e.at(place);
  }
}

RunContents from_lines(std::string_view lines) {
  RunContents contents;
  bool first = true;
  for (std::size_t end; (end = lines.find('\n')) != std::string_view::npos; lines.remove_prefix(end + 1)) {
    const std::string_view line = lines.substr(0, end);
    try {
      if (std::exchange(first, false)) contents.provenance = provenance_from_json(line);
      else contents.records.push_back(record_from_json(line));
    } catch (const Error& e) {
      throw e.at(contents.records.empty() ? "/provenance/json" : "/records row " + std::to_string(contents.records.size()));
    }
  }
  return contents;
}

}  // namespace

RunContents read_run_file(const std::filesystem::path& path) {
  try {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    hdf5::QuarantineLimits limits;
    if (!error) limits.memory_bytes += 64 * static_cast<std::int64_t>(size);  // rows in memory, their JSON, what is handed over
    return from_lines(hdf5::in_quarantine([&] { return read_as_lines(path); }, limits));
  } catch (const Error& e) {
    throw e.at(path.string());
  }
}

RunContents read_run(const std::filesystem::path& path) {
  if (path.extension() == ".jsonl") return read_journal(path);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    if (const std::filesystem::path journal = journal_path(path); std::filesystem::exists(journal, ignored)) return read_journal(journal);
    throw Error(Error::Kind::bad_input, path.string() + ": no such run file, and no journal " + journal_path(path).string());
  }
  return read_run_file(path);
}

}  // namespace faibench
