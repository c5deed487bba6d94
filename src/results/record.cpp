#include "results/record.h"

#include <array>

#include "results/json_fields.h"
#include "results/record_fields.h"

namespace faibench {
namespace {

using json_fields::Json;

constexpr std::array<std::string_view, 10> verdict_names = {"passed",       "wrong",     "crashed", "timed_out", "out_of_memory",
                                                            "build_failed", "forbidden", "noisy",   "skipped",   "lost"};

template <class T>
void write_field(Json& object, std::string_view name, const T& value) {
  if constexpr (std::is_same_v<T, Verdict>) object[std::string(name)] = std::string(name_of(value));
  else object[std::string(name)] = json_fields::to_value(value);
}

template <class T>
void read_field(const Json& object, std::string_view name, T& value) {
  if constexpr (std::is_same_v<T, Verdict>) {
    std::string text;
    json_fields::read(object, name, text);
    try {
      value = verdict_from_name(text);
    } catch (const Error& e) {
      throw e.at("field '" + std::string(name) + "'");
    }
  } else {
    json_fields::read(object, name, value);
  }
}

}  // namespace

std::string_view name_of(Verdict verdict) { return verdict_names[static_cast<std::size_t>(verdict)]; }

Verdict verdict_from_name(std::string_view name) {
  for (std::size_t i = 0; i < verdict_names.size(); ++i)
    if (verdict_names[i] == name) return static_cast<Verdict>(i);
  throw Error(Error::Kind::bad_input, "unknown verdict '" + std::string(name.substr(0, 40)) + "'");
}

std::string to_json(const Record& record) {
  Json json = Json::object();
  visit_record_fields(record, [&](const FieldFact& field, const auto& value) { write_field(json, field.name, value); });
  Json samples = Json::array();
  for (const Sample& sample : record.samples) {
    Json one = Json::object();
    visit_sample_fields(sample, [&](const FieldFact& field, const auto& value) { write_field(one, field.name, value); });
    samples.push_back(std::move(one));
  }
  json["samples"] = std::move(samples);
  return json_fields::dump(json);
}

Record record_from_json(std::string_view text) {
  const Json json = json_fields::parse_object(text);
  Record record;
  visit_record_fields(record, [&](const FieldFact& field, auto& value) {
    if (!field.later || json.contains(field.name)) read_field(json, field.name, value);
  });
  const Json& samples = json_fields::required(json, "samples");
  if (!samples.is_array()) throw json_fields::wrong("samples", "an array", samples);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    try {
      if (!samples[i].is_object()) throw Error(Error::Kind::bad_input, std::string("is ") + samples[i].type_name() + ", must be an object");
      Sample& sample = record.samples.emplace_back();
      visit_sample_fields(sample, [&](const FieldFact& field, auto& value) { read_field(samples[i], field.name, value); });
    } catch (const Error& e) {
      throw e.at("samples[" + std::to_string(i) + "]");
    }
  }
  return record;
}

}  // namespace faibench
