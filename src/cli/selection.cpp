#include "cli/selection.h"

#include <fnmatch.h>

#include <algorithm>

#include "judge/job.h"
#include "task/names.h"

namespace faibench {
namespace {

bool matches(const std::string& glob, const std::string& name) { return fnmatch(glob.c_str(), name.c_str(), 0) == 0; }

bool matches_any(const std::vector<std::string>& globs, const std::string& name) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) { return matches(glob, name); });
}

bool known(const std::string& glob, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return matches(glob, name); });
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

}  // namespace

Catalog catalog_from(const std::string& path) { return path.empty() ? embedded_catalog() : read_catalog(path); }

std::vector<std::string> task_names(const Catalog& catalog) {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog.entries) names.push_back(entry.name);
  return names;
}

std::vector<std::string> group_names(const Catalog& catalog) {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : catalog.entries)
    if (!entry.group.empty()) add_once(names, entry.group);
  return names;
}

std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  for (const Task* task : all_tasks()) {
    for (const Variant& variant : task->variants) add_once(names, variant.name);
    if (task->multi_rank)
      for (const auto& variant : task->multi_rank->variants) add_once(names, variant.name);
  }
  add_once(names, "cuda");
  add_once(names, "cuda_baseline");
  return names;
}

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const Task* task : all_tasks()) {
    for (const Workload& workload : task->workloads) add_once(names, workload.name);
    if (task->multi_rank)
      for (const auto& workload : task->multi_rank->workloads) add_once(names, workload.name);
  }
  return names;
}

std::vector<const CatalogEntry*> select(const Catalog& catalog, const TaskFilter& filter) {
  const std::vector<std::string> names = task_names(catalog), groups = group_names(catalog);
  for (const auto* globs : {&filter.tasks, &filter.exclude})
    for (const std::string& glob : *globs)
      if (!known(glob, names)) throw unknown_name("task", glob, names, "'faibench list' shows all");
  for (const std::string& glob : filter.groups)
    if (!known(glob, groups)) throw unknown_name("group", glob, groups, "'faibench list' shows all");
  std::vector<const CatalogEntry*> chosen;
  for (const CatalogEntry& entry : catalog.entries) {
    if (!filter.tasks.empty() && !matches_any(filter.tasks, entry.name)) continue;
    if (!filter.groups.empty() && !matches_any(filter.groups, entry.group)) continue;
    if (matches_any(filter.exclude, entry.name)) continue;
    chosen.push_back(&entry);
  }
  return chosen;
}

const CatalogEntry& entry_named(const Catalog& catalog, const std::string& name) {
  if (const CatalogEntry* entry = catalog.find(name)) return *entry;
  throw unknown_name("task", name, task_names(catalog), "'faibench list' shows all");
}

void check_variant(const std::string& name) {
  if (name.starts_with(library_prefix)) {
    if (name.size() == library_prefix.size()) throw Error(Error::Kind::bad_input, "--variant library: wants a path behind the colon, as in library:./mine.so");
    return;
  }
  if (!known(name, variant_names()) && name != "peer:*") throw unknown_name("variant", name, variant_names(), "'faibench show TASK' lists a task's");
}

void check_workload(const std::string& name) {
  const std::vector<std::string> names = workload_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) throw unknown_name("workload", name, names, "'faibench show TASK' lists a task's");
}

}  // namespace faibench
