#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <set>

#include "cluster/preparation.h"

namespace faibench {
namespace {

std::string eligible_ranks(const Preparation& preparation, const PlanItem& item) {
  std::vector<int> ranks;
  for (int rank = 0; rank < static_cast<int>(preparation.layout.seats.size()); ++rank) {
    if (!item.work.needs_gpu || preparation.layout.seats[static_cast<std::size_t>(rank)].has_gpu) ranks.push_back(rank);
  }
  return item.gang ? std::to_string(item.ranks) + " of " + ranges_text(ranks) + " together" : ranges_text(ranks);
}

std::string given_gpu(const GivenGpu& gpu) {
  if (gpu.position < 0) return "";
  return ", " + gpu.uuid + (gpu.ranks.size() > 1 ? fmt::format(" shared by ranks {}", ranges_text(gpu.ranks)) : "");
}

// As the schedule hands them out: solo items longest first, then gangs.
std::vector<const PlanItem*> in_order(const Preparation& preparation) {
  std::vector<const PlanItem*> solo, gangs;
  std::vector<WorkItem> work;
  for (const PlanItem& item : preparation.to_judge) {
    (item.gang ? gangs : solo).push_back(&item);
    if (!item.gang) work.push_back(item.work);
  }
  std::vector<const PlanItem*> ordered;
  for (int index : WorkSchedule(std::move(work), preparation.layout.seats).order()) ordered.push_back(solo[static_cast<std::size_t>(index)]);
  ordered.insert(ordered.end(), gangs.begin(), gangs.end());
  return ordered;
}

}  // namespace

void print_plan(const Preparation& preparation) {
  const auto ordered = in_order(preparation);
  if (preparation.options.json) {
    auto json = nlohmann::json::array();
    for (const PlanItem* item : ordered) {
      json.push_back({{"task", item->task->name}, {"variant", item->variant}, {"asked_variant", item->asked_variant}, {"emulated", item->emulated}, {"workload", item->workload},
                      {"ranks", item->ranks}, {"key", item->key}, {"expected_seconds", item->work.expected_seconds}, {"eligible_ranks", eligible_ranks(preparation, *item)}, {"note", item->note}});
    }
    fmt::print("{}\n", nlohmann::json{{"items", json}, {"already_judged", preparation.plan.items.size() - preparation.to_judge.size()}, {"not_run", preparation.plan.not_run},
                                      {"without_implementation", preparation.plan.without_implementation}}
                           .dump(1));
    return;
  }
  for (int rank = 0; rank < static_cast<int>(preparation.layout.places.size()); ++rank) {
    const Place& place = preparation.layout.places[static_cast<std::size_t>(rank)];
    fmt::print("rank {}: {}, cpus {}, NUMA {}{}{}\n", rank, place.host, ranges_text(place.cpus), ranges_text(place.numa_nodes), given_gpu(preparation.layout.gpus[static_cast<std::size_t>(rank)]),
               preparation.layout.seats[static_cast<std::size_t>(rank)].whole_task_in_slot ? ", shares its cores: one task at a time in its slot" : "");
  }
  fmt::print("{:>9}  {:<48} {:<10} {}\n", "expected", "task/variant", "workload", "ranks");
  for (const PlanItem* item : ordered) {
    fmt::print("{:>7.1f} s  {:<48} {:<10} {}{}\n", item->work.expected_seconds, item->label(), item->workload, eligible_ranks(preparation, *item),
               item->emulated ? "  (emulated)" : item->note.empty() ? "" : "  (" + item->note + ")");
  }
  if (const auto already = preparation.plan.items.size() - preparation.to_judge.size(); already > 0) fmt::print("{} more were judged before\n", already);
  for (const std::string& line : preparation.plan.not_run) fmt::print("cannot run: {}\n", line);
  if (!preparation.plan.without_implementation.empty()) fmt::print("{} tasks of the catalog have no implementation in this build\n", preparation.plan.without_implementation.size());
}

void print_cases(const Preparation& preparation) {
  std::set<const Task*> seen;
  auto json = nlohmann::json::array();
  for (const PlanItem& item : preparation.plan.items) {
    if (!seen.insert(item.task).second) continue;
    for (const Case& fixed : item.task->cases) {
      if (preparation.options.json) {
        json.push_back({{"task", item.task->name}, {"case", fixed.name}, {"note", fixed.note}});
      } else {
        fmt::print("{}  {}{}\n", item.task->name, fixed.name, fixed.note.empty() ? "" : "  (" + fixed.note + ")");
      }
    }
  }
  if (preparation.options.json) fmt::print("{}\n", json.dump(1));
}

}  // namespace faibench
