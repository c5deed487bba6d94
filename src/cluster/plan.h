// From what was asked to what is to be judged: tasks, variants, keys, costs. Knows no MPI.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cluster/run.h"
#include "cluster/schedule.h"
#include "task/task.h"

namespace faibench {

/// One task in one variant: what becomes one record.
struct PlanItem {
  const Task* task = nullptr;
  std::string variant, asked_variant, note;  ///< note: why another variant runs than was asked for
  std::string workload;
  std::string key;
  int ranks = 1;                             ///< of the gang
  bool gang = false;                         ///< the multi-rank form, in the ranks
  bool emulated = false;                     ///< a variant for GPUs, on the emulator
  double ref_speedup = 0;                    ///< the catalog's anchor; 0: an implementation task
  WorkItem work;
  /// "task/variant", with "@ranks" for a gang.
  [[nodiscard]] std::string label() const;
};

struct Plan {
  std::vector<PlanItem> items;
  std::vector<std::string> not_run;                 ///< "task/variant: why": asked for by name and impossible
  std::vector<std::string> without_implementation;  ///< in the catalog and selected, not in this build
};

/// What the plan depends on besides the options.
struct PlanSetting {
  std::span<const Task* const> tasks;  ///< of this build
  const Catalog* catalog = nullptr;
  int world_size = 1;
  bool some_rank_has_gpu = false;
  std::string worker_hash, program_hash, machine_class;
  std::string cuda_hash, emulated_hash;  ///< of the libraries of device variants; empty where the build has none
  std::map<std::string, double> earlier_seconds;  ///< by PlanItem::label() and workload, see cost_name()
};

/// The index of earlier costs.
std::string cost_name(const std::string& task, const std::string& variant, int ranks, const std::string& workload);
/// Wall seconds of an earlier run's records.
std::map<std::string, double> earlier_costs(const std::vector<Record>& records);

/// Throws Error(bad_input) for names, globs and workloads that nothing answers to, naming the nearest known ones.
Plan make_plan(const RunOptions& options, const PlanSetting& setting);

/// What --workload was, or its default.
std::string workload_of(const RunOptions& options);
/// What --budget was, or its default: 10 s, and 1 s for the smoke workload, whose calls take microseconds.
double budget_of(const RunOptions& options);

/// What was asked, for a run that is resumed without saying it again; and the options with its gaps filled from there.
std::string options_to_json(const RunOptions& options);
RunOptions fill_from(RunOptions options, const std::string& earlier_json);

}  // namespace faibench
