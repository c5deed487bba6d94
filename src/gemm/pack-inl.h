// Operands on their way into panels: f16 becomes f32, transposed becomes plain. Included by multiply.cpp and f64.cpp once for each instruction set.
#if defined(FAIBENCH_GEMM_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)  // Highway's guard: once a target
#ifdef FAIBENCH_GEMM_PACK_INL_H
#undef FAIBENCH_GEMM_PACK_INL_H
#else
#define FAIBENCH_GEMM_PACK_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gemm/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::gemm::HWY_NAMESPACE {

/// n elements as floats.
template <class T>
HWY_INLINE void copy_row(const T* HWY_RESTRICT from, std::int64_t n, float* HWY_RESTRICT to) {
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) store_unaligned(load_floats(from + i), to + i);
  for (; i < n; ++i) to[i] = to_float(from[i]);
}

/// lanes x lanes elements: to[c*pitch + r] = from[r*stride + c].
template <class T>
HWY_INLINE void transpose_square(const T* HWY_RESTRICT from, std::int64_t stride, float* HWY_RESTRICT to, std::int64_t pitch) {
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t c = 0; c < lanes; ++c)
    for (std::int64_t r = 0; r < lanes; ++r) to[c * pitch + r] = to_float(from[r * stride + c]);
#else
  constexpr hn::ScalableTag<float> f;
  constexpr hn::Repartition<double, decltype(f)> pairs;
  V r[lanes];
  for (int i = 0; i < lanes; ++i) r[i] = load_floats(from + i * stride);
  for (int i = 0; i < lanes; i += 4) {  // 4 x 4 blocks
    const V a = hn::InterleaveLower(f, r[i], r[i + 1]), b = hn::InterleaveUpper(f, r[i], r[i + 1]);
    const V c = hn::InterleaveLower(f, r[i + 2], r[i + 3]), e = hn::InterleaveUpper(f, r[i + 2], r[i + 3]);
    r[i] = hn::BitCast(f, hn::InterleaveLower(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, c)));
    r[i + 1] = hn::BitCast(f, hn::InterleaveUpper(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, c)));
    r[i + 2] = hn::BitCast(f, hn::InterleaveLower(pairs, hn::BitCast(pairs, b), hn::BitCast(pairs, e)));
    r[i + 3] = hn::BitCast(f, hn::InterleaveUpper(pairs, hn::BitCast(pairs, b), hn::BitCast(pairs, e)));
  }
#if HWY_TARGET == HWY_AVX2
  for (int i = 0; i < 4; ++i) {
    store_unaligned(hn::ConcatLowerLower(f, r[i + 4], r[i]), to + i * pitch);
    store_unaligned(hn::ConcatUpperUpper(f, r[i + 4], r[i]), to + (i + 4) * pitch);
  }
#else
  for (int i = 0; i < 4; ++i) {  // the blocks of rows i, i+4, i+8, i+12: Highway has no name for a shuffle of 128-bit blocks of two vectors
    const __m512 a = _mm512_shuffle_f32x4(r[i].raw, r[i + 4].raw, 0x88), b = _mm512_shuffle_f32x4(r[i].raw, r[i + 4].raw, 0xdd);
    const __m512 c = _mm512_shuffle_f32x4(r[i + 8].raw, r[i + 12].raw, 0x88), e = _mm512_shuffle_f32x4(r[i + 8].raw, r[i + 12].raw, 0xdd);
    store_unaligned(V{_mm512_shuffle_f32x4(a, c, 0x88)}, to + i * pitch);
    store_unaligned(V{_mm512_shuffle_f32x4(b, e, 0x88)}, to + (i + 4) * pitch);
    store_unaligned(V{_mm512_shuffle_f32x4(a, c, 0xdd)}, to + (i + 8) * pitch);
    store_unaligned(V{_mm512_shuffle_f32x4(b, e, 0xdd)}, to + (i + 12) * pitch);
  }
#endif
#endif
}

/// to[c*pitch + r] = from[r*stride + c] for rows x columns elements.
template <class T>
HWY_INLINE void transpose_block(const T* HWY_RESTRICT from, std::int64_t stride, std::int64_t rows, std::int64_t columns, float* HWY_RESTRICT to, std::int64_t pitch) {
  std::int64_t r = 0;
  for (; r + lanes <= rows; r += lanes) {
    std::int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) transpose_square(from + r * stride + c, stride, to + c * pitch + r, pitch);
    for (; c < columns; ++c)
      for (std::int64_t i = r; i < r + lanes; ++i) to[c * pitch + i] = to_float(from[i * stride + c]);
  }
  for (; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) to[c * pitch + r] = to_float(from[r * stride + c]);
}

constexpr std::int64_t rows_ahead = 4;

/// Rows and columns [row, row + rows) x [column, column + columns) of x, as floats in rows of `pitch`.
template <class T>
void pack(const Matrix& x, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns, float* to, std::int64_t pitch) {
  const T* const data = static_cast<const T*>(x.data);
  if (x.transposed) return transpose_block(data + column * x.stride + row, x.stride, columns, rows, to, pitch);
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* const from = data + (row + i) * x.stride + column;
    const char* const next = reinterpret_cast<const char*>(from + rows_ahead * x.stride);  // rows lie far apart: the hardware sees no pattern
    for (std::int64_t line = 0; line < columns * static_cast<std::int64_t>(sizeof(T)); line += 64) __builtin_prefetch(next + line, 0, 2);
    copy_row(from, columns, to + i * pitch);
  }
}

inline void pack_any(const Matrix& x, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns, float* to, std::int64_t pitch) {
  if (x.dtype == Dtype::f16) pack<f16>(x, row, rows, column, columns, to, pitch);
  else pack<float>(x, row, rows, column, columns, to, pitch);
}

}  // namespace faibench::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
