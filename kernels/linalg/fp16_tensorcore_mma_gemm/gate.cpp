#include "kernels/linalg/fp16_tensorcore_mma_gemm/gate.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "gemm/f64.h"

namespace faibench::fp16_tensorcore_mma_gemm {
namespace {

constexpr std::int64_t alone = 1 << 18;  // operations below which a team of threads costs more than it saves

std::vector<double> product_in_f64(View<const f16, 2> A, View<const f16, 2> B) {
  const std::int64_t M = A.extent(0), N = B.extent(1), K = A.extent(1);
  std::vector<double> a(static_cast<std::size_t>(M * K)), product(static_cast<std::size_t>(M * N));
#pragma omp parallel for schedule(static) if (M * K > alone)
  for (std::int64_t i = 0; i < M * K; ++i) a[static_cast<std::size_t>(i)] = static_cast<double>(to_float(A.data()[i]));
  gemm::multiply_f64(M, N, std::vector<gemm::F64Term>{{a.data(), gemm::matrix(B), K}}, product.data());
  return product;
}

bool is_integer(f16 x) {
  const float value = to_float(x);
  return std::isfinite(value) && value == std::trunc(value);
}

bool same_number(f16 a, f16 b) { return a.bits == b.bits || ((a.bits | b.bits) & 0x7fffu) == 0; }

std::string text(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

struct Judgement {
  View<const f16, 2> A, B, C;
  const std::vector<double>& product;
  std::vector<char> row_is_integer, column_is_integer;

  Judgement(View<const f16, 2> a, View<const f16, 2> b, View<const f16, 2> c, const std::vector<double>& ref)
      : A(a), B(b), C(c), product(ref), row_is_integer(static_cast<std::size_t>(a.extent(0)), 1), column_is_integer(static_cast<std::size_t>(b.extent(1)), 1) {
    for (std::int64_t i = 0; i < A.extent(0); ++i)
      for (std::int64_t k = 0; k < A.extent(1); ++k)
        if (!is_integer(A(i, k))) row_is_integer[static_cast<std::size_t>(i)] = 0;
    for (std::int64_t k = 0; k < B.extent(0); ++k)
      for (std::int64_t j = 0; j < B.extent(1); ++j)
        if (!is_integer(B(k, j))) column_is_integer[static_cast<std::size_t>(j)] = 0;
  }

  /// S[i, j].
  [[nodiscard]] double magnitude(std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t k = 0; k < A.extent(1); ++k) sum += std::abs(static_cast<double>(to_float(A(i, k)))) * std::abs(static_cast<double>(to_float(B(k, j))));
    return sum;
  }

  [[nodiscard]] GateResult element(std::int64_t i, std::int64_t j) const {
    constexpr double first_infinite = 65520;
    const double ref = product[static_cast<std::size_t>(i * C.extent(1) + j)];
    const f16 got = C(i, j), rounded = round_to<f16>(ref);
    const double value = static_cast<double>(to_float(got));
    const auto wrong = [&](double error_over_tolerance, const char* what) {
      return Mismatch{"C", {i, j}, text(value), text(ref), error_over_tolerance, what};
    };
    if (std::isnan(ref)) return std::isnan(value) ? GateResult() : wrong(0, "must be NaN");
    if (same_number(got, rounded)) return std::nullopt;  // within every rule
    if (std::isnan(value)) return wrong(0, "must not be NaN");
    if (std::isinf(ref)) return wrong(0, "must be infinite, with this sign");
    // S costs K operations and is seldom needed: most elements here were rounded the other way, an error far below 2^-10.
    const double error = std::abs(value - ref), rounding = 0x1p-10 * std::abs(ref) + 0x1p-24;
    const bool integers = row_is_integer[static_cast<std::size_t>(i)] && column_is_integer[static_cast<std::size_t>(j)];
    if (!integers && error <= rounding && std::abs(ref) < first_infinite) return std::nullopt;
    const double S = magnitude(i, j), accumulation = static_cast<double>(A.extent(1) + 8) * 0x1p-24 * S, tolerance = rounding + accumulation;
    if (integers && S <= 0x1p22) return wrong(0, "f32 sums are exact here: must be the sum rounded to nearest even");
    if (std::isinf(value)) {
      if (std::signbit(value) == std::signbit(ref) && std::abs(ref) + accumulation >= first_infinite) return std::nullopt;
      return wrong(0, "must be finite");
    }
    if (std::abs(ref) - accumulation >= first_infinite) return wrong(0, "must be infinite: 65520 and more do not fit f16");
    if (error <= tolerance) return std::nullopt;
    return wrong(error / tolerance, "");
  }
};

GateResult check(const GateCall& call) {
  const TensorRef *a = call.inputs.find("A"), *b = call.inputs.find("B"), *c = call.outputs.find("C");
  if (!c) return Mismatch{"C", {}, "", "", 0, "output is missing"};
  if (c->dtype != Dtype::f16) return Mismatch{"C", {}, std::string(name_of(c->dtype)), "f16", 0, "dtype differs"};
  const Shape shape{a->shape[0], b->shape[1]};
  if (c->shape != shape) return Mismatch{"C", {}, to_string(c->shape), to_string(shape), 0, "shape differs"};
  const auto A = a->view<const f16, 2>(), B = b->view<const f16, 2>();
  const std::vector<double> product = product_in_f64(A, B);
  const Judgement judgement(A, B, c->view<const f16, 2>(), product);
  std::atomic<std::int64_t> first_wrong_row = shape[0];
#pragma omp parallel for schedule(static) if (shape[0] * shape[1] > alone)
  for (std::int64_t i = 0; i < shape[0]; ++i)
    for (std::int64_t j = 0; j < shape[1] && i < first_wrong_row; ++j)
      if (judgement.element(i, j)) {
        std::int64_t row = first_wrong_row;
        while (i < row && !first_wrong_row.compare_exchange_weak(row, i)) {}
      }
  for (std::int64_t i = first_wrong_row, j = 0; i < shape[0] && j < shape[1]; ++j)
    if (GateResult bad = judgement.element(i, j)) return bad;
  return std::nullopt;
}

}  // namespace

Gate gate() {
  Gate gate;
  gate.text =
      "ref and S = |A|@|B| in f64, acc_tol = (K+8)*2^-24*S. NaN where and only where ref is NaN, an infinite ref matched in sign. |ref| - acc_tol >= 65520: Inf of that sign; "
      "|ref| + acc_tol < 65520: finite; between, either. Finite C: |C - ref| <= 2^-10*|ref| + acc_tol + 2^-24. Where row i and column j are integer-valued and S <= 2^22: "
      "f16(ref) rounded to nearest even, bit for bit but for the sign of zero. Every workload is also gated on the fill exact of its shape: A integers in [-a, a], B integers in [-1, 1], "
      "a = min(2047, floor(2^22/K))";
  gate.check = check;
  gate.baseline_is_expected = false;
  gate.needs_expected = false;
  return gate;
}

}  // namespace faibench::fp16_tensorcore_mma_gemm
