// Blocks of x are transposed in registers into a small packed buffer, whose rows are then streamed to y as whole cache lines.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linalg/coalesced_matrix_transpose/cpu.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/aligned_allocator.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#include <algorithm>
#include <cstring>

#include "kernels/linalg/coalesced_matrix_transpose/coalesced_matrix_transpose.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::coalesced_matrix_transpose::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The elements move as integers: no instruction here may touch a NaN's payload.
using Word = std::uint32_t;

#ifndef TILE_I
#define TILE_I 128
#define TILE_J 128
#define SEG_I 1024
#define SEG_J 1024
#define AHEAD 16
#endif
constexpr std::int64_t line = 16;                         // elements of a cache line
constexpr std::int64_t tile_rows = TILE_I, tile_columns = TILE_J;  // of x
constexpr std::int64_t block_rows = SEG_I, block_columns = SEG_J;
constexpr std::int64_t pitch = tile_rows + 2 * line;

#if HWY_TARGET == HWY_SCALAR

constexpr std::int64_t lanes = 16;

inline void transpose_square(const Word* from, std::int64_t stride, Word* to) {
  for (std::int64_t j = 0; j < lanes; ++j)
    for (std::int64_t i = 0; i < lanes; ++i) to[j * pitch + i] = from[i * stride + j];
}
inline void prefetch(const Word*) {}
inline void stream_line(const Word* from, Word* to) { std::memcpy(to, from, 64); }

#else

constexpr hn::ScalableTag<Word> d;
constexpr hn::Repartition<std::uint64_t, decltype(d)> d64;
using V = hn::Vec<decltype(d)>;
constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(d));

HWY_INLINE void prefetch(const Word* p) { hwy::Prefetch(p); }

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

HWY_INLINE void transpose_square(const Word* HWY_RESTRICT from, std::int64_t stride, Word* HWY_RESTRICT to) {
#if HWY_TARGET == HWY_AVX2
  V r[8];
  for (int i = 0; i < 8; ++i) r[i] = hn::LoadU(d, from + i * stride);
  transpose_blocks(r[0], r[1], r[2], r[3]);
  transpose_blocks(r[4], r[5], r[6], r[7]);
  for (int i = 0; i < 4; ++i) {
    hn::StoreU(hn::ConcatLowerLower(d, r[i + 4], r[i]), d, to + i * pitch);
    hn::StoreU(hn::ConcatUpperUpper(d, r[i + 4], r[i]), d, to + (i + 4) * pitch);
  }
#else
  V r[16];
  for (int i = 0; i < 16; ++i) r[i] = hn::LoadU(d, from + i * stride);
  for (int i = 0; i < 16; i += 4) transpose_blocks(r[i], r[i + 1], r[i + 2], r[i + 3]);
  for (int i = 0; i < 4; ++i) {  // the 4x4 blocks of rows i, i+4, i+8, i+12: Highway has no name for a shuffle of 128-bit blocks of two vectors
    const __m512i a = _mm512_shuffle_i32x4(r[i].raw, r[i + 4].raw, 0x88), b = _mm512_shuffle_i32x4(r[i].raw, r[i + 4].raw, 0xdd);
    const __m512i c = _mm512_shuffle_i32x4(r[i + 8].raw, r[i + 12].raw, 0x88), e = _mm512_shuffle_i32x4(r[i + 8].raw, r[i + 12].raw, 0xdd);
    hn::StoreU(V{_mm512_shuffle_i32x4(a, c, 0x88)}, d, to + i * pitch);
    hn::StoreU(V{_mm512_shuffle_i32x4(b, e, 0x88)}, d, to + (i + 4) * pitch);
    hn::StoreU(V{_mm512_shuffle_i32x4(a, c, 0xdd)}, d, to + (i + 8) * pitch);
    hn::StoreU(V{_mm512_shuffle_i32x4(b, e, 0xdd)}, d, to + (i + 12) * pitch);
  }
#endif
}

HWY_INLINE void stream_line(const Word* HWY_RESTRICT from, Word* HWY_RESTRICT to) {
  for (std::int64_t k = 0; k < line; k += lanes) hn::Stream(hn::LoadU(d, from + k), d, to + k);
}

#endif

/// x[rows, columns] of the tile, transposed, to buffer rows of `pitch`.
void fill(const Word* x, std::int64_t N, std::int64_t rows, std::int64_t columns, Word* buffer) {
  const std::int64_t whole_rows = rows / lanes * lanes, whole_columns = columns / lanes * lanes;
  for (std::int64_t i = 0; i < whole_rows; i += lanes) {
    for (std::int64_t j = 0; j < whole_columns; j += lanes) {
      if (AHEAD && j % line == 0)
        for (std::int64_t r = 0; r < lanes; ++r) prefetch(x + (i + r + AHEAD) * N + j);
      transpose_square(x + i * N + j, N, buffer + j * pitch + i);
    }
    for (std::int64_t j = whole_columns; j < columns; ++j)
      for (std::int64_t r = i; r < i + lanes; ++r) buffer[j * pitch + r] = x[r * N + j];
  }
  for (std::int64_t i = whole_rows; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) buffer[j * pitch + i] = x[i * N + j];
}

/// Rows [i0, i1) and columns [j0, j1) of x, tile by tile down the rows. What does not fill a line of y waits in the buffer for the next tile.
void transpose_strip(const Word* x, Word* y, std::int64_t M, std::int64_t N, std::int64_t i0, std::int64_t i1, std::int64_t j0, std::int64_t j1, Word* buffer) {
  for (std::int64_t i = i0; i < i1; i += tile_rows) {
    const std::int64_t rows = std::min(tile_rows, i1 - i), end = i + rows;
    fill(x + i * N + j0, N, rows, j1 - j0, buffer + line);
    for (std::int64_t j = j0; j < j1; ++j) {
      Word* const row = y + j * M;
      Word* const from = buffer + (j - j0) * pitch + line - i;  // from[k] goes to row[k]
      const std::int64_t skew = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(row) / 4) % line;  // row[k] starts a line where (k + skew) % line == 0
      std::int64_t k = i == i0 ? i : i - (i + skew) % line;
      if (i == i0 && (k + skew) % line != 0) {
        const std::int64_t n = std::min(line - (k + skew) % line, end - k);
        std::memcpy(row + k, from + k, static_cast<std::size_t>(n) * 4);
        k += n;
      }
      for (; k + line <= end; k += line) stream_line(from + k, row + k);
      if (end == i1) {
        if (k < end) std::memcpy(row + k, from + k, static_cast<std::size_t>(end - k) * 4);
      } else {
        std::memcpy(buffer + (j - j0) * pitch, buffer + (j - j0) * pitch + tile_rows, 64);
      }
    }
  }
}

void transpose(const Word* x, Word* y, std::int64_t M, std::int64_t N) {
  const std::int64_t down = (M + block_rows - 1) / block_rows, across = (N + block_columns - 1) / block_columns;
#pragma omp parallel if (M * N >= 1 << 16)
  {
    const auto room = hwy::AllocateAligned<Word>(static_cast<std::size_t>(tile_columns * pitch));
#pragma omp for schedule(static)
    for (std::int64_t block = 0; block < down * across; ++block) {
      const std::int64_t i0 = block / across * block_rows, i1 = std::min(M, i0 + block_rows);
      const std::int64_t first = block % across * block_columns, last = std::min(N, first + block_columns);
      for (std::int64_t j = first; j < last; j += tile_columns) transpose_strip(x, y, M, N, i0, i1, j, std::min(last, j + tile_columns), room.get());
    }
    hwy::FlushStream();
  }
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
