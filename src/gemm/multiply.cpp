// Packed panels and a register tile, as in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), arranged for threads that never wait
// for each other.
//
// Idea. The product is cut into items of some 300 rows and 500 columns, at least one a thread, which take them from packing to finishing: what is packed twice is
// little beside the product, and there is no barrier. An item walks k in blocks of up to 352:
//   a's rows          packed as rows, so that no transposition is needed: their pitch is known to the compiler and the tile broadcasts from 14 fixed offsets; they stay in L2
//   b's columns       packed 96 at a time into panels of 32, a few rows between any two register tiles of the group before, fetched one tile earlier
//   the tile          14 x 32 sums in 28 registers (AVX2: 6 x 16), 28 fused multiply-adds for 16 loads; rows are shared out evenly, so that 256 are 19 tiles of 13 or 14
//   unfinished sums   in scratch, tile after tile, up to 0.75 MB an item; the last block of k hands them to the caller's finishing step
// Up to 40 rows nothing of b is packed (stream-inl.h). k is never padded; columns are, with zeros, but only lanes that nobody keeps see them: Inf*0 stays there.
//
// Bound. Multiply-adds. Measured on two Zen 4 cores (peak 118 GFLOP/s each, 1 MB of L2 each, other programs around, best of 40, inputs in 4 KiB pages out of L3),
// side by side with OpenBLAS 0.3.21, copying C included: 256 x 1024 x 1024 2.56 to 2.75 ms, 83 to 90 % of the peak, 1.2 to 1.3 times its speed; 1000^3 9.6 ms, 1.2
// to 1.4 times; 1 x 4096 x 4096 2.1 ms (32 GB/s), 2.1 times; 7 x 11008 x 4096 5.4 to 6.0 ms (30 GB/s), 2.4 to 3 times. The tiles alone run at 93 % of the peak;
// packing a takes 2.5 %, packing b 3 to 4 %, finishing 2.5 %.
//
// Tried and lost at 256 x 1024 x 1024. Packing one panel of 32 columns at a time, from prefetched lines or within the first row block's tile: 2.95 ms, rows of b are
// a page apart and every visit was a TLB miss (with huge pages under the inputs: 2.5 ms). Groups of 32, 64, 128, 160 and 256 columns: 2.72, 2.70, 2.87, 2.92, 2.94
// (more than 96 columns, 4 KiB apart, do not fit the sets of L2 they share). Blocks of k of 192 and 320: 2 to 3 % slower; items of 256 columns: 4 %; of 768: 4 %.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm/multiply.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include <algorithm>

#include <omp.h>

#include "gemm/group-inl.h"
#include "gemm/pack-inl.h"
#include "gemm/problem.h"
#include "gemm/stream-inl.h"
#include "gemm/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::gemm::HWY_NAMESPACE {

TileShape shape_of_tile() { return tile_shape; }

/// Rows [row, row + rows) of all terms' a, inner positions [k, k + n), in rows of a_pitch.
void pack_rows(const Problem& p, std::int64_t row, std::int64_t rows, std::int64_t k, std::int64_t n, float* to) {
  for_each_piece(p.terms, k, n, [&](const Term& term, std::int64_t first, std::int64_t count, std::int64_t at) {
    pack_any(term.a, row, rows, first, count, to + at, a_pitch);
  });
}

/// Rows [row, row + count) of where a finishing step's results go, and of what it reads there: both streams of a fetch.
void fetch_results(const Finish& finish, std::int64_t row, std::int64_t column, Fetch& fetch) {
  const auto at = [&](const Touched& t) { return static_cast<const char*>(t.data) + (row * t.stride + column) * t.element; };
  const Touched &first = finish.touches[0], &second = finish.touches[1];
  if (first.data) fetch.at = at(first), fetch.stride = first.stride * first.element;
  if (second.data) fetch.other = at(second), fetch.other_stride = second.stride * second.element;
}

