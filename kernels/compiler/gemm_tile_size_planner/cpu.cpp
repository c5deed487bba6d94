// The exact optimum in O(L log L) a task, L the length of its lists.
//
// A plan's traffic knows its sizes only through the numbers of tiles, and a larger tile of the same number only fills the buffer. So
//   Tk matters through nK == 1 alone: its smallest candidate, or the smallest one that holds K.
//   K in several tiles: of each number of row tiles the smallest Tm, of each number of column tiles the smallest Tn. For a Tm the fewest column tiles that fit are best (A moves
//     once for each), and the Tn that reaches falls as Tm grows: one walk along both sorted lists meets every pair that can be best.
//   K whole: A moves once. N whole too, with the smallest Tm: nothing moves twice. N in several tiles: their number does not matter, so the smallest Tn, and the fewest row tiles that fit.
// Whatever ties in traffic is among the plans compared, since the optimum has the smallest candidate of its number of tiles on every axis. Three plans and one walk a task.
//
// Bound: the plans are those of an enumeration, so no score goes beyond. Time is that of sorting short lists: 1.2 us a task of the standard batch on one Zen 4 core (the range checks and the
// baseline's plan take 0.3 us), 0.3 ms a task of `long`, where comparing every pair of Tm and Tn takes 110 ms.
#include <algorithm>
#include <vector>

#include "kernels/compiler/gemm_tile_size_planner/gemm_tile_size_planner.h"

namespace faibench::gemm_tile_size_planner::cpu {
namespace {

struct Plan {
  std::int64_t traffic, footprint, tm, tn, tk;
  auto operator<=>(const Plan&) const = default;
};

struct Problem {
  std::int64_t M, N, K, most_elements;  // that fit the buffer

  [[nodiscard]] static std::int64_t footprint(std::int64_t tm, std::int64_t tn, std::int64_t tk) { return tm * tk + tk * tn + tm * tn; }
  /// Compares in elements: bytes are the same multiple of them for every plan.
  void offer(Plan& best, std::int64_t times_a, std::int64_t times_b, std::int64_t tm, std::int64_t tn, std::int64_t tk) const {
    const std::int64_t needed = footprint(tm, tn, tk);
    if (needed > most_elements) return;
    best = std::min(best, Plan{M * K * times_a + K * N * times_b + M * N, needed, tm, tn, tk});
  }
};

std::int64_t tiles_of(std::int64_t extent, std::int64_t tile) {
  return (static_cast<std::uint32_t>(extent) + static_cast<std::uint32_t>(tile) - 1) / static_cast<std::uint32_t>(tile);  // both are at most 2^18
}

struct Tile {
  std::int64_t size, count;
};

/// The smallest candidate of each number of tiles, sizes ascending.
void distinct(std::int64_t extent, const std::int64_t* first, const std::int64_t* last, std::vector<std::int64_t>& sorted, std::vector<Tile>& tiles) {
  sorted.assign(first, last);
  std::sort(sorted.begin(), sorted.end());
  tiles.clear();
  for (const std::int64_t size : sorted)
    if (const std::int64_t count = tiles_of(extent, size); tiles.empty() || tiles.back().count != count) tiles.push_back({size, count});
}

struct Scratch {
  std::vector<std::int64_t> sorted;
  std::vector<Tile> rows, columns;
};

struct Axis {
  const std::int64_t *first, *last;
  [[nodiscard]] std::int64_t smallest() const { return *std::min_element(first, last); }
  /// The smallest candidate that is at least `extent`, 0 if there is none.
  [[nodiscard]] std::int64_t smallest_whole(std::int64_t extent) const {
    std::int64_t found = 0;
    for (const std::int64_t* at = first; at != last; ++at)
      if (*at >= extent && (found == 0 || *at < found)) found = *at;
    return found;
  }
};

Plan plan(const Problem& p, const Axis& m, const Axis& n, const Axis& k, Scratch& scratch) {
  Plan best{INT64_MAX, 0, 0, 0, 0};
  if (const std::int64_t tk = k.smallest_whole(p.K); tk > 0) {
    const std::int64_t tm = m.smallest(), tn = n.smallest();
    if (const std::int64_t whole = n.smallest_whole(p.N); whole > 0) p.offer(best, 1, 1, tm, whole, tk);
    if (tn < p.N) {
      // The largest Tm that fits gives the fewest row tiles; then the smallest of as many.
      std::int64_t fewest = INT64_MAX, chosen = 0;
      for (const std::int64_t* at = m.first; at != m.last; ++at) {
        if (Problem::footprint(*at, tn, tk) > p.most_elements) continue;
        const std::int64_t count = tiles_of(p.M, *at);
        if (count > fewest || (count == fewest && *at >= chosen)) continue;
        fewest = count;
        chosen = *at;
      }
      if (chosen > 0) p.offer(best, 1, fewest, chosen, tn, tk);
    }
  }
  if (const std::int64_t tk = k.smallest(); tk < p.K) {
    distinct(p.M, m.first, m.last, scratch.sorted, scratch.rows);
    distinct(p.N, n.first, n.last, scratch.sorted, scratch.columns);
    std::size_t left = scratch.columns.size();  // columns[left - 1] is the largest that may still fit
    for (const Tile& row : scratch.rows) {
      while (left > 0 && Problem::footprint(row.size, scratch.columns[left - 1].size, tk) > p.most_elements) --left;
      if (left == 0) break;
      p.offer(best, scratch.columns[left - 1].count, row.count, row.size, scratch.columns[left - 1].size, tk);
    }
  }
  return best;
}

}  // namespace

void plan_tiling(View<const std::int64_t, 2> problem, View<const std::int32_t, 1> elem_bytes, Ints tm_cand, Ints tm_offsets, Ints tn_cand, Ints tn_offsets, Ints tk_cand, Ints tk_offsets,
                 std::int64_t buffer_bytes, View<std::int64_t, 2> tiles) {
  const std::int64_t count = problem.extent(0);
  const auto axis = [](Ints candidates, Ints offsets, std::int64_t task) { return Axis{candidates.data() + offsets[task], candidates.data() + offsets[task + 1]}; };
#pragma omp parallel if (tm_cand.size() + tn_cand.size() + tk_cand.size() > 4000)  // less is done before a second thread is awake
  {
    Scratch scratch;
#pragma omp for schedule(dynamic, 1 + count / 256)
    for (std::int64_t i = 0; i < count; ++i) {
      const Problem p{problem(i, 0), problem(i, 1), problem(i, 2), buffer_bytes / elem_bytes[i]};
      const Plan best = plan(p, axis(tm_cand, tm_offsets, i), axis(tn_cand, tn_offsets, i), axis(tk_cand, tk_offsets, i), scratch);
      tiles(i, 0) = best.tm;
      tiles(i, 1) = best.tn;
      tiles(i, 2) = best.tk;
    }
  }
}

}  // namespace faibench::gemm_tile_size_planner::cpu
