#include "results/provenance.h"

#include "results/json_fields.h"
#include "results/provenance_fields.h"

namespace faibench {
namespace {

using json_fields::Json;

Json host_json(const HostFacts& host) {
  Json json = Json::object();
  visit_host_fields(host, [&](const FieldFact& field, const auto& value) { json[std::string(field.name)] = json_fields::to_value(value); });
  return json;
}

Json rank_json(const RankFacts& rank) {
  Json json = Json::object();
  visit_rank_fields(rank, [&](const FieldFact& field, const auto& value) { json[std::string(field.name)] = json_fields::to_value(value); });
  return json;
}

RankFacts rank_from(const Json& json) {
  RankFacts rank;
  visit_rank_fields(rank, [&](const FieldFact& field, auto& value) {
    if (!field.later || json.contains(field.name)) json_fields::read(json, field.name, value);
  });
  return rank;
}

// An array of objects; errors name the index.
template <class T, class From>
void read_objects(const Json& array, const std::string& name, std::vector<T>& values, From from) {
  if (!array.is_array()) throw json_fields::wrong(name, "an array", array);
  for (std::size_t i = 0; i < array.size(); ++i) {
    try {
      if (!array[i].is_object()) throw Error(Error::Kind::bad_input, std::string("is ") + array[i].type_name() + ", must be an object");
      values.push_back(from(array[i]));
    } catch (const Error& e) {
      throw e.at(name + "[" + std::to_string(i) + "]");
    }
  }
}

HostFacts host_from(const Json& json) {
  HostFacts host;
  visit_host_fields(host, [&](const FieldFact& field, auto& value) { json_fields::read(json, field.name, value); });
  return host;
}

}  // namespace

std::string to_json(const HostFacts& host) { return json_fields::dump(host_json(host)); }

HostFacts host_from_json(std::string_view text) { return host_from(json_fields::parse_object(text)); }

std::string to_json(const RankFacts& rank) { return json_fields::dump(rank_json(rank)); }

RankFacts rank_from_json(std::string_view text) { return rank_from(json_fields::parse_object(text)); }

std::string to_json(const Provenance& provenance) {
  Json json = Json::object();
  visit_provenance_fields(provenance, [&](const FieldFact& field, const auto& value) { json[std::string(field.name)] = json_fields::to_value(value); });
  Json environment = Json::object();
  for (const auto& [name, value] : provenance.environment) environment[name] = value;
  json["environment"] = std::move(environment);
  Json hosts = Json::array();
  for (const HostFacts& host : provenance.hosts) hosts.push_back(host_json(host));
  json["hosts"] = std::move(hosts);
  Json ranks = Json::array();
  for (const RankFacts& rank : provenance.ranks) ranks.push_back(rank_json(rank));
  json["ranks"] = std::move(ranks);
  json["audit"] = json_fields::to_value(provenance.audit);
  return json_fields::dump(json);
}

Provenance provenance_from_json(std::string_view text) {
  const Json json = json_fields::parse_object(text);
  Provenance provenance;
  visit_provenance_fields(provenance, [&](const FieldFact& field, auto& value) { json_fields::read(json, field.name, value); });
  const Json& environment = json_fields::required(json, "environment");
  if (!environment.is_object()) throw json_fields::wrong("environment", "an object of strings", environment);
  for (const auto& [name, value] : environment.items()) json_fields::from_value("environment." + name.substr(0, 60), value, provenance.environment.emplace_back(name, "").second);
  read_objects(json_fields::required(json, "hosts"), "hosts", provenance.hosts, host_from);
  if (json.contains("ranks")) read_objects(json["ranks"], "ranks", provenance.ranks, rank_from);  // younger than the format
  if (json.contains("audit")) json_fields::from_value("audit", json["audit"], provenance.audit);
  return provenance;
}

}  // namespace faibench
