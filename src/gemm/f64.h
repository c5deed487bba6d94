// The product in f64 that gates hold f32 and f16 results against, and beside it the sums of magnitudes that their tolerances are made of.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "gemm/gemm.h"

namespace faibench::gemm {

/// One summand a[M, k] @ b[k, N]: a in f64, packed row after row; b as in multiply().
struct F64Term {
  const double* a = nullptr;
  Matrix b;
  std::int64_t k = 0;
  const double* a_size = nullptr;  ///< [M, k], for sums of magnitudes: |a| or, where a is a sum itself, the sum of its summands' magnitudes
};

/// Finished columns of the product, in all M rows: element (i, column + j) is values[i*pitch + j].
struct F64Columns {
  std::int64_t column, columns;
  const double *values, *sizes;  ///< sizes: the sum over terms of a_size @ |b|; null if not asked for
  std::int64_t pitch;
};

/// The sum over terms of a @ b, handed to `take` a few columns at a time: each column once, in any order, several threads at a time. `take` must not throw.
/// M, N, k >= 0; with no k at all the product is zero. A sum runs up k, term after term, one rounding a step where the instruction set fuses multiply and add, else two,
/// whatever the number of threads. NaN and Inf stay in their row of a and column of b. Without `with_sizes` no a_size is read.
/// Uses omp_get_max_threads() threads (one inside a parallel region); each allocates 50 KiB and room for the sums of up to 16 columns.
void multiply_f64(std::int64_t M, std::int64_t N, std::span<const F64Term> terms, bool with_sizes, const std::function<void(const F64Columns&)>& take);

/// The same into values[M, N] and, unless it is null, sizes[M, N].
void multiply_f64(std::int64_t M, std::int64_t N, std::span<const F64Term> terms, double* values, double* sizes = nullptr);

}  // namespace faibench::gemm
