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

HostFacts host_from(const Json& json) {
  HostFacts host;
  visit_host_fields(host, [&](const FieldFact& field, auto& value) { json_fields::read(json, field.name, value); });
  return host;
}

}  // namespace

std::string to_json(const HostFacts& host) { return json_fields::dump(host_json(host)); }

HostFacts host_from_json(std::string_view text) { return host_from(json_fields::parse_object(text)); }

std::string to_json(const Provenance& provenance) {
  Json json = Json::object();
  visit_provenance_fields(provenance, [&](const FieldFact& field, const auto& value) { json[std::string(field.name)] = json_fields::to_value(value); });
  Json environment = Json::object();
  for (const auto& [name, value] : provenance.environment) environment[name] = value;
  json["environment"] = std::move(environment);
  Json hosts = Json::array();
  for (const HostFacts& host : provenance.hosts) hosts.push_back(host_json(host));
  json["hosts"] = std::move(hosts);
  return json_fields::dump(json);
}

Provenance provenance_from_json(std::string_view text) {
  const Json json = json_fields::parse_object(text);
  Provenance provenance;
  visit_provenance_fields(provenance, [&](const FieldFact& field, auto& value) { json_fields::read(json, field.name, value); });
  const Json& environment = json_fields::required(json, "environment");
  if (!environment.is_object()) throw json_fields::wrong("environment", "an object of strings", environment);
  for (const auto& [name, value] : environment.items()) json_fields::from_value("environment." + name.substr(0, 60), value, provenance.environment.emplace_back(name, "").second);
  const Json& hosts = json_fields::required(json, "hosts");
  if (!hosts.is_array()) throw json_fields::wrong("hosts", "an array", hosts);
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    try {
      if (!hosts[i].is_object()) throw Error(Error::Kind::bad_input, std::string("is ") + hosts[i].type_name() + ", must be an object");
      provenance.hosts.push_back(host_from(hosts[i]));
    } catch (const Error& e) {
      throw e.at("hosts[" + std::to_string(i) + "]");
    }
  }
  return provenance;
}

}  // namespace faibench
