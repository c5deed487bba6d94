// faibench list: the catalog, and what of it this build has.
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/option_checks.h"
#include "cli/selection.h"
#include "cli/terminal.h"
#include "judge/device_library.h"

namespace faibench {
namespace {

struct Options {
  TaskFilter filter;
  std::string catalog;
  bool json = false;
};

std::vector<std::string> variants_of(const Task& task, bool on_device) {
  std::vector<std::string> names;
  for (const Variant& variant : task.variants)
    if (variant.on_device == on_device) names.push_back(variant.name);
  return names;
}

std::vector<std::string> all_variants_of(const Task& task) {
  std::vector<std::string> names;
  for (const Variant& variant : task.variants) names.push_back(variant.name);
  return names;
}

std::vector<std::string> rank_variants_of(const Task& task) {
  std::vector<std::string> names;
  if (task.multi_rank)
    for (const auto& variant : task.multi_rank->variants) names.push_back(variant.name);
  return names;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

std::string implemented_text(const Task* task) {
  if (!task) return "-";
  const std::vector<std::string> ranks = rank_variants_of(*task);
  const std::vector<std::string> device = variants_of(*task, true);
  return joined(variants_of(*task, false)) + (device.empty() ? "" : " | GPU: " + joined(device)) + (ranks.empty() ? "" : " | ranks: " + joined(ranks));
}

bool has(DeviceKind kind) { return find_device_library(kind).has_value(); }

int implemented_count(const Catalog& catalog) {
  return static_cast<int>(std::count_if(catalog.entries.begin(), catalog.entries.end(), [](const CatalogEntry& e) { return find_task(e.name) != nullptr; }));
}

void print_text(const Catalog& catalog, std::vector<const CatalogEntry*> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) { return a->group != b->group ? a->group < b->group : a->name < b->name; });
  std::vector<std::vector<std::string>> rows = {{"TASK", "GROUP", "ANCHOR", "IMPLEMENTED", "SUMMARY"}};
  for (const CatalogEntry* entry : entries)
    rows.push_back({entry->name, entry->group, entry->ref_speedup > 0 ? number_text(entry->ref_speedup) : "gate", implemented_text(find_task(entry->name)), entry->summary});
  fmt::print("{}\n", columns(rows, 0, isatty(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : 1000));
  if (entries.size() != catalog.entries.size()) fmt::print("{} shown. ", entries.size());
  fmt::print("{} of the {} tasks that the catalog counts are known; implemented in this build: {}.\n", catalog.entries.size(), catalog.task_count, implemented_count(catalog));
  fmt::print("GPU: this build {} CUDA kernels, and {} them on a CPU ('--emulate').\n", has(DeviceKind::cuda) ? "has" : "has no", has(DeviceKind::emulated) ? "can emulate" : "cannot emulate");
  fmt::print("ANCHOR: the speedup over the baseline that scores 0 (its square scores 1); gate: the gate alone decides. 'faibench show TASK' says more.\n");
}

void print_json(const Catalog& catalog, const std::vector<const CatalogEntry*>& entries) {
  nlohmann::ordered_json tasks = nlohmann::ordered_json::array();
  for (const CatalogEntry* entry : entries) {
    const Task* task = find_task(entry->name);
    nlohmann::ordered_json one = {{"task", entry->name},
                                  {"bench", entry->bench},
                                  {"task_dir", entry->task_dir},
                                  {"group", entry->group},
                                  {"summary", entry->summary},
                                  {"reward_class", entry->reward_class == RewardClass::performance ? "performance" : "implementation"},
                                  {"gpus", entry->gpus},
                                  {"max_submissions", entry->max_submissions},
                                  {"ref_speedup", entry->ref_speedup > 0 ? nlohmann::ordered_json(entry->ref_speedup) : nlohmann::ordered_json()},
                                  {"implemented", task != nullptr},
                                  {"variants", task ? all_variants_of(*task) : std::vector<std::string>()},
                                  {"device_variants", task ? variants_of(*task, true) : std::vector<std::string>()},
                                  {"rank_variants", task ? rank_variants_of(*task) : std::vector<std::string>()}};
    std::vector<std::string> workloads;
    if (task)
      for (const Workload& workload : task->workloads) workloads.push_back(workload.name);
    one["workloads"] = workloads;
    tasks.push_back(std::move(one));
  }
  const nlohmann::ordered_json out = {{"format", "faibench-list/1"},     {"task_count", catalog.task_count}, {"known", catalog.entries.size()},
                                      {"implemented", implemented_count(catalog)}, {"by_bench", catalog.by_bench},
                                      {"cuda_kernels", has(DeviceKind::cuda)}, {"emulated_kernels", has(DeviceKind::emulated)}, {"tasks", std::move(tasks)}};
  fmt::print("{}\n", out.dump(1));
}

int list(const Options& options) {
  const Catalog catalog = catalog_from(options.catalog);
  const std::vector<const CatalogEntry*> entries = select(catalog, options.filter);
  if (options.json) print_json(catalog, entries);
  else print_text(catalog, entries);
  return 0;
}

}  // namespace

void add_list(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("list", "Show the catalog's tasks and which variants of them this build has");
  command->add_option("--tasks", options->filter.tasks, "Only tasks whose name matches this shell glob; may be repeated")->type_name("GLOB")->allow_extra_args(false);
  command->add_option("--exclude", options->filter.exclude, "Leave out tasks whose name matches; may be repeated")->type_name("GLOB")->allow_extra_args(false);
  command->add_option("--group", options->filter.groups, "Only tasks of this group; may be repeated")->type_name("GROUP")->allow_extra_args(false);
  command->add_option("--catalog", options->catalog, "Read this catalog file; default: the one built in")->type_name("FILE")->check(not_empty());
  command->add_flag("--json", options->json, "Print JSON for programs");
  command->footer("Exit code: 0 listed, 2 a name that matches nothing or a damaged catalog.\nExample: faibench list --group linalg");
  command->callback([options, &exit_code] { exit_code = list(*options); });
}

}  // namespace faibench
