// Longest processing time first (with a heap of chunks), then whatever may still be better, each step stopped as soon as the lower bound is reached:
//  - first-fit decreasing under a capacity found by bisection (MULTIFIT);
//  - local search: moves and swaps between the fullest chunk and the others;
//  - where n = 3P and the total is a multiple of P: an exact partition into triples. The largest tensor left needs two others of one exact sum, found in a sorted list;
//    random sizes leave one choice, so that the search hardly ever turns back.
// No clock is read and no thread started: the same plan on every run and rank. Budgets are counts of steps.
// Measured against round-robin see the test; on lists of few distinct sizes the first step alone is optimal or within a fraction of a percent.
#include <algorithm>
#include <numeric>
#include <queue>
#include <vector>

#include "collectives/diloco_comm_chunk_balance/diloco_comm_chunk_balance.h"

namespace faibench::diloco_comm_chunk_balance::cpu {
namespace {

using Sizes = std::vector<std::int64_t>;
using Chunks = std::vector<std::int32_t>;

constexpr int bisections = 24;
constexpr std::int64_t local_steps = 20'000'000;   // comparisons of one tensor with another
constexpr std::int64_t fit_steps = 20'000'000;     // chunks looked at by one first fit
constexpr std::int64_t triple_steps = 20'000'000;  // pairs looked at

/// Sizes in descending order, and a plan for them.
struct Plan {
  Chunks chunk;
  Sizes load;
  [[nodiscard]] std::int64_t fullest() const { return *std::ranges::max_element(load); }
};

Plan longest_first(const Sizes& sizes, std::int64_t P) {
  Plan plan{Chunks(sizes.size()), Sizes(static_cast<std::size_t>(P), 0)};
  using Entry = std::pair<std::int64_t, std::int32_t>;  // load, chunk
  std::vector<Entry> start;
  for (std::int32_t c = 0; c < P; ++c) start.emplace_back(0, c);
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> least({}, std::move(start));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    auto [load, chunk] = least.top();
    least.pop();
    plan.chunk[i] = chunk;
    least.emplace(plan.load[static_cast<std::size_t>(chunk)] = load + sizes[i], chunk);
  }
  return plan;
}

/// Each tensor into the first chunk with room; false if some finds none.
bool first_fit(const Sizes& sizes, std::int64_t P, std::int64_t capacity, Plan& plan) {
  plan.load.assign(static_cast<std::size_t>(P), 0);
  std::int64_t steps = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::size_t c = 0;
    while (c < plan.load.size() && plan.load[c] > capacity - sizes[i]) ++c;
    steps += static_cast<std::int64_t>(c);
    if (c == plan.load.size() || steps > fit_steps) return false;
    plan.chunk[i] = static_cast<std::int32_t>(c);
    plan.load[c] += sizes[i];
  }
  return true;
}

void multifit(const Sizes& sizes, std::int64_t P, std::int64_t lower_bound, Plan& best) {
  std::int64_t low = lower_bound, high = best.fullest();
  Plan trial{Chunks(sizes.size()), {}};
  for (int k = 0; k < bisections && low < high; ++k) {
    const std::int64_t capacity = low + (high - low) / 2;
    if (first_fit(sizes, P, capacity, trial)) {
      if (trial.fullest() < best.fullest()) best = trial;
      high = std::min(capacity, trial.fullest());
    } else {
      low = capacity + 1;
    }
  }
}

