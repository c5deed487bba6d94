// (idea, bound and what was tried: at the head of the final version)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm/multiply.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include <algorithm>

#include <omp.h>

#include "gemm/pack-inl.h"
#include "gemm/problem.h"
#include "gemm/stream-inl.h"
#include "gemm/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::gemm::HWY_NAMESPACE {

TileShape shape_of_tile() { return tile_shape; }

/// Rows [row, row + rows) of all terms' a, inner positions [k, k + n), in rows of a_pitch.
void pack_rows(const Problem& p, std::int64_t row, std::int64_t rows, std::int64_t k, std::int64_t n, float* to) {
  for_each_piece(p.terms, k, n, [&](const Term& term, std::int64_t first, std::int64_t count, std::int64_t at) { pack_any(term.a, row, rows, first, count, to + at, a_pitch); });
}

/// Columns [column, column + columns) of all terms' b, inner positions [k, k + n), in rows of `width`; zeros up to `width`, which only lanes that nobody keeps will see.
void pack_panel(const Problem& p, std::int64_t column, std::int64_t columns, std::int64_t width, std::int64_t k, std::int64_t n, float* to) {
  if (columns < width)
    for (std::int64_t i = 0; i < n; ++i) std::fill(to + i * width + columns, to + (i + 1) * width, 0.0f);
  for_each_piece(p.terms, k, n, [&](const Term& term, std::int64_t first, std::int64_t count, std::int64_t at) {
    pack_any(term.b, first, count, column, columns, to + at * width, width);
  });
}

/// The lines of the next panel of b, for a row block's share of the time.
struct NextPanel {
  const char* base = nullptr;
  std::int64_t stride = 0, element = 4;
  bool transposed = false;

  NextPanel(const Problem& p, std::int64_t column, std::int64_t k) {
    for_each_piece(p.terms, k, 1, [&](const Term& term, std::int64_t first, std::int64_t, std::int64_t) {
      element = size_of(term.b.dtype);
      stride = term.b.stride * element;
      transposed = term.b.transposed;
      base = static_cast<const char*>(term.b.data) + (transposed ? column * stride + first * element : first * stride + column * element);
    });
  }
  /// For the row block of this number: a quarter of the k steps' rows, or of the columns' lines.
  [[nodiscard]] Fetch share(std::int64_t block, std::int64_t k) const {
    if (transposed) return {base + block * 2 * 128, stride, 128};
    return {base + block * (k / 4) * stride, stride, 32 * stride};
  }
};

void multiply_item(const Problem& p, std::int64_t row_item, std::int64_t column_item, float* scratch) {
  const std::int64_t first_row = p.M * row_item / p.row_cuts, rows = p.M * (row_item + 1) / p.row_cuts - first_row;
  const std::int64_t first_column = std::min(p.N, column_item * p.item_columns), columns = std::min(p.N, first_column + p.item_columns) - first_column;
  if (rows == 0 || columns == 0) return;
  if (p.stream_k > 0) return stream_item(p, first_column, columns, scratch);
  float* const a = scratch;                                     // (rows, a_pitch)
  float* const b = a + (p.item_rows + 1) * a_pitch;             // (most_k, panel)
  float* const sums = b + most_k * tile_shape.columns;          // (panels, rows, panel)
  const std::int64_t row_blocks = (rows + tile_shape.rows - 1) / tile_shape.rows, k_blocks = std::max<std::int64_t>(1, (p.K + most_k - 1) / most_k);
  const std::int64_t k_step = ((p.K + k_blocks - 1) / k_blocks + 15) / 16 * 16;
  for (std::int64_t k = 0; k < p.K || k == 0; k += k_step) {
    const std::int64_t n = std::min(k_step, p.K - k);
    const bool last = k + n >= p.K;
    pack_rows(p, first_row, rows, k, n, a);
    for (std::int64_t j = 0; j < columns; j += tile_shape.columns) {
      const std::int64_t kept = std::min(tile_shape.columns, columns - j), vectors = kept > lanes ? 2 : 1, width = vectors * lanes;
      pack_panel(p, first_column + j, kept, width, k, n, b);
      const bool same_k = j + tile_shape.columns < columns;
      const NextPanel next(p, same_k ? first_column + j + tile_shape.columns : first_column, same_k || last ? k : k + n);
      for (std::int64_t block = 0; block < row_blocks; ++block) {
        const std::int64_t r = rows * block / row_blocks, count = rows * (block + 1) / row_blocks - r;
        float* const place = sums + j * rows + r * width;
        tile_function(count, vectors)(a + r * a_pitch, b, n, place, k == 0, next.share(block, n));
        if (last) p.finish(Tile{first_row + r, first_column + j, count, kept, place, width});
      }
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
  const auto bytes = [&] { return up(scratch_floats(std::min(M, most_rows), std::min(up(N, tile.columns), most_columns), tile), 16) * 4; };
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
  c.floats = up(scratch_floats(c.rows, c.columns, tile), 16);
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
