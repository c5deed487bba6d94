#include "kernels/linalg/splitk_tall_skinny_gemm/gate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <omp.h>

namespace faibench::splitk_tall_skinny_gemm {
namespace {

/// Terms first .. end-1 of one row of A against B: ref[j] += a*b, S[j] += |a*b|.
__attribute__((target_clones("default", "avx2", "avx512f")))
void add_terms(const float* a, const float* b, std::int64_t first, std::int64_t end, std::int64_t N, double* __restrict ref, double* __restrict S) {
  for (std::int64_t k = first; k < end; ++k) {
    const double x = static_cast<double>(a[k]);
    const float* const row = b + k * N;
    for (std::int64_t j = 0; j < N; ++j) {
      const double product = x * static_cast<double>(row[j]);
      ref[j] += product;
      S[j] += std::abs(product);
    }
  }
}

struct Products {
  std::vector<double> ref, S;
};

Products products(View<const float, 2> A, View<const float, 2> B) {
  const std::int64_t M = A.extent(0), N = B.extent(1), K = A.extent(1);
  Products total{std::vector<double>(static_cast<std::size_t>(M * N)), std::vector<double>(static_cast<std::size_t>(M * N))};
#pragma omp parallel if (M * N * K >= 1 << 21)
  {
    Products mine = total;  // zeros
#pragma omp barrier
#pragma omp for schedule(static)
    for (std::int64_t first = 0; first < K; first += 256)  // rows of B that stay in the first-level cache
      for (std::int64_t i = 0; i < M; ++i) add_terms(A.data() + i * K, B.data(), first, std::min(K, first + 256), N, mine.ref.data() + i * N, mine.S.data() + i * N);
#pragma omp critical(splitk_tall_skinny_gemm_products)
    for (std::size_t e = 0; e < total.ref.size(); ++e) {
      total.ref[e] += mine.ref[e];
      total.S[e] += mine.S[e];
    }
  }
  return total;
}

enum class Values { any, finite, integers };

Values kind(Values so_far, float x) {
  if (!std::isfinite(x)) return Values::any;
  return so_far == Values::integers && std::nearbyint(x) != x ? Values::finite : so_far;
}

/// Rows of A, columns of B.
std::vector<Values> kinds_of_rows(View<const float, 2> A) {
  std::vector<Values> kinds(static_cast<std::size_t>(A.extent(0)), Values::integers);
#pragma omp parallel for schedule(static) if (A.size() >= 1 << 20)
  for (std::int64_t i = 0; i < A.extent(0); ++i) {
    Values& of = kinds[static_cast<std::size_t>(i)];
    for (std::int64_t k = 0; k < A.extent(1) && of != Values::any; ++k) of = kind(of, A.data()[i * A.extent(1) + k]);
  }
  return kinds;
}
std::vector<Values> kinds_of_columns(View<const float, 2> B) {
  std::vector<Values> kinds(static_cast<std::size_t>(B.extent(1)), Values::integers);
  for (std::int64_t k = 0; k < B.extent(0); ++k)
    for (std::int64_t j = 0; j < B.extent(1); ++j)
      if (Values& of = kinds[static_cast<std::size_t>(j)]; of != Values::any) of = kind(of, B.data()[k * B.extent(1) + j]);
  return kinds;
}

std::string text(double x) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.17g", x);
  return buffer;
}

GateResult check(const GateCall& call) {
  const auto A = call.inputs.at("A").view<const float, 2>(), B = call.inputs.at("B").view<const float, 2>();
  const std::int64_t M = A.extent(0), N = B.extent(1);
  const TensorRef& out = call.outputs.at("C");
  if (GateResult bad = same_form("C", out, {Dtype::f32, {M, N}, nullptr})) return bad;
  const auto C = out.view<const float, 2>();
  const auto [ref, S] = products(A, B);
  const double allowed = 0x1p-24 * (64 + 2 * std::sqrt(static_cast<double>(A.extent(1))));
  const std::vector<Values> rows = kinds_of_rows(A), columns = kinds_of_columns(B);
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t j = 0; j < N; ++j) {
      const std::size_t e = static_cast<std::size_t>(i * N + j);
      const double got = static_cast<double>(C(i, j)), wanted = ref[e];
      const Values values = std::min(rows[static_cast<std::size_t>(i)], columns[static_cast<std::size_t>(j)]);
      const auto wrong = [&](double error_over_tolerance, std::string what) { return Mismatch{"C", {i, j}, element_text(out, i * N + j), text(wanted), error_over_tolerance, std::move(what)}; };
      if (!std::isfinite(wanted)) {
        if (std::isnan(wanted) ? !std::isnan(got) : got != wanted) return wrong(0, "");
        continue;
      }
      if (values != Values::any && S[e] >= 0x1p127) continue;
      if (values == Values::integers && S[e] <= 0x1p24) {
        if (got != wanted) return wrong(0, "integers leave no rounding");
        continue;
      }
      const double tolerance = allowed * S[e] + 0x1p-126, error = std::abs(got - wanted);
      if (!(error <= tolerance)) return wrong(error / tolerance, "");
    }
  return std::nullopt;
}

}  // namespace

Gate gate() {
  Gate gate;
  gate.text =
      "C: |C - ref| <= 2^-24*(64 + 2*sqrt(K))*S + 2^-126, ref and S = |A|@|B| in f64; exactly equal where row i and column j are integers and S <= 2^24; NaN where ref is NaN, the same infinity "
      "where it is infinite; finite data with S >= 2^127 is not compared";
  gate.check = check;
  gate.baseline_is_expected = false;
  gate.needs_expected = false;
  return gate;
}

TensorMap uniform(Random& random, std::int64_t M, std::int64_t N, std::int64_t K) {
  TensorMap in;
  random.fill_uniform(in.add("A", Tensor(Dtype::f32, {M, K})).flat<float>(), -1, 1);
  random.fill_uniform(in.add("B", Tensor(Dtype::f32, {K, N})).flat<float>(), -1, 1);
  return in;
}

TensorMap exact(Random& random, std::int64_t M, std::int64_t N, std::int64_t K) {
  const auto most = std::max<std::int32_t>(1, static_cast<std::int32_t>(std::sqrt(0x1p24 / static_cast<double>(std::max<std::int64_t>(K, 1)))));
  TensorMap in;
  in.add("A", Tensor(Dtype::f32, {M, K}));
  in.add("B", Tensor(Dtype::f32, {K, N}));
  for (auto& [name, tensor] : in) {
    std::vector<std::int32_t> drawn(static_cast<std::size_t>(tensor.size()));
    random.fill_below(drawn, 2 * most + 1);
    std::ranges::transform(drawn, tensor.flat<float>().begin(), [most](std::int32_t x) { return static_cast<float>(x - most); });
  }
  return in;
}

}  // namespace faibench::splitk_tall_skinny_gemm
