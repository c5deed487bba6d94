// Few rows: the product is bound by reading b, which streams through the registers once, unpacked. Included by multiply.cpp once for each instruction set.
#if defined(FAIBENCH_GEMM_STREAM_INL_H) == defined(HWY_TARGET_TOGGLE)  // Highway's guard: once a target
#ifdef FAIBENCH_GEMM_STREAM_INL_H
#undef FAIBENCH_GEMM_STREAM_INL_H
#else
#define FAIBENCH_GEMM_STREAM_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <utility>

#include "gemm/pack-inl.h"
#include "gemm/problem.h"
#include "gemm/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::gemm::HWY_NAMESPACE {

// ---- b as it is: some rows at a time, column after column, so that as many streams run through memory side by side ----

constexpr std::int64_t stream_rows = 32;    // of b at a time
constexpr std::int64_t stream_ahead = 512;  // bytes of each of these rows

template <int NV, class T>
HWY_INLINE void load_row(V (&row)[NV], const T* from) {
  row[0] = load_floats(from);
  if constexpr (NV > 1) row[1] = load_floats(from + lanes);
  if constexpr (NV > 2) {
    row[2] = load_floats(from + 2 * lanes);
    row[3] = load_floats(from + 3 * lanes);
  }
}
template <int NV>
HWY_INLINE void add_row(V (&sum)[NV], V factor, const V (&row)[NV]) {
  sum[0] = multiply_add(factor, row[0], sum[0]);
  if constexpr (NV > 1) sum[1] = multiply_add(factor, row[1], sum[1]);
  if constexpr (NV > 2) {
    sum[2] = multiply_add(factor, row[2], sum[2]);
    sum[3] = multiply_add(factor, row[3], sum[3]);
  }
}
template <int NV>
HWY_INLINE void store_row(const V (&row)[NV], float* to) {
  store(row[0], to);
  if constexpr (NV > 1) store(row[1], to + lanes);
  if constexpr (NV > 2) {
    store(row[2], to + 2 * lanes);
    store(row[3], to + 3 * lanes);
  }
}

/// sums[R, NV*lanes] += a[k, R]^T @ b[k, NV*lanes].
template <int NV, class T, std::size_t... R>
HWY_INLINE void stream_tile(std::index_sequence<R...>, const float* HWY_RESTRICT a, const T* HWY_RESTRICT b, std::int64_t b_stride, std::int64_t k,
                            float* HWY_RESTRICT sums, std::int64_t pitch) {
  V sum[sizeof...(R)][NV];
  (load_row<NV>(sum[R], sums + static_cast<std::int64_t>(R) * pitch), ...);
  for (; k > 0; --k, a += sizeof...(R), b += b_stride) {
    const char* const next = reinterpret_cast<const char*>(b) + stream_ahead;
    for (std::int64_t line = 0; line < NV * lanes * static_cast<std::int64_t>(sizeof(T)); line += 64) __builtin_prefetch(next + line, 0, 2);
    V row[NV];
    load_row<NV>(row, b);
    (add_row<NV>(sum[R], broadcast(a[R]), row), ...);
  }
  (store_row<NV>(sum[R], sums + static_cast<std::int64_t>(R) * pitch), ...);
}

template <class T>
using StreamFunction = void (*)(const float* a, const T* b, std::int64_t b_stride, std::int64_t k, float* sums, std::int64_t pitch);
template <std::size_t rows, int NV, class T>
void stream(const float* a, const T* b, std::int64_t b_stride, std::int64_t k, float* sums, std::int64_t pitch) {
  stream_tile<NV>(std::make_index_sequence<rows>(), a, b, b_stride, k, sums, pitch);
}
template <int NV, class T, std::size_t... R>
StreamFunction<T> pick_stream(std::index_sequence<R...>, std::int64_t rows) {
  constexpr StreamFunction<T> functions[] = {stream<R + 1, NV, T>...};
  return functions[rows - 1];
}
/// The widest tile that the registers hold.
constexpr std::int64_t wide_rows = tile_shape.rows / 2;
template <class T>
StreamFunction<T> stream_function(std::int64_t rows, std::int64_t vectors) {
  constexpr auto all = std::make_index_sequence<static_cast<std::size_t>(tile_shape.rows)>();
  constexpr auto few = std::make_index_sequence<static_cast<std::size_t>(wide_rows)>();
  return vectors == 4 ? pick_stream<4, T>(few, rows) : vectors == 2 ? pick_stream<2, T>(all, rows) : pick_stream<1, T>(all, rows);
}

