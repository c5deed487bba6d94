// faibench show TASK: what a task takes, gives, rejects and is measured by, all of it from the task's own statement.
#include <unistd.h>

#include <fmt/core.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/option_checks.h"
#include "cli/selection.h"
#include "cli/terminal.h"
#include "judge/device_library.h"

namespace faibench {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

struct Options {
  std::string task, catalog;
  bool json = false;
};

const char* const general_codes = "missing_tensor, unknown_tensor, wrong_dtype, wrong_rank, dim_mismatch, bad_offsets";

std::string type_text(const TensorSpec& spec) {
  if (!spec.dtype_of.empty()) return "as " + spec.dtype_of;
  std::string text;
  for (Dtype dtype : spec.dtypes) text += (text.empty() ? "" : "|") + std::string(name_of(dtype));
  return text;
}

std::string shape_text(const TensorSpec& spec) {
  std::string text = "[";
  for (std::size_t d = 0; d < spec.extents.size(); ++d) {
    const bool bound = d == 0 && !spec.length.empty();
    text += (d ? ", " : "") + (bound ? spec.length + " <= " : "") + spec.extents[d].text();
  }
  return text + "]";
}

std::string meaning_text(const TensorSpec& spec) {
  std::string text = spec.meaning;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  if (!spec.valid_range.empty()) add("valid: " + spec.valid_range);
  if (spec.last_offset) add("offsets: 0 first, not decreasing, " + spec.last_offset->text() + " last");
  if (spec.optional) add("optional");
  if (spec.in_place) add("in place: input and output");
  if (!spec.condition.empty()) add("only if " + spec.condition);
  if (!spec.length.empty()) add("true length " + spec.length + " depends on the data");
  return text;
}

Rows tensor_rows(const std::vector<TensorSpec>& specs) {
  Rows rows;
  for (const TensorSpec& spec : specs) rows.push_back({spec.name, type_text(spec) + shape_text(spec), meaning_text(spec)});
  return rows;
}

std::string score_text(const CatalogEntry& entry) {
  if (entry.reward_class == RewardClass::implementation) return "implementation task: scores 1 if the gate holds, else 0; time is reported beside it";
  const double anchor = entry.ref_speedup;
  return "performance task: a speedup of " + number_text(anchor) + " (the anchor) scores 0, " + number_text(anchor * anchor) + " scores 1, on a log scale in between";
}

void print_contract(const Contract& contract, int width) {
  fmt::print("\nInputs\n{}", columns(tensor_rows(contract.inputs()), 2, width));
  fmt::print("\nOutputs\n{}", columns(tensor_rows(contract.outputs()), 2, width));
  fmt::print("\nRejections, in this order\n{}", wrapped(std::string("the general codes: ") + general_codes, 2, width));
  Rows rows;
  for (const Rule& rule : contract.rules()) rows.push_back({rule.code, rule.checked_by == CheckedBy::runner ? "before the call" : "by the variant", rule.condition});
  fmt::print("{}", columns(rows, 2, width));
}

bool can_emulate(const Variant& variant) { return find_device_library(DeviceKind::emulated) && !variant.name.starts_with("peer:"); }

std::string device_text(const Variant& variant) {
  std::string text = find_device_library(DeviceKind::cuda) ? "on a GPU" : "on a GPU: not in this build";
  if (can_emulate(variant)) text += "; on a CPU with --emulate";
  if (variant.on_host.empty()) return text;
  text += "; in host memory: ";
  for (const std::string& name : variant.on_host) text += (&name == &variant.on_host.front() ? "" : ", ") + name;
  return text;
}

void print_multi_rank(const MultiRank& form, int width) {
  fmt::print("\nMulti-rank form: every rank holds a shard");
  print_contract(form.contract, width);
  Rows variants, workloads;
  for (const auto& variant : form.variants) variants.push_back({variant.name, variant.idea});
  for (const auto& workload : form.workloads) workloads.push_back({workload.name, workload.description});
  fmt::print("\nMulti-rank variants (the first is the baseline)\n{}", columns(variants, 2, width));
  fmt::print("\nMulti-rank workloads\n{}", columns(workloads, 2, width));
}

void print_text(const CatalogEntry& entry, const Task* task, int width) {
  fmt::print("{} ({})\n{}", entry.name, entry.group.empty() ? "no group" : entry.group, wrapped(task ? task->summary : entry.summary, 2, width));
  if (task && !task->semantics.empty()) fmt::print("\n{}", wrapped(task->semantics, 2, width));
  if (task) {
    print_contract(task->contract, width);
    Rows variants, workloads;
    for (const Variant& variant : task->variants) variants.push_back({variant.name, variant.idea + (variant.on_device ? " (" + device_text(variant) + ")" : "")});
    for (const Workload& workload : task->workloads)
      workloads.push_back({workload.name, workload.description + (workload.parts.size() > 1 ? fmt::format(" ({} input sets a call)", workload.parts.size()) : "") +
                                              (workload.also_gated.empty() ? "" : fmt::format(" (gated on {} other fill{} besides)", workload.also_gated.size(), workload.also_gated.size() > 1 ? "s" : ""))});
    fmt::print("\nVariants\n{}", columns(variants, 2, width));
    fmt::print("\nWorkloads\n{}", columns(workloads, 2, width));
    if (task->multi_rank) print_multi_rank(*task->multi_rank, width);
  }
  fmt::print("\nMeasured by\n");
  Rows rows;
  if (task) {
    rows.push_back({"gate", task->gate.text});
    rows.push_back({"cases", fmt::format("{} fixed ones, then random ones from the run's seed", task->cases.size())});
    if (task->stream) {
      rows.push_back({"stream", task->stream->text});
      std::string given, made;
      for (const TensorSpec& spec : task->stream->receiver.inputs()) given += (given.empty() ? "" : ", ") + spec.name;
      for (const TensorSpec& spec : task->stream->receiver.outputs()) made += (made.empty() ? "" : ", ") + spec.name;
      rows.push_back({"receiver", "in another process: " + made + " from " + given});
    }
    rows.push_back({"metric", task->metric.text});
    rows.push_back({"floor", task->floor_text});
  }
  rows.push_back({"score", score_text(entry)});
  rows.push_back({"catalog", fmt::format("{} / {}, GPUs {}, submissions {}", entry.bench, entry.task_dir, entry.gpus, entry.max_submissions)});
  fmt::print("{}", columns(rows, 2, width));
  if (!task) fmt::print("\nThis build has no implementation of it.\n");
}

Json spec_json(const TensorSpec& spec) {
  Json dtypes = Json::array(), extents = Json::array();
  for (Dtype dtype : spec.dtypes) dtypes.push_back(name_of(dtype));
  for (const Extent& extent : spec.extents) extents.push_back(extent.text());
  Json json = {{"name", spec.name}, {"dtypes", dtypes}, {"extents", extents}, {"meaning", spec.meaning}};
  if (!spec.dtype_of.empty()) json["dtype_of"] = spec.dtype_of;
  if (!spec.valid_range.empty()) json["valid_range"] = spec.valid_range;
  if (spec.optional) json["optional"] = true;
  if (spec.in_place) json["in_place"] = true;
  if (spec.last_offset) json["last_offset"] = spec.last_offset->text();
  if (!spec.length.empty()) json["length"] = spec.length;
  if (!spec.condition.empty()) json["condition"] = spec.condition;
  return json;
}

Json contract_json(const Contract& contract) {
  Json inputs = Json::array(), outputs = Json::array(), rejections = Json::array();
  for (const TensorSpec& spec : contract.inputs()) inputs.push_back(spec_json(spec));
  for (const TensorSpec& spec : contract.outputs()) outputs.push_back(spec_json(spec));
  for (const char* code : {"missing_tensor", "unknown_tensor", "wrong_dtype", "wrong_rank", "dim_mismatch", "bad_offsets"})
    rejections.push_back({{"code", code}, {"condition", "general"}, {"checked_by", "runner"}});
  for (const Rule& rule : contract.rules())
    rejections.push_back({{"code", rule.code}, {"condition", rule.condition}, {"checked_by", rule.checked_by == CheckedBy::runner ? "runner" : "variant"}});
  return {{"inputs", inputs}, {"outputs", outputs}, {"rejections", rejections}};
}

template <class Items, class Text>
Json named_json(const Items& items, const char* key, Text text) {
  Json json = Json::array();
  for (const auto& item : items) json.push_back({{"name", item.name}, {key, text(item)}});
  return json;
}

void print_json(const CatalogEntry& entry, const Task* task) {
  const auto idea = [](const auto& variant) { return variant.idea; };
  const auto description = [](const auto& workload) { return workload.description; };
  Json json = {{"format", "faibench-show/1"},
               {"task", entry.name},
               {"group", entry.group},
               {"summary", task ? task->summary : entry.summary},
               {"reward_class", entry.reward_class == RewardClass::performance ? "performance" : "implementation"},
               {"ref_speedup", entry.ref_speedup > 0 ? Json(entry.ref_speedup) : Json()},
               {"gpus", entry.gpus},
               {"bench", entry.bench},
               {"task_dir", entry.task_dir},
               {"implemented", task != nullptr}};
  if (task) {
    json["semantics"] = task->semantics;
    json["contract"] = contract_json(task->contract);
    json["variants"] = named_json(task->variants, "idea", idea);
    for (std::size_t i = 0; i < task->variants.size(); ++i) {
      const Variant& variant = task->variants[i];
      if (!variant.on_device) continue;
      json["variants"][i]["on_device"] = true;
      json["variants"][i]["in_this_build"] = find_device_library(DeviceKind::cuda).has_value();
      json["variants"][i]["emulated_in_this_build"] = can_emulate(variant);
    }
    json["workloads"] = named_json(task->workloads, "description", description);
    json["cases"] = named_json(task->cases, "note", [](const Case& c) { return c.note; });
    json["gate"] = task->gate.text;
    json["metric"] = task->metric.text;
    if (task->stream) json["stream"] = {{"text", task->stream->text}, {"receiver", contract_json(task->stream->receiver)}};
    json["floor"] = task->floor_text;
    if (task->multi_rank)
      json["multi_rank"] = {{"contract", contract_json(task->multi_rank->contract)},
                            {"variants", named_json(task->multi_rank->variants, "idea", idea)},
                            {"workloads", named_json(task->multi_rank->workloads, "description", description)}};
  }
  fmt::print("{}\n", json.dump(1));
}

int show(const Options& options) {
  const Catalog catalog = catalog_from(options.catalog);
  const CatalogEntry& entry = entry_named(catalog, options.task);
  const Task* task = find_task(entry.name);
  if (options.json) print_json(entry, task);
  else print_text(entry, task, terminal_width(STDOUT_FILENO));
  return 0;
}

}  // namespace

void add_show(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("show", "Explain a task: contract, rejections, variants, workloads, gate, metric, floor, anchor");
  command->add_option("task", options->task, "Name of the task, as 'faibench list' shows it")->required()->type_name("TASK");
  command->add_option("--catalog", options->catalog, "Read this catalog file; default: the one built in")->type_name("FILE")->check(not_empty());
  command->add_flag("--json", options->json, "Print JSON for programs");
  command->footer("Exit code: 0 shown, 2 an unknown task or a damaged catalog.\nExample: faibench show coalesced_matrix_transpose");
  command->callback([options, &exit_code] { exit_code = show(*options); });
}

}  // namespace faibench
