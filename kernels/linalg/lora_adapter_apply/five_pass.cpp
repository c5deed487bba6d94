// The baseline's five passes with the product kernel of `cpu`, each result in memory of its own (kept from call to call, so that its pages are touched once): what `cpu` is faster
// than this is what the fusion brings.
#include <omp.h>

#include <cmath>
#include <vector>

#include "gemm/gemm.h"
#include "kernels/linalg/lora_adapter_apply/lora_adapter_apply.h"

namespace faibench::lora_adapter_apply::five_pass {
namespace {

Rejected first_bad(const char* name, Matrix m) {
  for (std::int64_t i = 0; i < m.size(); ++i)
    if (!std::isfinite(m.data()[i])) return reject("bad_adapter", name, i, std::to_string(m.data()[i]), "must be finite");
  return std::nullopt;
}

/// out = a @ b^T.
void product(Matrix a, Matrix b, float* out) {
  static thread_local gemm::Workspace workspace;
  const gemm::Term term{gemm::matrix(a), gemm::transposed(b), a.extent(1)};
  gemm::multiply(a.extent(0), b.extent(0), {&term, 1}, gemm::store(out, b.extent(0)), workspace);
}

}  // namespace

Rejected apply(Matrix x, Matrix W, Matrix A, Matrix B, float scale, View<float, 2> y) {
  if (Rejected bad = first_bad("A", A)) return bad;
  if (Rejected bad = first_bad("B", B)) return bad;
  const std::int64_t T = x.extent(0), O = W.extent(0), R = A.extent(0), n = T * O;
  static thread_local std::vector<float> base, h, d, s;
  for (std::vector<float>* buffer : {&base, &d, &s}) buffer->resize(static_cast<std::size_t>(n));
  h.resize(static_cast<std::size_t>(T * R));
  product(x, W, base.data());
  product(x, A, h.data());
  product(Matrix(h.data(), {T, R}), B, d.data());
  float *const b_at = base.data(), *const d_at = d.data(), *const s_at = s.data(), *const y_at = y.data();
#pragma omp parallel for simd schedule(static)
  for (std::int64_t i = 0; i < n; ++i) s_at[i] = scale * d_at[i];
#pragma omp parallel for simd schedule(static)
  for (std::int64_t i = 0; i < n; ++i) y_at[i] = b_at[i] + s_at[i];
  return std::nullopt;
}

}  // namespace faibench::lora_adapter_apply::five_pass