/// sums[rows, columns] += a[rows, k] @ b[k, columns]; `a` comes in row blocks, each k-major. b is read where it lies, but for the columns that fill no vector.
template <class T>
void stream_plain(const float* a, std::int64_t rows, const T* b, std::int64_t b_stride, std::int64_t k, std::int64_t columns, float* sums, std::int64_t pitch) {
  const std::int64_t row_blocks = (rows + tile_shape.rows - 1) / tile_shape.rows, most_rows = (rows + row_blocks - 1) / row_blocks;
  const std::int64_t widest = most_rows <= wide_rows ? 4 : 2;
  alignas(64) float edge[stream_rows * lanes];
  for (std::int64_t k0 = 0; k0 < k; k0 += stream_rows) {
    const std::int64_t n = std::min(stream_rows, k - k0);
    const T* const from = b + k0 * b_stride;
    for (std::int64_t j = 0; j < columns;) {
      const std::int64_t left = columns - j, vectors = left >= widest * lanes ? widest : left >= 2 * lanes ? 2 : 1;
      const bool whole = left >= lanes;
      if (!whole)
        for (std::int64_t i = 0; i < n; ++i) {
          std::fill(edge + i * lanes, edge + (i + 1) * lanes, 0.0f);
          copy_row(from + i * b_stride + j, left, edge + i * lanes);
        }
      for (std::int64_t block = 0; block < row_blocks; ++block) {
        const std::int64_t r = rows * block / row_blocks, count = rows * (block + 1) / row_blocks - r;
        const float* const factors = a + r * k + k0 * count;
        if (whole) stream_function<T>(count, vectors)(factors, from + j, b_stride, n, sums + r * pitch + j, pitch);
        else stream_function<float>(count, 1)(factors, edge, lanes, n, sums + r * pitch + j, pitch);
      }
      j += vectors * lanes;
    }
  }
}

// ---- b transposed: dot products of its stored rows with those of a ----

constexpr std::int64_t dot_columns = 4;                   // stored rows of b at a time, which stream side by side
constexpr std::int64_t dot_rows = tile_shape.rows / 2;    // of a: 7 x 4 sums with AVX-512, 3 x 4 without

HWY_INLINE float sum_of(V v) {
#if HWY_TARGET == HWY_SCALAR
  return (v[0] + v[1]) + (v[2] + v[3]);
#else
  return hn::GetLane(hn::SumOfLanes(F(), v));
#endif
}

template <class T>
HWY_INLINE void add_dots(V (&sum)[dot_columns], V x, const V (&w)[dot_columns]) {
  for (std::int64_t c = 0; c < dot_columns; ++c) sum[c] = multiply_add(x, w[c], sum[c]);
}

/// sums[r*pitch + c] += a[r, k] . b[c, k] for R rows and 4 columns; k in whole vectors. Fetches what follows b by `ahead` bytes.
template <class T, std::size_t... R>
HWY_INLINE void dot_tile(std::index_sequence<R...>, const float* HWY_RESTRICT a, std::int64_t a_stride, const T* HWY_RESTRICT b, std::int64_t b_stride, std::int64_t k,
                         float* HWY_RESTRICT sums, std::int64_t pitch, std::int64_t ahead) {
  V sum[sizeof...(R)][dot_columns];
  ((sum[R][0] = sum[R][1] = sum[R][2] = sum[R][3] = zero()), ...);
  for (; k > 0; k -= lanes, a += lanes, b += lanes) {
    for (std::int64_t c = 0; c < dot_columns; ++c) __builtin_prefetch(reinterpret_cast<const char*>(b + c * b_stride) + ahead, 0, 2);
    const V w[] = {load_floats(b), load_floats(b + b_stride), load_floats(b + 2 * b_stride), load_floats(b + 3 * b_stride)};
    (add_dots<T>(sum[R], load(a + static_cast<std::int64_t>(R) * a_stride), w), ...);
  }
  const auto add = [&](const V(&s)[dot_columns], float* to) {
    for (std::int64_t c = 0; c < dot_columns; ++c) to[c] += sum_of(s[c]);
  };
  (add(sum[R], sums + static_cast<std::int64_t>(R) * pitch), ...);
}

template <class T>
using DotFunction = void (*)(const float* a, std::int64_t a_stride, const T* b, std::int64_t b_stride, std::int64_t k, float* sums, std::int64_t pitch, std::int64_t ahead);
template <std::size_t rows, class T>
void dots(const float* a, std::int64_t a_stride, const T* b, std::int64_t b_stride, std::int64_t k, float* sums, std::int64_t pitch, std::int64_t ahead) {
  dot_tile(std::make_index_sequence<rows>(), a, a_stride, b, b_stride, k, sums, pitch, ahead);
}
template <class T, std::size_t... R>
DotFunction<T> pick_dots(std::index_sequence<R...>, std::int64_t rows) {
  constexpr DotFunction<T> functions[] = {dots<R + 1, T>...};
  return functions[rows - 1];
}

