#include "kernels/memory/runtime_arena_memplan/cpu_sweep.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace faibench::runtime_arena_memplan::cpu {
namespace {

// Free units below a growing top; neighbours are always merged, and no free range touches the top.
class FreeRanges {
 public:
  std::int64_t take(std::int64_t units) {
    const auto best = by_length_.lower_bound({units, 0});
    if (best == by_length_.end()) return std::exchange(top_, top_ + units);
    const auto [length, begin] = *best;
    remove(by_begin_.find(begin));
    if (length > units) add(begin + units, length - units);
    return begin;
  }
  void give_back(std::int64_t begin, std::int64_t units) {
    std::int64_t end = begin + units;
    auto above = by_begin_.lower_bound(begin);
    if (above != by_begin_.begin()) {
      const auto below = std::prev(above);
      if (below->first + below->second == begin) {
        begin = below->first;
        remove(below);
      }
    }
    if (above != by_begin_.end() && above->first == end) {
      end += above->second;
      remove(above);
    }
    if (end == top_) top_ = begin;
    else add(begin, end - begin);
  }
  [[nodiscard]] std::int64_t top() const { return top_; }

 private:
  void add(std::int64_t begin, std::int64_t length) {
    by_begin_.emplace(begin, length);
    by_length_.emplace(length, begin);
  }
  void remove(std::map<std::int64_t, std::int64_t>::iterator range) {
    by_length_.erase({range->second, range->first});
    by_begin_.erase(range);
  }
  std::map<std::int64_t, std::int64_t> by_begin_;             // begin -> length
  std::set<std::pair<std::int64_t, std::int64_t>> by_length_;  // (length, begin)
  std::int64_t top_ = 0;
};

}  // namespace

SweepPlan plan_by_sweep(const Timeline& line) {
  SweepPlan plan;
  plan.bottom.resize(static_cast<std::size_t>(line.count));
  std::vector<std::int32_t> births(plan.bottom.size());
  std::iota(births.begin(), births.end(), 0);
  std::vector<std::int32_t> deaths = births;
  std::sort(births.begin(), births.end(), [&](std::int32_t a, std::int32_t b) {
    if (line.start[a] != line.start[b]) return line.start[a] < line.start[b];
    return line.units[a] != line.units[b] ? line.units[a] > line.units[b] : a < b;
  });
  std::sort(deaths.begin(), deaths.end(), [&](std::int32_t a, std::int32_t b) { return line.end[a] != line.end[b] ? line.end[a] < line.end[b] : a < b; });
  FreeRanges ranges;
  std::size_t next_death = 0;
  for (const std::int32_t p : births) {
    for (; line.end[deaths[next_death]] <= line.start[p]; ++next_death) ranges.give_back(plan.bottom[static_cast<std::size_t>(deaths[next_death])], line.units[deaths[next_death]]);
    plan.bottom[static_cast<std::size_t>(p)] = ranges.take(line.units[p]);
    plan.peak = std::max(plan.peak, ranges.top());
  }
  return plan;
}

}  // namespace faibench::runtime_arena_memplan::cpu
