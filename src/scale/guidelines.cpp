// Self-consistent performance guidelines (Traeff, Gropp, Thakur 2010; Hunold, Carpen-Amarie 2018): what must hold of any sensible implementation, whatever the machine.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "scale/sizes.h"
#include "scale/statistics.h"
#include "scale/study.h"

namespace faibench::scale {
namespace {

constexpr double tolerance = 1.05, tolerance_below_10us = 1.25;

/// What a call of the library may not be slower than: other calls of it that give the same.
struct Composition { const char *call, *composed, *rule; };
constexpr std::array compositions = {
    Composition{"library:allreduce", "library:reduce+broadcast", "all-reduce <= reduce+broadcast"},
    Composition{"library:allreduce", "library:reduce_scatter+allgather", "all-reduce <= reduce_scatter+allgather"},
    Composition{"library:allgather", "library:gather+broadcast", "all-gather <= gather+broadcast"},
    Composition{"library:allgather", "library:padded_allreduce", "all-gather <= padded_allreduce"},
    Composition{"library:alltoall", "library:alltoallv", "all-to-all <= alltoallv"},
    Composition{"library:alltoall", "library:scatters", "all-to-all <= scatters"},
};

bool is_library_call(const std::string& variant) { return variant.starts_with("library:"); }
bool is_ours(const std::string& variant) { return !variant.starts_with("peer:") && variant != "mpi_baseline" && !is_library_call(variant); }
const Composition* composition(const std::string& variant) {
  const auto found = std::ranges::find_if(compositions, [&](const Composition& c) { return variant == c.composed; });
  return found == compositions.end() ? nullptr : &*found;
}

/// Timed, often enough, and not by the turns of a scheduler.
bool comparable(const ScalingRow& row) {
  return row.verdict == "passed" && row.seconds > 0 && row.samples >= samples_of_an_interval && !row.oversubscribed && std::ranges::none_of(row.flags, [](const std::string& flag) { return flag.starts_with("lost_turns"); });
}

/// Beyond the tolerance and beyond what both medians are sure of; `times` of the other one are allowed.
bool slower(const ScalingRow& row, const ScalingRow& than, double times = 1) {
  return row.seconds > (row.seconds < 1e-5 ? tolerance_below_10us : tolerance) * times * than.seconds && row.low > times * than.high;
}

std::string time_text(double seconds) { return seconds < 1e-3 ? fmt::format("{:.2f} us", 1e6 * seconds) : fmt::format("{:.2f} ms", 1e3 * seconds); }

/// Tests of one guideline for one variant, cadence and number of ranks.
class Tests {
 public:
  Tests(std::string rule, bool many_others) : rule_(std::move(rule)), many_others_(many_others) {}
  void test(const ScalingRow& row, const ScalingRow& than, const std::string& other, double times = 1) {
    auto& [cells, found] = groups_[{row.task, row.variant, row.cadence, row.ranks, many_others_ ? "" : other}];
    ++cells;
    if (!slower(row, than, times)) return;
    const std::string detail = fmt::format("{} on {} ranks, {}, {}: {:.2f} times as long as {}{}", row.variant, row.ranks, size_text(row.bytes), row.cadence, row.seconds / than.seconds / times,
                                           times > 1 ? fmt::format("{:g} times ", times) : "", other);
    found.push_back({row.task, rule_, detail, row.variant, row.cadence, other, row.ranks, row.bytes, row.seconds, times * than.seconds, 0});
  }
  void give(std::vector<ScalingFinding>& findings) {
    for (auto& [key, group] : groups_) {
      for (ScalingFinding& finding : group.second) {
        finding.cells = group.first;
        findings.push_back(std::move(finding));
      }
    }
  }

 private:
  std::string rule_;
  bool many_others_;
  std::map<std::tuple<std::string, std::string, std::string, int, std::string>, std::pair<std::int64_t, std::vector<ScalingFinding>>> groups_;
};

}  // namespace

std::vector<ScalingFinding> findings_of(const std::vector<ScalingRow>& rows) {
  std::vector<const ScalingRow*> usable;
  for (const ScalingRow& row : rows)
    if (comparable(row)) usable.push_back(&row);
  std::ranges::sort(usable, [](const ScalingRow* a, const ScalingRow* b) { return std::tie(a->task, a->variant, a->cadence, a->ranks, a->bytes) < std::tie(b->task, b->variant, b->cadence, b->ranks, b->bytes); });

  Tests monotony("t(S) <= t(S')", true), splitting("t(kS) <= k t(S)", true), fewer_ranks("t over P' ranks <= t over P ranks", true), library("ours <= library", false);
  std::map<std::string, Tests> composed;
  for (std::size_t i = 1; i < usable.size(); ++i) {
    const ScalingRow &less = *usable[i - 1], &more = *usable[i];
    if (std::tie(less.task, less.variant, less.cadence, less.ranks) != std::tie(more.task, more.variant, more.cadence, more.ranks) || less.bytes == more.bytes || less.bytes == 0) continue;
    monotony.test(less, more, size_text(more.bytes));
    if (more.ranks > 1) splitting.test(more, less, "a call of " + size_text(less.bytes), std::ceil(static_cast<double>(more.bytes) / static_cast<double>(less.bytes)));
  }
  for (const ScalingRow* row : usable) {
    const Composition* itself = composition(row->variant);
    for (const ScalingRow* other : usable) {
      if (other->task != row->task || other->cadence != row->cadence || other->bytes != row->bytes) continue;
      if (other->variant == row->variant && other->ranks > row->ranks && row->ranks > 1) fewer_ranks.test(*row, *other, fmt::format("{} ranks", other->ranks));
      if (row->ranks == 1 || other->ranks != row->ranks || other->element != row->element || itself) continue;  // of elements of another width it is another amount of work
      if (is_ours(row->variant) && !is_ours(other->variant) && !composition(other->variant)) library.test(*row, *other, other->variant);
      if (const Composition* c = composition(other->variant); c && (is_ours(row->variant) || row->variant == c->call)) composed.try_emplace(c->rule, c->rule, false).first->second.test(*row, *other, other->variant);
    }
  }
  std::vector<ScalingFinding> findings;
  for (Tests* tests : {&library, &monotony, &splitting, &fewer_ranks}) tests->give(findings);
  for (auto& [rule, tests] : composed) tests.give(findings);
  return findings;
}

std::vector<std::string> grouped_text(const std::vector<ScalingFinding>& findings) {
  std::map<std::tuple<std::string, std::string, std::string, int, std::string, std::string>, std::vector<const ScalingFinding*>> groups;
  for (const ScalingFinding& f : findings) groups[{f.task, f.rule, f.variant, f.ranks, f.cadence, is_library_call(f.other) || f.rule == "ours <= library" ? f.other : ""}].push_back(&f);
  std::vector<std::string> lines;
  for (const auto& [key, group] : groups) {
    const ScalingFinding& worst = **std::ranges::max_element(group, {}, [](const ScalingFinding* f) { return f->seconds / f->other_seconds; });
    const std::string& other = std::get<5>(key);
    lines.push_back(fmt::format("finding {}: {} does not hold: {} on {} ranks, {}{}: at {} of {} cells, worst {:.1f}x at {} ({} against {}{})", worst.task, worst.rule, worst.variant, worst.ranks, worst.cadence,
                                other.empty() ? "" : ", against " + other, group.size(), worst.cells, worst.seconds / worst.other_seconds, size_text(worst.bytes), time_text(worst.seconds), time_text(worst.other_seconds),
                                other.empty() ? ", " + worst.other : ""));
  }
  return lines;
}

}  // namespace faibench::scale
