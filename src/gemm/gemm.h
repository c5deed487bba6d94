// The f32 matrix product that the CPU variants of the linear layers build on: packed panels, a register tile, a finishing step of the caller's on every tile.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>

#include "tensor/dtype.h"
#include "tensor/view.h"

namespace faibench::gemm {

/// Where an operand lies: element (i, j) is data[i*stride + j] or, if transposed, data[j*stride + i]. f32 or f16 (converted exactly), any alignment.
struct Matrix {
  const void* data = nullptr;
  std::int64_t stride = 0;  ///< elements from one stored row to the next
  Dtype dtype = Dtype::f32;
  bool transposed = false;
};
/// The matrix that a view shows.
template <class T>
Matrix matrix(View<const T, 2> x) { return {x.data(), x.extent(1), dtype_of<T>, false}; }
/// Its transpose: of a weight W[O, I] (nn.Linear), the matrix [I, O] that x is multiplied by.
template <class T>
Matrix transposed(View<const T, 2> x) { return {x.data(), x.extent(1), dtype_of<T>, true}; }

/// One summand a[M, k] @ b[k, N]. A product of several terms runs as one with the inner dimension of all: [x | h] @ [W | B]^T is {{x, W^T, I}, {h, B^T, R}}.
struct Term {
  Matrix a, b;
  std::int64_t k = 0;
};

/// A finished rectangle of the product: element (row + i, column + j) is values[i*pitch + j]. The values may be changed in place, they are not used again.
struct Tile {
  std::int64_t row, column, rows, columns;
  float* values;
  std::int64_t pitch;  ///< at least 4 floats beyond `columns` are readable and writable in every row but the last; their content means nothing
};
/// A matrix that a finishing step reads or writes where its tile lies: element (i, j) is `element` bytes at data + (i*stride + j)*element.
struct Touched {
  const void* data = nullptr;
  std::int64_t stride = 0, element = 4;
};
/// What becomes of finished tiles. Every element of the product comes exactly once; several threads call it at a time, for different tiles.
/// It must not throw and must not write what the operands are read from. Any callable that takes a Tile converts to it.
struct Finish {
  Finish(std::function<void(const Tile&)> take, std::array<Touched, 2> touches = {}) : take(std::move(take)), touches(touches) {}
  template <class Take>
    requires std::is_invocable_v<Take, const Tile&>
  Finish(Take take) : take(std::move(take)) {}  // NOLINT: a lambda is given where a Finish is wanted

  std::function<void(const Tile&)> take;
  std::array<Touched, 2> touches;  ///< what `take` reads or writes, result first: fetched while the tile is computed. May stay empty.
};

/// d = alpha*product + beta*c, each factor and sum rounded once; c is not read where beta is 0 (then c may be null). alpha must not be 0: 0*NaN is NaN here.
Finish scaled_sum(float alpha, float beta, const float* c, std::int64_t c_stride, float* d, std::int64_t d_stride);
/// d = product.
Finish store(float* d, std::int64_t d_stride);
/// d = d + product.
Finish add_to(float* d, std::int64_t d_stride);
/// d = product rounded to f16, once, to nearest even (65520 and more: Inf).
Finish store_f16(f16* d, std::int64_t d_stride);

/// Memory for packed operands and unfinished sums, kept from call to call so that its pages are touched once: give it a lifetime beyond one call
/// (`static thread_local Workspace workspace;` in the variant's function). Not for two calls at a time.
class Workspace {
 public:
  /// Never holds more than `limit` bytes, for all threads together. At least 128 KiB; 2 MiB a thread is as fast as it gets, with less the blocks are smaller,
  /// below 256 KiB a thread fewer threads work.
  explicit Workspace(std::int64_t limit = std::int64_t{1} << 40);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  [[nodiscard]] std::int64_t limit() const { return limit_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// 64-byte aligned, at least `bytes` (which must not pass the limit); what it held before is lost if it has to grow.
  float* at_least(std::int64_t bytes);

 private:
  std::int64_t limit_, bytes_ = 0;
  float* data_ = nullptr;
};

/// The product sum over terms of a[M, k] @ b[k, N], handed to `finish` tile by tile. M, N, k >= 0; with no k at all the product is zero. Sums in f32, multiply-adds
/// fused where the instruction set has them; the order of a sum depends on the shape, the thread count and the instruction set. No element of the operands meets
/// one of another row of a or column of b: NaN and Inf stay in their row and column. Uses omp_get_max_threads() threads (one inside a parallel region). Allocates
/// in `workspace` only, apart from some hundred bytes.
void multiply(std::int64_t M, std::int64_t N, std::span<const Term> terms, const Finish& finish, Workspace& workspace);

}  // namespace faibench::gemm