void multiply_item(const Problem& p, std::int64_t row_item, std::int64_t column_item, float* scratch) {
  const std::int64_t first_row = p.M * row_item / p.row_cuts, rows = p.M * (row_item + 1) / p.row_cuts - first_row;
  const std::int64_t first_column = std::min(p.N, column_item * p.item_columns), columns = std::min(p.N, first_column + p.item_columns) - first_column;
  if (rows == 0 || columns == 0) return;
  if (p.stream_k > 0) return stream_item(p, first_column, columns, scratch);
  const std::int64_t group_floats = most_k * std::min(p.item_columns, group_columns);
  float* const a = scratch;                                                 // (rows, a_pitch)
  float* const b[] = {a + p.item_rows * a_pitch, a + p.item_rows * a_pitch + group_floats};  // panels of this group and of the next
  float* const sums = b[1] + group_floats;                                  // (panels, rows, panel)
  const std::int64_t row_blocks = (rows + tile_shape.rows - 1) / tile_shape.rows, k_blocks = std::max<std::int64_t>(1, (p.K + most_k - 1) / most_k);
  const std::int64_t k_step = std::min(most_k, ((p.K + k_blocks - 1) / k_blocks + 15) / 16 * 16);
  const auto group_at = [&](std::int64_t j, std::int64_t k, int side) {
    return Group(p, first_column + j, std::min(group_columns, columns - j), k, std::min(k_step, p.K - k), b[side]);
  };
  Group group = group_at(0, 0, 0);
  group.pack_share(0, 1);
  int side = 0;
  for (std::int64_t k = 0; k < p.K || k == 0; k += k_step) {
    const std::int64_t n = std::min(k_step, p.K - k);
    const bool last = k + n >= p.K;
    pack_rows(p, first_row, rows, k, n, a);
    for (std::int64_t j = 0; j < columns; j += group_columns) {
      const bool same_k = j + group_columns < columns, ends = last && !same_k;
      Group next;
      if (!ends) next = same_k ? group_at(j + group_columns, k, 1 - side) : group_at(0, k + n, 1 - side);
      // The next group is packed during all panels but the last one, which fetches where its results go.
      const std::int64_t panels = group.panels(), shares = std::max<std::int64_t>(1, panels - 1) * row_blocks;
      std::int64_t share = 0;
      for (std::int64_t index = 0; index < panels; ++index) {
        const Panel panel = group.panel(index);
        for (std::int64_t block = 0; block < row_blocks; ++block) {
          const auto row_of = [&](std::int64_t block) { return rows * block / row_blocks; };
          const std::int64_t r = row_of(block), count = row_of(block + 1) - r;
          Fetch fetch;
          if (!ends && share < shares) {
            next.pack_share(share, shares);
            next.fetch_share(++share, shares, fetch);
          }
          if (last && index + 1 == panels && block + 1 < row_blocks) fetch_results(p.finish, first_row + row_of(block + 1), group.column(), fetch);
          if (last && index + 2 == panels && block + 1 == row_blocks) fetch_results(p.finish, first_row, group.column(), fetch);
          const auto sums_of = [&](std::int64_t index, std::int64_t width) { return sums + (j + index * tile_shape.columns) * rows + r * width; };
          tile_function(count, panel.width / lanes)(a + r * a_pitch, panel.data, n, sums_of(index, panel.width), k == 0, fetch);
          if (!last || index + 1 < panels) continue;
          for (std::int64_t i = 0; i < panels; ++i) {
            const Panel done = group.panel(i);
            p.finish.take(Tile{first_row + r, group.column() + i * tile_shape.columns, count, done.kept, sums_of(i, done.width), done.width});
          }
        }
      }
      group = next;
      side = 1 - side;
    }
    if (n == 0) break;
  }
}

}  // namespace faibench::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::gemm {
namespace {

HWY_EXPORT(shape_of_tile);
HWY_EXPORT(multiply_item);

std::int64_t up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }
std::int64_t cuts(std::int64_t n, std::int64_t most) { return std::max<std::int64_t>(1, (n + most - 1) / most); }