/// sums[rows, columns] += a[rows, k] @ b[columns, k]^T. a's rows are a_stride apart, padded with zeros to whole vectors.
template <class T>
void stream_transposed(const float* a, std::int64_t a_stride, std::int64_t rows, const T* b, std::int64_t b_stride, std::int64_t k, std::int64_t columns, float* sums,
                       std::int64_t pitch) {
  constexpr auto all = std::make_index_sequence<static_cast<std::size_t>(dot_rows)>();
  const std::int64_t row_blocks = (rows + dot_rows - 1) / dot_rows, whole = k / lanes * lanes;
  alignas(64) float tail[dot_columns * lanes], nowhere[dot_rows * dot_columns];
  for (std::int64_t j = 0; j < columns; j += dot_columns) {
    const std::int64_t count = std::min(dot_columns, columns - j);
    const T* const from = b + j * b_stride;
    std::fill(std::begin(tail), std::end(tail), 0.0f);
    for (std::int64_t c = 0; c < count; ++c) copy_row(from + c * b_stride + whole, k - whole, tail + c * lanes);
    for (std::int64_t block = 0; block < row_blocks; ++block) {
      const std::int64_t r = rows * block / row_blocks, n = rows * (block + 1) / row_blocks - r;
      if (count == dot_columns) {
        // The first row block reads b from memory, a little ahead; the last one has the next columns come.
        const std::int64_t ahead = block == 0 ? 1024 : dot_columns * b_stride * static_cast<std::int64_t>(sizeof(T));
        pick_dots<T>(all, n)(a + r * a_stride, a_stride, from, b_stride, whole, sums + r * pitch + j, pitch, ahead);
        if (whole < k) pick_dots<float>(all, n)(a + r * a_stride + whole, a_stride, tail, lanes, lanes, sums + r * pitch + j, pitch, 0);
        continue;
      }
      for (std::int64_t c = 0; c < count; ++c) {  // the last columns one by one: four times the same stored row, of which one sum counts
        std::fill(std::begin(nowhere), std::end(nowhere), 0.0f);
        pick_dots<T>(all, n)(a + r * a_stride, a_stride, from + c * b_stride, 0, whole, nowhere, dot_columns, 0);
        if (whole < k) pick_dots<float>(all, n)(a + r * a_stride + whole, a_stride, tail + c * lanes, 0, lanes, nowhere, dot_columns, 0);
        for (std::int64_t i = 0; i < n; ++i) sums[(r + i) * pitch + j + c] += nowhere[i * dot_columns];
      }
    }
  }
}

// ---- both ----

/// a's rows [0, rows) at inner positions [first, first + n), k-major in row blocks.
inline void pack_k_major(const Matrix& a, std::int64_t rows, std::int64_t first, std::int64_t n, float* to) {
  const std::int64_t row_blocks = (rows + tile_shape.rows - 1) / tile_shape.rows;
  Matrix other = a;
  other.transposed = !a.transposed;  // element (k, row)
  for (std::int64_t block = 0; block < row_blocks; ++block) {
    const std::int64_t r = rows * block / row_blocks, count = rows * (block + 1) / row_blocks - r;
    pack_any(other, first, n, r, count, to + r * n, count);
  }
}

/// All rows of columns [first_column, first_column + columns), for at most stream_most_rows rows.
inline void stream_item(const Problem& p, std::int64_t first_column, std::int64_t columns, float* scratch) {
  const std::int64_t rows = p.M, pitch = p.item_columns + 16, k_most = p.stream_k;
  float* const sums = scratch;                       // (rows, pitch)
  float* const a = scratch + rows * pitch;           // (rows, k_most + 16)
  std::fill(sums, sums + rows * pitch, 0.0f);
  for (const Term& term : p.terms)
    for (std::int64_t k = 0; k < term.k; k += k_most) {
      const std::int64_t n = std::min(k_most, term.k - k), padded = (n + lanes - 1) / lanes * lanes + lanes;
      const auto run = [&]<class T>(const T* b) {
        if (term.b.transposed) {
          pack_any(term.a, 0, rows, k, n, a, padded);
          for (std::int64_t i = 0; i < rows; ++i) std::fill(a + i * padded + n, a + (i + 1) * padded, 0.0f);
          stream_transposed(a, padded, rows, b + first_column * term.b.stride + k, term.b.stride, n, columns, sums, pitch);
        } else {
          pack_k_major(term.a, rows, k, n, a);
          stream_plain(a, rows, b + k * term.b.stride + first_column, term.b.stride, n, columns, sums, pitch);
        }
      };
      if (term.b.dtype == Dtype::f16) run(static_cast<const f16*>(term.b.data));
      else run(static_cast<const float*>(term.b.data));
    }
  p.finish.take(Tile{0, first_column, rows, columns, sums, pitch});
}

}  // namespace faibench::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
