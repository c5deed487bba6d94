// Squares of 16 (AVX-512) or 8 (AVX2) are transposed in registers and leave as whole cache lines with non-temporal stores: straight from the registers where every row of y starts a
// line and a vector is one, otherwise through a packed buffer in L1, in which what does not fill a line waits for the tile below.
// Bound: a copy of the same bytes with non-temporal stores (8 bytes an element).
// Reading and writing must overlap, and the prefetchers of the hardware follow 16 rows of x at once but not 64 (reads alone on two cores, ms: one row 6.7, 16 rows 2.7, 32 rows 4.1,
// 64 rows 3.3, in plain order 3.3). So a tile of 64 x 256 leaves column by column of squares, 256 bytes of a row of y soon after each other, and meanwhile brings the next tile into L2,
// line by line of 16 rows at once. Nothing but x passes from L2 to L1.
// Measured at 8192 x 4096 on two Zen 4 cores, in one run, as share of that copy: 0.90 to 0.93, through the buffer 0.87. In the same structure: without prefetching 0.55; tiles of 128 or
// 512 columns 0.89; loads of 4 elements that spare half of the shuffles 0.92. Other structures: whole tiles in a buffer in L2 0.69 (0.71 where the next tile is prefetched while it is
// written out), single lines of 64 bytes down 1024 rows 0.75. Pages of 2 MiB changed none of these.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linalg/coalesced_matrix_transpose/cpu.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#include <cstring>

#include "kernels/linalg/coalesced_matrix_transpose/coalesced_matrix_transpose.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::coalesced_matrix_transpose::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The elements move as integers: no instruction here may touch a NaN's payload.
using Word = std::uint32_t;

constexpr std::int64_t line = 16;            // elements of a cache line
constexpr std::int64_t tile_rows = 64;       // of x, so 256 bytes of each row of y at a time
constexpr std::int64_t tile_columns = 256;   // of x: two tiles take an eighth of an L2 of 1 MiB
constexpr std::int64_t block_rows = 1024;    // what one thread takes at a time: 1024 x 256
constexpr std::int64_t pitch = line + tile_rows;  // of a buffer row: what waits from the tile above, the tile
constexpr std::int64_t streamed_bytes = 4 << 20;  // smaller results stay in the caches

#if HWY_TARGET == HWY_SCALAR

constexpr std::int64_t lanes = 16;

template <bool streamed>
inline void transpose_square(const Word* from, std::int64_t stride, std::int64_t rows, Word* to, std::int64_t to_stride) {
  for (std::int64_t j = 0; j < lanes; ++j)
    for (std::int64_t i = 0; i < rows; ++i) to[j * to_stride + i] = from[i * stride + j];
}
inline void stream_line(const Word* from, Word* to) { std::memcpy(to, from, 64); }

#else

constexpr hn::ScalableTag<Word> d;
constexpr hn::Repartition<std::uint64_t, decltype(d)> d64;
using V = hn::Vec<decltype(d)>;
constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(d));

HWY_INLINE V pairs_lower(V a, V b) { return hn::BitCast(d, hn::InterleaveLower(d64, hn::BitCast(d64, a), hn::BitCast(d64, b))); }
HWY_INLINE V pairs_upper(V a, V b) { return hn::BitCast(d, hn::InterleaveUpper(d64, hn::BitCast(d64, a), hn::BitCast(d64, b))); }

/// Rows a, b, c, d4 of each 4x4 block become its columns, in place.
HWY_INLINE void transpose_blocks(V& r0, V& r1, V& r2, V& r3) {
  const V a = hn::InterleaveLower(d, r0, r1), b = hn::InterleaveUpper(d, r0, r1), c = hn::InterleaveLower(d, r2, r3), e = hn::InterleaveUpper(d, r2, r3);
  r0 = pairs_lower(a, c);
  r1 = pairs_upper(a, c);
  r2 = pairs_lower(b, e);
  r3 = pairs_upper(b, e);
}

template <bool streamed>
HWY_INLINE void put(V row, Word* HWY_RESTRICT to) {
  if constexpr (streamed) hn::Stream(row, d, to);
  else hn::StoreU(row, d, to);
}

