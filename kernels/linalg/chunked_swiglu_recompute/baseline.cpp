// Everything kept, as autograd would: every intermediate of all tokens in memory of its own, every step a pass.
#include <cmath>
#include <vector>

#include "kernels/linalg/chunked_swiglu_recompute/chunked_swiglu_recompute.h"

namespace faibench::chunked_swiglu_recompute::baseline {
namespace {

/// out[m, n] = sum over k of a[m, k] * b[n, k].
void times_transposed(const float* a, const float* b, std::int64_t M, std::int64_t N, std::int64_t K, float* out) {
  for (std::int64_t m = 0; m < M; ++m)
    for (std::int64_t n = 0; n < N; ++n) {
      float sum = 0;
      for (std::int64_t k = 0; k < K; ++k) sum += a[m * K + k] * b[n * K + k];
      out[m * N + n] = sum;
    }
}

/// out[m, n] = sum over k of a[m, k] * b[k, n].
void times(const float* a, const float* b, std::int64_t M, std::int64_t N, std::int64_t K, float* out) {
  for (std::int64_t m = 0; m < M; ++m)
    for (std::int64_t n = 0; n < N; ++n) {
      float sum = 0;
      for (std::int64_t k = 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];
      out[m * N + n] = sum;
    }
}

float sigmoid(float g) { return 1 / (1 + std::exp(-g)); }

}  // namespace

void gated_mlp_fwd_bwd(Matrix x, Matrix w_gate, Matrix w_up, Matrix w_down, Matrix dy, std::int64_t, Result y, Result dx) {
  const std::int64_t T = x.extent(0), D = x.extent(1), F = w_gate.extent(0);
  const auto n = static_cast<std::size_t>(T * F);
  std::vector<float> g(n), u(n), a(n), h(n);
  times_transposed(x.data(), w_gate.data(), T, F, D, g.data());
  times_transposed(x.data(), w_up.data(), T, F, D, u.data());
  for (std::size_t i = 0; i < n; ++i) a[i] = g[i] * sigmoid(g[i]);
  for (std::size_t i = 0; i < n; ++i) h[i] = a[i] * u[i];
  times_transposed(h.data(), w_down.data(), T, D, F, y.data());

  std::vector<float> dh(n), du(n), dg(n), of_gate(static_cast<std::size_t>(T * D)), of_up(of_gate.size());
  times(dy.data(), w_down.data(), T, F, D, dh.data());
  for (std::size_t i = 0; i < n; ++i) du[i] = dh[i] * a[i];
  for (std::size_t i = 0; i < n; ++i) {
    const float s = sigmoid(g[i]);
    dg[i] = dh[i] * u[i] * s * (1 + g[i] * (1 - s));
  }
  times(dg.data(), w_gate.data(), T, D, F, of_gate.data());
  times(du.data(), w_up.data(), T, D, F, of_up.data());
  for (std::size_t i = 0; i < of_gate.size(); ++i) dx.data()[i] = of_gate[i] + of_up[i];
}

}  // namespace faibench::chunked_swiglu_recompute::baseline
