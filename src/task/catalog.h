// The catalog's facts: which tasks are known, their class and anchor. Embedded in the program; --catalog reads another file of the same schema.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace faibench {

enum class RewardClass { performance, implementation };

struct CatalogEntry {
  std::string bench;        ///< "kfc", "lh", "e2e"
  std::string task_dir;     ///< name of the seed task
  std::string name;         ///< infra_name: the task's name here
  std::string group;        ///< "linalg", ...; empty where the file has none
  std::string summary;      ///< one line; empty where the file has none
  RewardClass reward_class = RewardClass::performance;
  int gpus = 0;             ///< the seed task asks for this many
  int max_submissions = 1;
  double ref_speedup = 0;   ///< anchor; 0 for implementation tasks
};

struct Catalog {
  int task_count = 0;                    ///< that the catalog counts, known here or not
  std::map<std::string, int> by_bench;
  std::vector<CatalogEntry> entries;     ///< the known ones
  /// Null when there is none of that name.
  [[nodiscard]] const CatalogEntry* find(std::string_view name) const;
};

/// Schema "fai_bench_task_catalog_v2". Unknown fields are ignored. Throws Error(bad_input) "<source>: line <n>: <field>: <reason>".
Catalog parse_catalog(std::string_view text, std::string_view source);
Catalog read_catalog(const std::filesystem::path& path);
/// catalog/tasks.json as it was when the program was built.
const Catalog& embedded_catalog();

}  // namespace faibench