/// from[rows, lanes] to the first `rows` columns of the rows of `to`, whose other columns up to `lanes` are written too. Streamed rows must start a vector.
template <bool streamed>
HWY_INLINE void transpose_square(const Word* HWY_RESTRICT from, std::int64_t stride, std::int64_t rows, Word* HWY_RESTRICT to, std::int64_t to_stride) {
  const auto row = [=](std::int64_t i) { return hn::LoadU(d, from + HWY_MIN(i, rows - 1) * stride); };
#if HWY_TARGET == HWY_AVX2
  V r[8];
  for (int i = 0; i < 8; ++i) r[i] = row(i);
  transpose_blocks(r[0], r[1], r[2], r[3]);
  transpose_blocks(r[4], r[5], r[6], r[7]);
  for (int i = 0; i < 4; ++i) {
    put<streamed>(hn::ConcatLowerLower(d, r[i + 4], r[i]), to + i * to_stride);
    put<streamed>(hn::ConcatUpperUpper(d, r[i + 4], r[i]), to + (i + 4) * to_stride);
  }
#else
  V r[16];
  for (int i = 0; i < 16; ++i) r[i] = row(i);
  for (int i = 0; i < 16; i += 4) transpose_blocks(r[i], r[i + 1], r[i + 2], r[i + 3]);
  for (int i = 0; i < 4; ++i) {  // the 4x4 blocks of rows i, i+4, i+8, i+12: Highway has no name for a shuffle of 128-bit blocks of two vectors
    const __m512i a = _mm512_shuffle_i32x4(r[i].raw, r[i + 4].raw, 0x88), b = _mm512_shuffle_i32x4(r[i].raw, r[i + 4].raw, 0xdd);
    const __m512i c = _mm512_shuffle_i32x4(r[i + 8].raw, r[i + 12].raw, 0x88), e = _mm512_shuffle_i32x4(r[i + 8].raw, r[i + 12].raw, 0xdd);
    put<streamed>(V{_mm512_shuffle_i32x4(a, c, 0x88)}, to + i * to_stride);
    put<streamed>(V{_mm512_shuffle_i32x4(b, e, 0x88)}, to + (i + 4) * to_stride);
    put<streamed>(V{_mm512_shuffle_i32x4(a, c, 0xdd)}, to + (i + 8) * to_stride);
    put<streamed>(V{_mm512_shuffle_i32x4(b, e, 0xdd)}, to + (i + 12) * to_stride);
  }
#endif
}

HWY_INLINE void stream_line(const Word* HWY_RESTRICT from, Word* HWY_RESTRICT to) {
  for (std::int64_t k = 0; k < line; k += lanes) hn::Stream(hn::LoadU(d, from + k), d, to + k);
}

#endif

/// x[rows, 16], at most 16 rows, transposed to buffer rows of `pitch`; what lies behind them there is overwritten.
HWY_INLINE void fill(const Word* HWY_RESTRICT x, std::int64_t N, std::int64_t rows, Word* HWY_RESTRICT buffer) {
  for (std::int64_t i = 0; i < rows; i += lanes)
    for (std::int64_t j = 0; j < line; j += lanes) transpose_square<false>(x + i * N + j, N, HWY_MIN(lanes, rows - i), buffer + j * pitch + i, pitch);
}

/// The same for fewer than 16 columns.
HWY_INLINE void fill_part(const Word* x, std::int64_t N, std::int64_t rows, std::int64_t columns, Word* buffer) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) buffer[j * pitch + i] = x[i * N + j];
}

/// The tile of x that comes after the one at work. Brought into L2 a band of 16 rows after the other, one line of each of them at a time.
struct NextTile {
  const Word* at = nullptr;
  std::int64_t N = 0, rows = 0, columns = 0, column = 0;

  /// One line each of 16 rows; nothing when all whole bands were brought.
  HWY_INLINE void bring() {
    if (rows < line) return;
    for (std::int64_t i = 0; i < line; ++i) __builtin_prefetch(at + i * N, 0, 2);
    at += line;
    column += line;
    if (column >= columns) {
      at += line * N - column;
      column = 0;
      rows -= line;
    }
  }
};

/// How rows of y are written.
enum class Out {
  cached,  ///< as they come
  lines,   ///< streamed; every row starts a line
  ragged   ///< streamed as whole lines; what precedes a tile in its line waits from the tile above
};

/// A row of a square is a whole line of y, which then needs no buffer.
template <Out out>
constexpr bool direct = out == Out::lines && lanes == line;

/// Where in its line of memory an element lies.
HWY_INLINE std::int64_t place_in_line(const Word* element) { return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(element) / 4) % line; }

/// The four lines of a row of y that a whole tile completes: from the buffer to row[i, i + 64), earlier by what waited from the tile above; returns how much that was.
template <Out out>
HWY_INLINE std::int64_t drain_lines(const Word* HWY_RESTRICT from, Word* HWY_RESTRICT row) {
  const std::int64_t waited = out == Out::ragged ? place_in_line(row) : 0;
  for (std::int64_t k = 0; k < tile_rows; k += line) stream_line(from - waited + k, row - waited + k);
  return waited;
}

/// row[0, length) from the buffer, whatever the length. `first` and `last`: nothing waits before or after.
template <Out out>
HWY_INLINE void drain_part(const Word* from, Word* waiting, Word* row, std::int64_t length, bool first, bool last) {
  std::int64_t k = 0;
  if constexpr (out == Out::ragged) {
    const std::int64_t waited = place_in_line(row);
    if (waited != 0 && first) {
      k = HWY_MIN(line - waited, length);
      std::memcpy(row, from, static_cast<std::size_t>(k) * 4);
    } else {
      k = -waited;
    }
  }
  if constexpr (out != Out::cached)
    for (; k + line <= length; k += line) stream_line(from + k, row + k);
  if (k == length) return;
  if (out != Out::ragged || last) std::memcpy(row + k, from + k, static_cast<std::size_t>(length - k) * 4);
  else std::memcpy(waiting, from + length - line, 64);
}

