#include "kernels/linalg/chunked_swiglu_recompute/expected.h"

#include <algorithm>
#include <cmath>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linalg/chunked_swiglu_recompute/expected.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"

#ifndef FAIBENCH_SWIGLU_EXPECTED_TYPES
#define FAIBENCH_SWIGLU_EXPECTED_TYPES
namespace faibench::chunked_swiglu_recompute {

/// out[M, N] (+)= a[M, K] @ b[K, N]; element (k, n) of b is b[k*k_stride + n*n_stride].
struct Product {
  const double* a;
  const float* b;
  double* out;
  std::int64_t M, N, K, k_stride, n_stride;
  bool add;
};

}  // namespace faibench::chunked_swiglu_recompute
#endif

HWY_BEFORE_NAMESPACE();
namespace faibench::chunked_swiglu_recompute::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<double> d64;
using V64 = hn::Vec<decltype(d64)>;
constexpr std::int64_t lanes64 = static_cast<std::int64_t>(hn::MaxLanes(d64)), columns = 2 * lanes64;
constexpr std::int64_t worth_a_team = 1 << 20;  // products; fewer are done before a second thread is awake

template <int R>
HWY_INLINE void multiply_rows(const Product& p, std::int64_t row, std::int64_t column, const double* HWY_RESTRICT panel) {
  V64 sum[R][2];
  for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = hn::Zero(d64);
  for (std::int64_t k = 0; k < p.K; ++k) {
    const V64 left = hn::Load(d64, panel + k * columns), right = hn::Load(d64, panel + k * columns + lanes64);
    for (int r = 0; r < R; ++r) {
      const V64 a = hn::Set(d64, p.a[(row + r) * p.K + k]);
      sum[r][0] = hn::MulAdd(a, left, sum[r][0]);
      sum[r][1] = hn::MulAdd(a, right, sum[r][1]);
    }
  }
  alignas(64) double values[columns];
  for (int r = 0; r < R; ++r) {
    hn::Store(sum[r][0], d64, values);
    hn::Store(sum[r][1], d64, values + lanes64);
    double* const out = p.out + (row + r) * p.N + column;
    for (std::int64_t c = 0; c < std::min(columns, p.N - column); ++c) out[c] = p.add ? out[c] + values[c] : values[c];
  }
}

void multiply(const Product& p) {
  constexpr int together = lanes64 == 8 ? 8 : 4;  // what the registers hold
#pragma omp parallel if (p.M * p.N * p.K > worth_a_team)
  {
    const auto panel = hwy::AllocateAligned<double>(static_cast<std::size_t>(p.K * columns + 1));
#pragma omp for schedule(dynamic)
    for (std::int64_t column = 0; column < p.N; column += columns) {
      for (std::int64_t k = 0; k < p.K; ++k)
        for (std::int64_t c = 0; c < columns; ++c) panel[k * columns + c] = column + c < p.N ? static_cast<double>(p.b[k * p.k_stride + (column + c) * p.n_stride]) : 0.0;
      std::int64_t row = 0;
      for (; row + together <= p.M; row += together) multiply_rows<together>(p, row, column, panel.get());
      for (; row < p.M; ++row) multiply_rows<1>(p, row, column, panel.get());
    }
  }
}

}  // namespace faibench::chunked_swiglu_recompute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::chunked_swiglu_recompute {
namespace {

HWY_EXPORT(multiply);

/// A block of rows: g, u and dh of its tokens, then h, dg and du in their place.
void of_rows(const TensorRefMap& inputs, std::int64_t first, std::int64_t rows, View<double, 2> y, View<double, 2> dx) {
  const auto x = inputs.at("x").view<const float, 2>(), dy = inputs.at("dy").view<const float, 2>();
  const auto w_gate = inputs.at("w_gate").view<const float, 2>(), w_up = inputs.at("w_up").view<const float, 2>(), w_down = inputs.at("w_down").view<const float, 2>();
  const std::int64_t D = x.extent(1), F = w_gate.extent(0), n = rows * F;
  const std::vector<double> xs(x.data() + first * D, x.data() + (first + rows) * D), dys(dy.data() + first * D, dy.data() + (first + rows) * D);
  std::vector<double> g(static_cast<std::size_t>(n)), u(g.size()), h(g.size()), dh(g.size());
  const auto multiply = HWY_DYNAMIC_DISPATCH(multiply);
  multiply({xs.data(), w_gate.data(), g.data(), rows, F, D, 1, D, false});
  multiply({xs.data(), w_up.data(), u.data(), rows, F, D, 1, D, false});
  multiply({dys.data(), w_down.data(), dh.data(), rows, F, D, F, 1, false});
#pragma omp parallel for schedule(static) if (n > 1 << 14)
  for (std::int64_t k = 0; k < n; ++k) {
    const auto i = static_cast<std::size_t>(k);
    const double e = std::exp(-std::abs(g[i])), of_g = (g[i] < 0 ? e : 1) / (1 + e), of_minus_g = (g[i] < 0 ? 1 : e) / (1 + e), a = g[i] * of_g;
    h[i] = a * u[i];
    const double dg = dh[i] * u[i] * of_g * (1 + g[i] * of_minus_g);
    u[i] = dh[i] * a;  // du
    g[i] = dg;
  }
  multiply({h.data(), w_down.data(), y.data() + first * D, rows, D, F, 1, F, false});
  multiply({g.data(), w_gate.data(), dx.data() + first * D, rows, D, F, D, 1, false});
  multiply({u.data(), w_up.data(), dx.data() + first * D, rows, D, F, D, 1, true});
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
#endif
