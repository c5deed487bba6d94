#include "cluster/plan.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "cluster/item_key.h"
#include "judge/job.h"
#include "task/names.h"

namespace faibench {
namespace {

bool matches(const std::string& glob, const std::string& name) { return fnmatch(glob.c_str(), name.c_str(), 0) == 0; }
bool matches_any(const std::vector<std::string>& globs, const std::string& name) {
  return std::ranges::any_of(globs, [&](const std::string& glob) { return matches(glob, name); });
}

bool is_glob(const std::string& text) { return text.find_first_of("*?[") != std::string::npos; }

std::string quoted_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

std::vector<std::string> unique(std::vector<std::string> names) {
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void require_match(const std::vector<std::string>& globs, const std::vector<std::string>& known, const std::string& what) {
  for (const std::string& glob : globs) {
    if (std::ranges::none_of(known, [&](const std::string& name) { return matches(glob, name); })) {
      throw unknown_name(what, glob, known, "'faibench list' shows all");
    }
  }
}

constexpr double emulated_seconds = 20;  // of a typical variant: cases are small, the emulator is slow

// Fixed cases, random cases and blocks of fresh inputs, a baseline call and a gate each; the judge stops early where it can.
WorkItem estimate(const RunOptions& options, double baseline_seconds) {
  const double budget = budget_of(options);
  const double timed = options.gate_only ? 0 : std::min(budget, std::max(0.1, 40 * baseline_seconds)) + 4 * baseline_seconds;
  return {.expected_seconds = 0.3 + 2 * timed, .slot_seconds = options.gate_only ? 0 : timed};
}

class Planner {
 public:
  Planner(const RunOptions& options, const PlanSetting& setting) : options_(options), setting_(setting), workload_(workload_of(options)) {
    if (options.emulate && workload_ != "smoke")
      throw Error(Error::Kind::bad_input, "--emulate gates small sizes, because the emulator is a thousand times slower than a CPU: its workload is smoke, not " + workload_);
    if (options.emulate && setting.emulated_hash.empty()) throw Error(Error::Kind::bad_input, "--emulate: this build has no emulated kernels");
  }

  Plan make() {
    select_tasks();
    require_variants();
    for (const Task* task : selected_) {
      const std::size_t before = plan_.items.size();
      add_solo(*task);
      add_gangs(*task);
      if (plan_.items.size() == before) explain_nothing(*task);
    }
    if (plan_.items.empty() && plan_.not_run.empty() && !selected_.empty()) nothing_has_the_workload();
    if (options_.emulate && plan_.not_run.empty() && std::ranges::none_of(plan_.items, &PlanItem::emulated))
      throw Error(Error::Kind::bad_input, "--emulate runs variants for GPUs: of what is chosen none is one ('faibench list' shows which tasks have them)");
    return std::move(plan_);
  }

 private:
  std::string group_of(const CatalogEntry& entry, const Task* task) const { return task && entry.group.empty() ? task->group : entry.group; }
  const Task* built(const std::string& name) const {
    const auto found = std::ranges::find_if(setting_.tasks, [&](const Task* task) { return task->name == name; });
    return found == setting_.tasks.end() ? nullptr : *found;
  }

  void select_tasks() {
    std::vector<std::string> names, groups;
    for (const CatalogEntry& entry : setting_.catalog->entries) {
      names.push_back(entry.name);
      if (const std::string group = group_of(entry, built(entry.name)); !group.empty()) groups.push_back(group);
    }
    require_match(options_.tasks, names, "task of the catalog");
    require_match(options_.exclude, names, "task of the catalog");
    require_match(options_.groups, unique(groups), "group");
    for (const CatalogEntry& entry : setting_.catalog->entries) {
      const Task* task = built(entry.name);
      if (!options_.tasks.empty() && !matches_any(options_.tasks, entry.name)) continue;
      if (matches_any(options_.exclude, entry.name)) continue;
      if (!options_.groups.empty() && !matches_any(options_.groups, group_of(entry, task))) continue;
      if (task) {
        selected_.push_back(task);
      } else {
        plan_.without_implementation.push_back(entry.name);
        if (named(entry.name)) plan_.not_run.push_back(entry.name + ": this build has no implementation of it");
      }
    }
    // A pattern that finds only tasks without an implementation was asked for all the same.
    if (selected_.empty() && plan_.not_run.empty() && !(options_.tasks.empty() && options_.groups.empty()))
      for (const std::string& name : plan_.without_implementation) plan_.not_run.push_back(name + ": this build has no implementation of it");
    if (selected_.empty() && plan_.without_implementation.empty()) throw Error(Error::Kind::bad_input, "--exclude and --group leave no task to run");
  }

  // Asked for in so many letters, not by a pattern or by default.
  bool named(const std::string& task) const {
    return std::ranges::any_of(options_.tasks, [&](const std::string& glob) { return !is_glob(glob) && glob == task; });
  }

  void require_variants() {
    if (options_.variants.empty()) return;
    std::vector<std::string> known = {"cuda", "cuda_baseline"};  // fall back to the CPU's where there is none
    for (const Task* task : setting_.tasks) {
      for (const Variant& variant : task->variants) known.push_back(variant.name);
      if (!task->multi_rank) continue;
      for (const auto& variant : task->multi_rank->variants) known.push_back(variant.name);
    }
    std::vector<std::string> asked;
    for (const std::string& variant : options_.variants) {
      if (!variant.starts_with(library_prefix)) asked.push_back(variant);
    }
    require_match(asked, unique(known), "variant");
  }

  bool wants(const std::string& variant) const {
    if (!options_.variants.empty()) return matches_any(options_.variants, variant);
    return variant == "cpu" || variant == "cuda" || variant.starts_with("peer:");
  }

  // Those of vendors' libraries are what the emulator cannot run.
  bool can_emulate(const Variant& variant) const { return options_.emulate && !variant.name.starts_with("peer:"); }
  bool can_run(const Variant& variant) const { return !variant.on_device || can_emulate(variant) || (!options_.emulate && gpu_missing().empty()); }

  // Why no variant for GPUs can run here; empty: it can.
  std::string gpu_missing() const { return !setting_.some_rank_has_gpu ? "no GPU on any rank" : setting_.cuda_hash.empty() ? "this build has no CUDA kernels" : ""; }

  // Where nobody named one, a variant for GPUs gets the size that fills one.
  const Workload* workload_for(const Task& task, const Variant& variant) const {
    const Workload* filling = variant.on_device && !options_.workload && !options_.emulate ? task.find_workload("gpu") : nullptr;
    return filling ? filling : task.find_workload(workload_);
  }

  void add_solo(const Task& task) {
    std::set<std::string> added;
    for (const Variant& variant : task.variants) {
      const Workload* workload = workload_for(task, variant);
      if (!workload || !wants(variant.name)) continue;
      if (!can_run(variant)) {
        const bool named_it = std::ranges::find(options_.variants, variant.name) != options_.variants.end();
        if (named_it && variant.name.starts_with("peer:"))  // ours have a CPU form to take their place
          plan_.not_run.push_back(task.name + "/" + variant.name + ": " + (options_.emulate ? "a vendor's library cannot be emulated" : gpu_missing()));
        continue;
      }
      added.insert(variant.name);
      add_item(task, *workload, variant.name, "", "");
    }
    const Workload* workload = task.find_workload(workload_);
    if (!workload) return;
    for (const std::string& variant : options_.variants) {
      if (variant.starts_with(library_prefix)) add_item(task, *workload, variant, "", "");
    }
    if (!options_.emulate) add_in_place_of_device(task, *workload, added);
  }

  // Where a variant for GPUs cannot run, the CPU's does, and the record says so.
  void add_in_place_of_device(const Task& task, const Workload& workload, const std::set<std::string>& added) {
    for (const auto& [asked, instead] : {std::pair<std::string, std::string>{"cuda", "cpu"}, {"cuda_baseline", "baseline"}}) {
      const bool possible = task.find_variant(asked) && gpu_missing().empty();
      const bool named_it = std::ranges::find(options_.variants, asked) != options_.variants.end();
      if (possible || !named_it || !task.find_variant(instead)) continue;
      const std::string why = gpu_missing().empty() ? "this build has no " + asked + " variant" : gpu_missing();
      const std::string note = why + ": ran " + instead + " in place of " + asked;
      if (added.contains(instead)) {
        PlanItem& item = *std::ranges::find_if(plan_.items, [&](const PlanItem& i) { return i.task == &task && i.variant == instead; });
        item.asked_variant = asked;
        item.note = note;
      } else {
        add_item(task, workload, instead, asked, note);
      }
    }
  }

  void add_item(const Task& task, const Workload& workload, const std::string& variant, const std::string& asked, const std::string& note) {
    PlanItem item;
    item.task = &task;
    item.variant = variant;
    item.asked_variant = asked;
    item.note = note;
    item.workload = workload.name;
    item.ref_speedup = anchor(task);
    const Variant* ours = task.find_variant(variant);
    const bool on_device = ours && ours->on_device;
    item.emulated = on_device && options_.emulate;
    item.work = item.emulated ? WorkItem{.expected_seconds = emulated_seconds} : cost(item, workload.baseline_seconds);
    item.work.needs_gpu = on_device && !item.emulated;
    std::string bytes = setting_.worker_hash;
    if (variant.starts_with(library_prefix)) bytes += file_hash(variant.substr(library_prefix.size()));
    else if (on_device) bytes += item.emulated ? setting_.emulated_hash : setting_.cuda_hash;
    item.key = item_key({task.name, contract_text(task, workload.name), workload.name, variant, options_.seed.value_or(1), 1, bytes, setting_.machine_class, item.emulated});
    plan_.items.push_back(std::move(item));
  }

  void add_gangs(const Task& task) {
    if (!task.multi_rank) return;
    const auto& workloads = task.multi_rank->workloads;
    if (std::ranges::none_of(workloads, [&](const auto& w) { return w.name == workload_; })) return;
    std::vector<int> sizes = options_.gang_sizes;
    if (sizes.empty() && (setting_.world_size > 1 || !options_.variants.empty())) sizes = {setting_.world_size};
    for (std::size_t v = 0; v < task.multi_rank->variants.size(); ++v) {
      const std::string& variant = task.multi_rank->variants[v].name;
      const bool wanted = options_.variants.empty() ? v > 0 && variant.starts_with("mpi") : matches_any(options_.variants, variant);
      if (!wanted) continue;
      for (int ranks : sizes) add_gang(task, variant, ranks);
    }
  }

  void add_gang(const Task& task, const std::string& variant, int ranks) {
    PlanItem item;
    item.task = &task;
    item.variant = variant;
    item.workload = workload_;
    item.ranks = ranks;
    item.gang = true;
    item.ref_speedup = anchor(task);
    if (ranks < 1 || ranks > setting_.world_size) {
      plan_.not_run.push_back(item.label() + ": a gang of " + std::to_string(ranks) + " ranks in a run of " + std::to_string(setting_.world_size));
      return;
    }
    const Workload* same = task.find_workload(workload_);
    item.work = cost(item, same ? same->baseline_seconds : 0.1);
    item.key = item_key({task.name, multi_rank_contract_text(task, workload_), workload_, variant, options_.seed.value_or(1), ranks, setting_.program_hash,
                         setting_.machine_class});
    plan_.items.push_back(std::move(item));
  }

  WorkItem cost(const PlanItem& item, double baseline_seconds) const {
    WorkItem work = estimate(options_, baseline_seconds);
    const auto earlier = setting_.earlier_seconds.find(cost_name(item.task->name, item.variant, item.ranks, item.workload));
    if (earlier == setting_.earlier_seconds.end() || earlier->second <= 0) return work;
    const double slot_share = work.slot_seconds / work.expected_seconds;
    return {.expected_seconds = earlier->second, .slot_seconds = slot_share * earlier->second};
  }

  double anchor(const Task& task) const {
    const CatalogEntry* entry = setting_.catalog->find(task.name);
    return entry && entry->reward_class == RewardClass::performance ? entry->ref_speedup : 0;
  }

  void explain_nothing(const Task& task) {
    if (options_.tasks.empty() || !(named(task.name) || options_.workload)) return;
    std::vector<std::string> known;
    for (const Workload& workload : task.workloads) known.push_back(workload.name);
    if (!task.find_workload(workload_)) {
      plan_.not_run.push_back(task.name + ": it has no workload '" + workload_ + "' (it has " + quoted_list(known) + ")");
    } else if (named(task.name)) {
      plan_.not_run.push_back(task.name + ": it has no variant " + quoted_list(options_.variants));
    }
  }

  [[noreturn]] void nothing_has_the_workload() {
    std::vector<std::string> known;
    for (const Task* task : selected_) {
      for (const Workload& workload : task->workloads) known.push_back(workload.name);
    }
    known = unique(known);
    if (std::ranges::find(known, workload_) == known.end()) {
      throw unknown_name("workload", workload_, known, "'faibench show TASK' lists a task's");
    }
    throw Error(Error::Kind::bad_input, "no selected task has a variant " + quoted_list(options_.variants));
  }

  const RunOptions& options_;
  const PlanSetting& setting_;
  std::string workload_;
  std::vector<const Task*> selected_;
  Plan plan_;
};

}  // namespace

std::string PlanItem::label() const { return task->name + "/" + variant + (gang ? "@" + std::to_string(ranks) : ""); }

std::string cost_name(const std::string& task, const std::string& variant, int ranks, const std::string& workload) {
  return task + "/" + variant + "@" + std::to_string(ranks) + ":" + workload;
}

std::map<std::string, double> earlier_costs(const std::vector<Record>& records) {
  std::map<std::string, double> costs;
  for (const Record& record : records) {
    if (record.wall_seconds > 0 && record.verdict == Verdict::passed) costs[cost_name(record.task, record.variant, record.ranks, record.workload)] = record.wall_seconds;
  }
  return costs;
}

std::string workload_of(const RunOptions& options) { return options.workload.value_or(options.emulate ? "smoke" : "standard"); }

double budget_of(const RunOptions& options) { return options.budget_seconds.value_or(workload_of(options) == "smoke" ? 1 : 10); }

Plan make_plan(const RunOptions& options, const PlanSetting& setting) { return Planner(options, setting).make(); }

}  // namespace faibench
