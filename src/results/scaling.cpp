#include "results/scaling.h"

#include <algorithm>

#include "hdf5/reading.h"
#include "hdf5/writing.h"
#include "results/json_fields.h"
#include "results/run_layout.h"
#include "results/scaling_fields.h"
#include "results/table.h"

namespace faibench {
namespace {

using hdf5::Id;
using json_fields::Json;

constexpr hsize_t chunk_columns = 4096;

// [ranks, samples], chunked by rows and compressed.
void write_matrix(hid_t group, const std::string& name, const std::string& description, const std::vector<std::vector<double>>& rows) {
  const std::size_t columns = rows.empty() ? 0 : rows[0].size();
  std::vector<double> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  const hsize_t extents[2] = {rows.size(), columns}, chunk[2] = {1, std::clamp<hsize_t>(columns, 1, chunk_columns)};
  const Id space = hdf5::check(H5Screate_simple(2, extents, nullptr), "dataspace");
  const Id creation = hdf5::check(H5Pcreate(H5P_DATASET_CREATE), "dataset list");
  hdf5::check_status(H5Pset_obj_track_times(creation.get(), false), "dataset list");
  hdf5::check_status(H5Pset_chunk(creation.get(), 2, chunk), "dataset list");
  hdf5::check_status(H5Pset_shuffle(creation.get()), "dataset list");
  hdf5::check_status(H5Pset_deflate(creation.get(), 4), "dataset list");
  const Id dataset = hdf5::check(H5Dcreate2(group, name.c_str(), H5T_IEEE_F64LE, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), name);
  if (!flat.empty()) hdf5::check_status(H5Dwrite(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, flat.data()), name);
  hdf5::write_text_attribute(dataset.get(), "units", "s");
  hdf5::write_text_attribute(dataset.get(), "description", description);
}

template <class T, class Visit>
Json object_of(const T& item, Visit visit) {
  Json json = Json::object();
  visit(item, [&](const FieldFact& fact, const auto& value) { json[std::string(fact.name)] = json_fields::to_value(value); });
  return json;
}

constexpr auto visit_row = [](auto& item, auto&& f) { visit_scaling_row_fields(item, f); };
constexpr auto visit_fit = [](auto& item, auto&& f) { visit_scaling_fit_fields(item, f); };
constexpr auto visit_forecast = [](auto& item, auto&& f) { visit_scaling_forecast_fields(item, f); };
constexpr auto visit_finding = [](auto& item, auto&& f) { visit_scaling_finding_fields(item, f); };

constexpr auto visit_link = [](auto& item, auto&& f) { visit_scaling_link_fields(item, f); };

constexpr auto visit_placed_row = [](auto& row, auto&& f) {
  visit_scaling_row_fields(row.first, f);
  f(FieldFact{"raw", "", "group of the raw samples in this file; empty where nothing was timed"}, row.second);
};

// What no measurement can give: a journal with such a row was damaged, and everything made from it would be wrong without a word.
void check_row(const ScalingRow& row) {
  const auto refuse = [](const char* field, auto value) { throw Error(Error::Kind::bad_input, "field '" + std::string(field) + "' is " + std::to_string(value)); };
  if (row.ranks < 1) refuse("ranks", row.ranks);
  if (row.bytes < 0) refuse("bytes", row.bytes);
  if (row.samples < 0) refuse("samples", row.samples);
  if (row.calls < 1) refuse("calls", row.calls);
  for (const auto& [field, value] : {std::pair{"seconds", row.seconds}, {"low", row.low}, {"high", row.high}, {"least", row.least}, {"most", row.most}, {"bound_seconds", row.bound_seconds}})
    if (!(value >= 0)) refuse(field, value);
  if (row.enter.size() != row.exit.size()) throw Error(Error::Kind::bad_input, "fields 'enter' and 'exit' are of different lengths");
  for (const auto* times : {&row.enter, &row.exit})
    for (const auto& of_rank : *times)
      if (of_rank.size() != row.enter[0].size()) throw Error(Error::Kind::bad_input, "fields 'enter' and 'exit' have rows of different lengths");
}

}  // namespace

std::string to_json(const ScalingRow& row) {
  Json json = object_of(row, visit_row);
  json["enter"] = row.enter;
  json["exit"] = row.exit;
  return json_fields::dump(json);
}

ScalingRow scaling_row_from_json(std::string_view text) {
  const Json json = json_fields::parse_object(text);
  ScalingRow row;
  visit_scaling_row_fields(row, [&](const FieldFact& fact, auto& value) { json_fields::read(json, fact.name, value); });
  try {
    json_fields::required(json, "enter").get_to(row.enter);
    json_fields::required(json, "exit").get_to(row.exit);
  } catch (const Json::exception&) {
    throw Error(Error::Kind::bad_input, "field 'enter' or 'exit' is no array of arrays of numbers");
  }
  check_row(row);
  return row;
}

std::string to_json(const ScalingStudy& study) {
  Json json = {{"format", scaling_format_name}, {"rows", Json::array()}, {"fits", Json::array()}, {"forecasts", Json::array()}, {"findings", Json::array()}, {"links", Json::array()}};
  for (const auto& row : study.rows) json["rows"].push_back(object_of(row, visit_row));
  for (const auto& fit : study.fits) json["fits"].push_back(object_of(fit, visit_fit));
  for (const auto& forecast : study.forecasts) json["forecasts"].push_back(object_of(forecast, visit_forecast));
  for (const auto& finding : study.findings) json["findings"].push_back(object_of(finding, visit_finding));
  for (const auto& link : study.links) json["links"].push_back(object_of(link, visit_link));
  return json_fields::dump(json);
}

void write_scaling(hid_t scaling, const ScalingStudy& study) {
  hdf5::write_text_attribute(scaling, "format", scaling_format_name);
  std::vector<std::pair<ScalingRow, std::string>> rows;
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    rows.emplace_back(study.rows[i], study.rows[i].enter.empty() ? "" : "scaling/raw/" + std::to_string(i));
    rows.back().first.enter.clear();
    rows.back().first.exit.clear();
  }
  table::write(scaling, "rows", "one row a task, variant, size, number of ranks and cadence", rows, visit_placed_row);
  table::write(scaling, "fits", "alpha-beta fits, one row a piece", study.fits, visit_fit);
  table::write(scaling, "forecasts", "sizes left out of a fit, one row each", study.forecasts, visit_forecast);
  table::write(scaling, "findings", "performance guidelines that do not hold", study.findings, visit_finding);
  table::write(scaling, "links", "cost of one message, one row a group of ranks and level", study.links, visit_link);
  const Id raw = hdf5::create_group(scaling, "raw");
  hdf5::write_text_attribute(raw.get(), "description", "every sample of every rank; the column `raw` of /scaling/rows says which");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].second.empty()) continue;
    const Id group = hdf5::create_group(raw.get(), std::to_string(i));
    hdf5::write_text_attribute(group.get(), "key", study.rows[i].key);
    write_matrix(group.get(), "enter", "[ranks, samples] when a rank entered the call, after the common start instant", study.rows[i].enter);
    write_matrix(group.get(), "exit", "[ranks, samples] when it came back", study.rows[i].exit);
  }
}

}  // namespace faibench
