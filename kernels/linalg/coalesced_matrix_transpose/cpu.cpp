// Squares of 16 (AVX-512) or 8 (AVX2) are transposed in registers into a packed buffer, whose rows are streamed to y as whole cache lines.
// Bound: a copy of the same bytes with non-temporal stores (8 bytes an element). The buffer keeps power-of-two strides of x and y from meeting in one set of a cache;
// lines of y that a tile ends in wait in it for the next tile, so that rows of any alignment leave in whole lines.
// Measured at 8192 x 4096 on one Zen 4 core, 4 KiB pages, copy with non-temporal stores 8.5 ms, memcpy 11.9 ms: tiles of 128 x 128 18.9 ms, with software prefetch or
// without (it is bounded by the misses that one core's L1 can have under way); tiles of 64 x 1024 14.7 ms, because the prefetchers of the hardware follow a row through a
// whole page. Lost: software prefetch (reads alone: 10.6 ms without, 16 rows ahead 11.6 into L2 and 17.8 into L1, 32 rows ahead 10.7), touching each row before use
// (28.7 ms), 16 or 32 rows a tile.
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

constexpr std::int64_t line = 16;             // elements of a cache line
constexpr std::int64_t tile_rows = 64;        // of x, so 256 bytes of each row of y at a time
constexpr std::int64_t tile_columns = 1024;   // of x: a whole page of each row, read by the prefetchers of the hardware
constexpr std::int64_t block_rows = 1024;     // what one thread takes at a time: 1024 x 1024 touch 2048 pages, which the second TLB level holds
constexpr std::int64_t pitch = tile_rows + 2 * line;  // of a buffer row: what waits from the tile before, the tile; no power of two
constexpr std::int64_t streamed_bytes = 4 << 20;      // smaller results stay in the caches

#if HWY_TARGET == HWY_SCALAR

constexpr std::int64_t lanes = 16;

inline void transpose_square(const Word* from, std::int64_t stride, Word* to) {
  for (std::int64_t j = 0; j < lanes; ++j)
    for (std::int64_t i = 0; i < lanes; ++i) to[j * pitch + i] = from[i * stride + j];
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
    for (std::int64_t j = 0; j < whole_columns; j += lanes) transpose_square(x + i * N + j, N, buffer + j * pitch + i);
    for (std::int64_t j = whole_columns; j < columns; ++j)
      for (std::int64_t r = i; r < i + lanes; ++r) buffer[j * pitch + r] = x[r * N + j];
  }
  for (std::int64_t i = whole_rows; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) buffer[j * pitch + i] = x[i * N + j];
}

/// Rows [i0, i1) and columns [j0, j1) of x, tile by tile down the rows. What does not fill a line of y waits in the buffer for the next tile.
template <bool streamed>
void transpose_strip(const Word* x, Word* y, std::int64_t M, std::int64_t N, std::int64_t i0, std::int64_t i1, std::int64_t j0, std::int64_t j1, Word* buffer) {
  for (std::int64_t i = i0; i < i1; i += tile_rows) {
    const std::int64_t rows = std::min(tile_rows, i1 - i), end = i + rows;
    fill(x + i * N + j0, N, rows, j1 - j0, buffer + line);
    for (std::int64_t j = j0; j < j1; ++j) {
      Word* const row = y + j * M;
      const Word* const from = buffer + (j - j0) * pitch + line;  // from[k - i] goes to row[k]
      const std::int64_t skew = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(row) / 4) % line;  // row[k] starts a line where (k + skew) % line == 0
      std::int64_t k = i == i0 ? i : i - (i + skew) % line;
      if (i == i0 && (k + skew) % line != 0) {
        const std::int64_t n = std::min(line - (k + skew) % line, end - k);
        std::memcpy(row + k, from + (k - i), static_cast<std::size_t>(n) * 4);
        k += n;
      }
      if constexpr (streamed) {
        for (; k + line <= end; k += line) stream_line(from + (k - i), row + k);
      } else {
        const std::int64_t n = std::max<std::int64_t>(0, end - k) / line * line;
        std::memcpy(row + k, from + (k - i), static_cast<std::size_t>(n) * 4);
        k += n;
      }
      if (end == i1) {
        if (k < end) std::memcpy(row + k, from + (k - i), static_cast<std::size_t>(end - k) * 4);
      } else {
        std::memcpy(buffer + (j - j0) * pitch, buffer + (j - j0) * pitch + tile_rows, 64);
      }
    }
  }
}

void transpose(const Word* x, Word* y, std::int64_t M, std::int64_t N) {
  const std::int64_t down = (M + block_rows - 1) / block_rows, across = (N + tile_columns - 1) / tile_columns;
  const bool streamed = M * N * 4 >= streamed_bytes;
#pragma omp parallel if (M * N >= 1 << 16)  // smaller ones end before a second thread is awake
  {
    const auto buffer = hwy::AllocateAligned<Word>(static_cast<std::size_t>(std::min(N, tile_columns) * pitch));
#pragma omp for schedule(static)
    for (std::int64_t block = 0; block < down * across; ++block) {
      const std::int64_t i0 = block / across * block_rows, i1 = std::min(M, i0 + block_rows);
      const std::int64_t j0 = block % across * tile_columns, j1 = std::min(N, j0 + tile_columns);
      if (streamed) transpose_strip<true>(x, y, M, N, i0, i1, j0, j1, buffer.get());
      else transpose_strip<false>(x, y, M, N, i0, i1, j0, j1, buffer.get());
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