/// Moves of a tensor out of the fullest chunk, or swaps for a smaller one, that leave both chunks below it.
void local_search(const Sizes& sizes, std::int64_t lower_bound, Plan& plan) {
  std::vector<std::vector<std::size_t>> members(plan.load.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) members[static_cast<std::size_t>(plan.chunk[i])].push_back(i);
  const auto relocate = [&](std::size_t tensor, std::size_t from, std::size_t to) {
    std::erase(members[from], tensor);
    members[to].push_back(tensor);
    plan.load[from] -= sizes[tensor];
    plan.load[to] += sizes[tensor];
    plan.chunk[tensor] = static_cast<std::int32_t>(to);
  };
  std::int64_t steps = 0;
  for (;;) {
    const auto full = static_cast<std::size_t>(std::ranges::max_element(plan.load) - plan.load.begin());
    const std::int64_t before = plan.load[full];
    if (before <= lower_bound) return;
    std::int64_t best = before;
    std::size_t out = 0, back = sizes.size(), other = 0;
    for (const std::size_t i : members[full])
      for (std::size_t c = 0; c < plan.load.size(); ++c) {
        if (c == full || plan.load[c] >= before) continue;
        const auto consider = [&](std::int64_t difference, std::size_t in_exchange) {
          if (difference <= 0) return;
          const std::int64_t after = std::max(before - difference, plan.load[c] + difference);
          if (after >= best) return;
          best = after;
          out = i;
          back = in_exchange;
          other = c;
        };
        consider(sizes[i], sizes.size());
        for (const std::size_t j : members[c]) consider(sizes[i] - sizes[j], j);
        steps += static_cast<std::int64_t>(members[c].size()) + 1;
        if (steps > local_steps) return;
      }
    if (best == before) return;
    relocate(out, full, other);
    if (back < sizes.size()) relocate(back, other, full);
  }
}

/// Partition of 3P sizes into P triples of one exact sum.
class Triples {
 public:
  Triples(const Sizes& sizes, std::int64_t sum) : sizes_(sizes), sum_(sum), used_(sizes.size(), false), chunk_(sizes.size(), 0) {}
  bool find(std::size_t first = 0, std::int32_t chunk = 0) {
    while (first < sizes_.size() && used_[first]) ++first;
    if (first == sizes_.size()) return true;
    const std::int64_t rest = sum_ - sizes_[first];
    used_[first] = true;
    chunk_[first] = chunk;
    std::size_t low = first + 1, high = sizes_.size() - 1;  // descending sizes: low is the larger of the two
    while (low < high && ++steps_ < triple_steps) {
      const std::int64_t pair = sizes_[low] + sizes_[high];
      if (used_[low] || pair > rest) {
        ++low;
      } else if (used_[high] || pair < rest) {
        --high;
      } else {
        used_[low] = used_[high] = true;
        chunk_[low] = chunk_[high] = chunk;
        if (find(first + 1, chunk + 1)) return true;
        used_[low] = used_[high] = false;
        ++low;
      }
    }
    used_[first] = false;
    return false;
  }
  [[nodiscard]] const Chunks& chunk() const { return chunk_; }

 private:
  const Sizes& sizes_;
  std::int64_t sum_, steps_ = 0;
  std::vector<bool> used_;
  Chunks chunk_;
};

constexpr std::size_t deepest_triples = 4096;  // the search goes as deep as there are chunks

}  // namespace

void balance(View<const std::int64_t, 1> sizes, std::int32_t chunks, View<std::int32_t, 1> chunk_of, View<std::int64_t, 1> load) {
  const auto n = static_cast<std::size_t>(sizes.extent(0)), P = static_cast<std::size_t>(chunks);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return sizes[static_cast<std::int64_t>(i)]; });
  Sizes sorted(n);
  for (std::size_t i = 0; i < n; ++i) sorted[i] = sizes[static_cast<std::int64_t>(order[i])];

  const std::int64_t total = std::accumulate(sorted.begin(), sorted.end(), std::int64_t{0});
  std::int64_t lower_bound = total / chunks + (total % chunks != 0);
  if (n > 0) lower_bound = std::max(lower_bound, sorted[0]);
  if (n > P) lower_bound = std::max(lower_bound, sorted[P - 1] + sorted[P]);

  Plan plan = longest_first(sorted, chunks);
  if (plan.fullest() > lower_bound && n == 3 * P && P <= deepest_triples && total % chunks == 0) {
    Triples triples(sorted, total / chunks);
    if (triples.find()) plan = {triples.chunk(), Sizes(P, total / chunks)};
  }
  if (plan.fullest() > lower_bound) multifit(sorted, chunks, lower_bound, plan);
  if (plan.fullest() > lower_bound) local_search(sorted, lower_bound, plan);

  for (std::size_t i = 0; i < n; ++i) chunk_of[static_cast<std::int64_t>(order[i])] = plan.chunk[i];
  std::ranges::copy(plan.load, load.data());
}

}  // namespace faibench::diloco_comm_chunk_balance::cpu
