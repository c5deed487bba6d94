// Which tasks of the catalog a command is about.
#pragma once
#include <string>
#include <vector>

#include "task/catalog.h"
#include "task/task.h"

namespace faibench {

/// What --tasks, --exclude, --group and --catalog say. Globs as the shell's.
struct TaskFilter {
  std::vector<std::string> tasks;    ///< empty: all
  std::vector<std::string> exclude;
  std::vector<std::string> groups;   ///< empty: all
};

/// The embedded catalog, or the one in `path` if that is not empty.
Catalog catalog_from(const std::string& path);

/// The chosen entries in the catalog's order. Throws Error(bad_input) for a name, glob or group that matches nothing, with the nearest known ones.
std::vector<const CatalogEntry*> select(const Catalog& catalog, const TaskFilter& filter);

/// The entry of that name, or Error(bad_input) with the nearest known ones.
const CatalogEntry& entry_named(const Catalog& catalog, const std::string& name);

std::vector<std::string> task_names(const Catalog& catalog);
std::vector<std::string> group_names(const Catalog& catalog);
/// Of all tasks of this build, each name once. Multi-rank variants among them; "cuda" and "cuda_baseline" always, because asking for them is no mistake.
std::vector<std::string> variant_names();
std::vector<std::string> workload_names();

/// Throws Error(bad_input) unless some task of this build has such a variant ("library:PATH" is taken as it is; globs must match one).
void check_variant(const std::string& name);
void check_workload(const std::string& name);

}  // namespace faibench
