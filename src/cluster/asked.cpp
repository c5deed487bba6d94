// What a run was asked, as text that the result file keeps: a resumed run need not be told again.
#include <nlohmann/json.hpp>

#include "cluster/plan.h"

namespace faibench {

std::string options_to_json(const RunOptions& options) {
  nlohmann::json json{{"tasks", options.tasks}, {"exclude", options.exclude}, {"groups", options.groups}, {"variants", options.variants}, {"gang_sizes", options.gang_sizes},
                      {"gate_only", options.gate_only}, {"emulate", options.emulate}};
  json["workload"] = workload_of(options);
  json["seed"] = options.seed.value_or(1);
  json["budget_seconds"] = budget_of(options);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RunOptions fill_from(RunOptions options, const std::string& earlier_json) {
  try {
    const auto json = nlohmann::json::parse(earlier_json);
    if (options.tasks.empty() && options.exclude.empty() && options.groups.empty()) {
      json.at("tasks").get_to(options.tasks);
      json.at("exclude").get_to(options.exclude);
      json.at("groups").get_to(options.groups);
    }
    if (options.variants.empty()) json.at("variants").get_to(options.variants);
    if (options.gang_sizes.empty()) json.at("gang_sizes").get_to(options.gang_sizes);
    if (!options.workload) options.workload = json.at("workload").get<std::string>();
    if (!options.seed) options.seed = json.at("seed").get<std::uint64_t>();
    if (!options.budget_seconds) options.budget_seconds = json.at("budget_seconds").get<double>();
    options.emulate = options.emulate || json.value("emulate", false);  // not in files of the first days
    options.gate_only = options.gate_only || json.at("gate_only").get<bool>();
    return options;
  } catch (const nlohmann::json::exception& e) {
    throw Error(Error::Kind::bad_input, std::string("what the earlier run was asked cannot be read (") + e.what() + ")");
  }
}

}  // namespace faibench
