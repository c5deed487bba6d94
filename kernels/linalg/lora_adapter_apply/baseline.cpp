// The five passes of the contract, each into memory of its own.
#include <cmath>
#include <vector>

#include "kernels/linalg/lora_adapter_apply/lora_adapter_apply.h"

namespace faibench::lora_adapter_apply::baseline {
namespace {

Rejected first_bad(const char* name, Matrix m) {
  for (std::int64_t i = 0; i < m.size(); ++i)
    if (!std::isfinite(m.data()[i])) return reject("bad_adapter", name, i, std::to_string(m.data()[i]), "must be finite");
  return std::nullopt;
}

/// out[m, n] = sum over k of a[m, k] * b[n, k].
void product(const float* a, const float* b, std::int64_t M, std::int64_t N, std::int64_t K, float* out) {
  for (std::int64_t m = 0; m < M; ++m)
    for (std::int64_t n = 0; n < N; ++n) {
      float sum = 0;
      for (std::int64_t k = 0; k < K; ++k) sum += a[m * K + k] * b[n * K + k];
      out[m * N + n] = sum;
    }
}

}  // namespace

Rejected apply(Matrix x, Matrix W, Matrix A, Matrix B, float scale, View<float, 2> y) {
  if (Rejected bad = first_bad("A", A)) return bad;
  if (Rejected bad = first_bad("B", B)) return bad;
  const std::int64_t T = x.extent(0), I = x.extent(1), O = W.extent(0), R = A.extent(0);
  const auto elements = [](std::int64_t rows, std::int64_t columns) { return static_cast<std::size_t>(rows * columns); };
  std::vector<float> base(elements(T, O)), h(elements(T, R)), d(elements(T, O)), s(elements(T, O));
  product(x.data(), W.data(), T, O, I, base.data());
  product(x.data(), A.data(), T, R, I, h.data());
  product(h.data(), B.data(), T, O, R, d.data());
  for (std::size_t i = 0; i < s.size(); ++i) s[i] = scale * d[i];
  for (std::size_t i = 0; i < s.size(); ++i) y.data()[i] = base[i] + s[i];
  return std::nullopt;
}

}  // namespace faibench::lora_adapter_apply::baseline