/// Rows and columns of x that are taken at a time; at most a tile's columns.
struct Block {
  std::int64_t row = 0, row_end = 0, column = 0, columns = 0;
};

/// `next`: the block that follows. `waiting`: `line` elements for each column of the block.
template <Out out>
void transpose_block(const Word* x, Word* y, std::int64_t M, std::int64_t N, const Block& block, const Block& next, Word* waiting) {
  HWY_ALIGN Word buffer[line * pitch];
  Word* const tile = buffer + line;
  for (std::int64_t i = block.row; i < block.row_end; i += tile_rows) {
    const std::int64_t rows = HWY_MIN(tile_rows, block.row_end - i);
    const bool first = i == block.row, last = i + rows == block.row_end;
    const std::int64_t next_row = last ? next.row : i + rows;
    NextTile ahead{x + next_row * N + (last ? next : block).column, N, HWY_MIN(tile_rows, (last ? next : block).row_end - next_row), (last ? next : block).columns};
    for (std::int64_t j = 0; j < block.columns; j += line) {
      const Word* const from = x + i * N + block.column + j;
      Word* const to = y + (block.column + j) * M + i;
      Word* const wait = waiting + j * line;
      const std::int64_t columns = HWY_MIN(line, block.columns - j);
      if (out == Out::ragged && !first)
        for (std::int64_t c = 0; c < columns; ++c) std::memcpy(buffer + c * pitch, wait + c * line, 64);
      if (direct<out> && columns == line) {
        for (std::int64_t r = 0; r < rows; r += line) {
          ahead.bring();  // as many lines as are read here, a few at a time: more at once would stall
          transpose_square<true>(from + r * N, N, line, to + r, M);
        }
        continue;
      }
      const bool whole = rows == tile_rows && columns == line;
      if (whole && out != Out::cached) {  // bounds that the compiler knows: the fewer instructions, the more lines are under way at once
        for (std::int64_t r = 0; r < tile_rows; r += line) {
          ahead.bring();
          fill(from + r * N, N, line, tile + r);
        }
      } else {
        for (std::int64_t r = 0; r < rows; r += line) {
          const std::int64_t band = HWY_MIN(line, rows - r);
          if (columns == line) fill(from + r * N, N, band, tile + r);
          else fill_part(from + r * N, N, band, columns, tile + r);
        }
      }
      if (whole && (out == Out::lines || (out == Out::ragged && !first && !last))) {
        for (std::int64_t c = 0; c < line; ++c)
          if (drain_lines<out>(tile + c * pitch, to + c * M) != 0) std::memcpy(wait + c * line, tile + c * pitch + tile_rows - line, 64);
      } else {
        for (std::int64_t c = 0; c < columns; ++c) drain_part<out>(tile + c * pitch, wait + c * line, to + c * M, rows, first, last);
      }
    }
  }
}

template <Out out>
void transpose_as(const Word* x, Word* y, std::int64_t M, std::int64_t N) {
  const std::int64_t across = (N + tile_columns - 1) / tile_columns, blocks = (M + block_rows - 1) / block_rows * across;
  const auto block = [=](std::int64_t index) {
    const std::int64_t row = index / across * block_rows, column = index % across * tile_columns;
    return index < blocks ? Block{row, HWY_MIN(M, row + block_rows), column, HWY_MIN(tile_columns, N - column)} : Block{};
  };
#pragma omp parallel if (M * N >= 1 << 16)  // smaller ones end before a second thread is awake
  {
    HWY_ALIGN Word waiting[tile_columns * line];
#pragma omp for schedule(static)
    for (std::int64_t index = 0; index < blocks; ++index) transpose_block<out>(x, y, M, N, block(index), block(index + 1), waiting);
    hwy::FlushStream();
  }
}

void transpose(const Word* x, Word* y, std::int64_t M, std::int64_t N) {
  const bool large = M * N * 4 >= streamed_bytes;
  if (large && M % line == 0 && place_in_line(y) == 0) transpose_as<Out::lines>(x, y, M, N);
  else if (large && M >= tile_rows) transpose_as<Out::ragged>(x, y, M, N);
  else transpose_as<Out::cached>(x, y, M, N);
}

}  // namespace faibench::coalesced_matrix_transpose::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::coalesced_matrix_transpose::cpu {

void transpose(View<const float, 2> x, View<float, 2> y) {
  if (x.empty()) return;
  HWY_EXPORT(transpose);
  HWY_DYNAMIC_DISPATCH(transpose)(reinterpret_cast<const std::uint32_t*>(x.data()), reinterpret_cast<std::uint32_t*>(y.data()), x.extent(0), x.extent(1));
}

}  // namespace faibench::coalesced_matrix_transpose::cpu
#endif
