#include "kernels/linalg/chunked_swiglu_recompute/expected.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gemm/f64.h"

namespace faibench::chunked_swiglu_recompute {
namespace {

/// A block of rows: g, u and dh of its tokens, then h, dg and du in their place.
void of_rows(const TensorRefMap& inputs, std::int64_t first, std::int64_t rows, View<double, 2> y, View<double, 2> dx) {
  const auto x = inputs.at("x").view<const float, 2>(), dy = inputs.at("dy").view<const float, 2>();
  const auto w_gate = inputs.at("w_gate").view<const float, 2>(), w_up = inputs.at("w_up").view<const float, 2>(), w_down = inputs.at("w_down").view<const float, 2>();
  const std::int64_t D = x.extent(1), F = w_gate.extent(0), n = rows * F;
  const std::vector<double> xs(x.data() + first * D, x.data() + (first + rows) * D), dys(dy.data() + first * D, dy.data() + (first + rows) * D);
  std::vector<double> g(static_cast<std::size_t>(n)), u(g.size()), h(g.size()), dh(g.size());
  const auto multiply = [&](std::vector<gemm::F64Term> terms, std::int64_t N, double* out) { gemm::multiply_f64(rows, N, terms, out); };
  multiply({{xs.data(), gemm::transposed(w_gate), D}}, F, g.data());
  multiply({{xs.data(), gemm::transposed(w_up), D}}, F, u.data());
  multiply({{dys.data(), gemm::matrix(w_down), D}}, F, dh.data());
#pragma omp parallel for schedule(static) if (n > 1 << 14)
  for (std::int64_t k = 0; k < n; ++k) {
    const auto i = static_cast<std::size_t>(k);
    const double e = std::exp(-std::abs(g[i])), of_g = (g[i] < 0 ? e : 1) / (1 + e), of_minus_g = (g[i] < 0 ? 1 : e) / (1 + e), a = g[i] * of_g;
    h[i] = a * u[i];
    const double dg = dh[i] * u[i] * of_g * (1 + g[i] * of_minus_g);
    u[i] = dh[i] * a;  // du
    g[i] = dg;
  }
  multiply({{h.data(), gemm::transposed(w_down), F}}, D, y.data() + first * D);
  multiply({{g.data(), gemm::matrix(w_gate), F}, {u.data(), gemm::matrix(w_up), F}}, D, dx.data() + first * D);
}

}  // namespace

TensorMap expected(const TensorRefMap& inputs) {
  constexpr std::int64_t most_rows = 2048;
  const Shape& shape = inputs.at("x").shape;
  TensorMap outputs;
  outputs.add("y", Tensor(Dtype::f64, shape));
  outputs.add("dx", Tensor(Dtype::f64, shape));
  for (std::int64_t first = 0; first < shape[0] && shape[1] > 0; first += most_rows)
    of_rows(inputs, first, std::min(most_rows, shape[0] - first), outputs.at("y").view<double, 2>(), outputs.at("dx").view<double, 2>());
  return outputs;
}

}  // namespace faibench::chunked_swiglu_recompute
