#include <filesystem>

#include "hdf5/quarantine.h"
#include "hdf5/reading.h"
#include "results/json_fields.h"
#include "results/run_file.h"
#include "results/run_layout.h"
#include "results/scaling.h"
#include "results/scaling_fields.h"
#include "results/table.h"

namespace faibench {
namespace {

using hdf5::Id;

// Rows as lines of a journal, an empty line, links as lines. That is what leaves the quarantine; empty where no study was made.
std::string read_as_lines(const std::filesystem::path& path) {
  const hdf5::QuietErrors quiet;
  const Id file = hdf5::open_file(path);
  hdf5::StorageAllowance allowance(static_cast<std::int64_t>(std::filesystem::file_size(path)));
  hdf5::check_format(file.get(), run_format_name);
  std::string place = "/scaling";
  try {
    if (H5Lexists(file.get(), "scaling", H5P_DEFAULT) <= 0) return {};
    const Id group = hdf5::open_group(file.get(), "scaling");
    if (H5Aexists(group.get(), "format") <= 0) return {};
    hdf5::check_format(group.get(), scaling_format_name);
    std::string lines;
    place = "/scaling/rows";
    for (const ScalingRow& row : table::read<ScalingRow>(hdf5::open_dataset(group.get(), "rows").get(), allowance, [](ScalingRow& row, auto&& f) { visit_scaling_row_fields(row, f); })) {
      lines += to_json(row) + "\n";
    }
    lines += "\n";
    place = "/scaling/links";
    for (const ScalingLink& link : table::read<ScalingLink>(hdf5::open_dataset(group.get(), "links").get(), allowance, [](ScalingLink& link, auto&& f) { visit_scaling_link_fields(link, f); })) {
      json_fields::Json json = json_fields::Json::object();
      visit_scaling_link_fields(link, [&](const FieldFact& fact, const auto& value) { json[std::string(fact.name)] = json_fields::to_value(value); });
      lines += json_fields::dump(json) + "\n";
    }
    return lines;
  } catch (const Error& e) {
    throw e.at(place);
  }
}

}  // namespace

std::optional<ScalingStudy> read_scaling_study(const std::filesystem::path& path) {
  try {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    hdf5::QuarantineLimits limits;
    if (!error) limits.memory_bytes += 64 * static_cast<std::int64_t>(size);  // rows in memory, their JSON, what is handed over
    const std::string text = hdf5::in_quarantine([&] { return read_as_lines(path); }, limits);
    if (text.empty()) return std::nullopt;
    ScalingStudy study;
    bool links = false;
    std::string_view lines = text;
    for (std::size_t end; (end = lines.find('\n')) != std::string_view::npos; lines.remove_prefix(end + 1)) {
      const std::string_view line = lines.substr(0, end);
      if (line.empty()) {
        links = true;
      } else if (!links) {
        study.rows.push_back(scaling_row_from_json(line));
      } else {
        const json_fields::Json json = json_fields::parse_object(line);
        visit_scaling_link_fields(study.links.emplace_back(), [&](const FieldFact& fact, auto& value) { json_fields::read(json, fact.name, value); });
      }
    }
    return study;
  } catch (const Error& e) {
    throw e.at(path.string());
  }
}

}  // namespace faibench