/// Cuts the product into items: few enough rows and columns that an item's panels and sums fit a second-level cache and the workspace, and as many items as the threads
/// share evenly.
struct Cutting {
  std::int64_t rows, columns, row_cuts, column_cuts, floats;
  int threads;
};
Cutting cut(std::int64_t M, std::int64_t N, const TileShape& tile, int threads, std::int64_t limit) {
  constexpr std::int64_t least = 256 << 10;
  threads = static_cast<int>(std::clamp<std::int64_t>(limit / least, 1, threads));
  std::int64_t most_rows = 26 * 14, most_columns = 512;
  const auto bytes = [&] { return up(scratch_floats(std::min(M, most_rows), std::min(up(N, tile.columns), most_columns)), 16) * 4; };
  while (bytes() * threads > limit && (most_rows > tile.rows || most_columns > tile.columns)) {
    if (most_columns > 2 * most_rows && most_columns > tile.columns) most_columns = up(most_columns / 2, tile.columns);
    else if (most_rows > tile.rows) most_rows = up(most_rows / 2, tile.rows);
    else most_columns = up(most_columns / 2, tile.columns);
  }
  Cutting c{};
  c.row_cuts = cuts(M, most_rows);
  c.column_cuts = cuts(N, most_columns);
  const std::int64_t enough = std::min<std::int64_t>(threads, cuts(M, tile.rows) * cuts(N, tile.columns));
  for (std::int64_t tries = 0; tries < 4 * threads; ++tries) {
    const std::int64_t items = c.row_cuts * c.column_cuts;
    if (items >= enough && (items % threads == 0 || items > 8 * threads)) break;
    if (up(N, tile.columns) / c.column_cuts >= M / c.row_cuts && c.column_cuts < cuts(N, tile.columns)) ++c.column_cuts;
    else if (c.row_cuts < cuts(M, tile.rows)) ++c.row_cuts;
    else break;
  }
  c.rows = cuts(M, c.row_cuts);
  c.columns = up(cuts(N, c.column_cuts), tile.columns);
  c.column_cuts = cuts(N, c.columns);
  c.floats = up(scratch_floats(c.rows, c.columns), 16);
  c.threads = static_cast<int>(std::min<std::int64_t>(threads, c.row_cuts * c.column_cuts));
  return c;
}

/// For few rows: a part of the columns each, two for a thread, so that one that is late matters less.
Cutting cut_stream(std::int64_t M, std::int64_t N, std::int64_t K, int threads, std::int64_t limit, std::int64_t& stream_k) {
  constexpr std::int64_t unit = 64, most_floats = 128 << 10;
  Cutting c{};
  const std::int64_t floats = std::min(most_floats, limit / 4 / threads) * 3 / 8;  // for the sums, and for a
  c.rows = M;
  c.row_cuts = 1;
  c.columns = std::max(unit, std::min(up(cuts(N, 2 * threads), unit), floats / M / unit * unit));
  c.column_cuts = cuts(N, c.columns);
  stream_k = std::max<std::int64_t>(unit, std::min(up(K, unit), floats / M / unit * unit));
  c.floats = up(stream_scratch_floats(M, c.columns, stream_k), 16);
  c.threads = static_cast<int>(std::min<std::int64_t>({threads, c.column_cuts, std::max<std::int64_t>(1, limit / 4 / c.floats)}));
  return c;
}

}  // namespace

void multiply(std::int64_t M, std::int64_t N, std::span<const Term> terms, const Finish& finish, Workspace& workspace) {
  if (M <= 0 || N <= 0) return;
  std::int64_t K = 0;
  for (const Term& term : terms) K += term.k;
  constexpr double least = 1 << 19;  // multiply-adds of a thread: some 10 us, below which waking it costs more than it brings
  const double threads = std::clamp(static_cast<double>(M) * static_cast<double>(N) * static_cast<double>(K) / least, 1.0, static_cast<double>(omp_get_max_threads()));
  std::int64_t stream_k = 0;
  const Cutting c = M <= most_stream_rows ? cut_stream(M, N, K, static_cast<int>(threads), workspace.limit(), stream_k)
                                          : cut(M, N, HWY_DYNAMIC_DISPATCH(shape_of_tile)(), static_cast<int>(threads), workspace.limit());
  const Problem problem{M, N, K, terms, finish, c.row_cuts, c.column_cuts, c.rows, c.columns, stream_k};
  float* const scratch = workspace.at_least(c.floats * 4 * c.threads);
  const auto item = HWY_DYNAMIC_DISPATCH(multiply_item);
  const std::int64_t items = c.row_cuts * c.column_cuts;
  if (c.threads == 1) {
    for (std::int64_t i = 0; i < items; ++i) item(problem, i % c.row_cuts, i / c.row_cuts, scratch);
    return;
  }
#pragma omp parallel num_threads(c.threads)
  {
    float* const mine = scratch + c.floats * omp_get_thread_num();
#pragma omp for schedule(dynamic)
    for (std::int64_t i = 0; i < items; ++i) item(problem, i % c.row_cuts, i / c.row_cuts, mine);
  }
}

}  // namespace faibench::gemm
#endif
