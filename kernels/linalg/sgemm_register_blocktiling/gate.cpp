#include "kernels/linalg/sgemm_register_blocktiling/gate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gemm/f64.h"

namespace faibench::sgemm_register_blocktiling {
namespace {

bool is_integer(float x) { return std::isfinite(x) && x == std::trunc(x); }

/// What a row of A or a column of B holds.
struct Content {
  bool finite = true, integer = true;
  void add(float x) {
    finite = finite && std::isfinite(x);
    integer = integer && is_integer(x);
  }
};

struct Call {
  View<const float, 2> A, B, C, D;
  float alpha, beta;
  bool product, addend;  ///< whether A and B, whether C may be read
  std::vector<Content> rows, columns;
};

struct Wrong {
  std::int64_t index = std::numeric_limits<std::int64_t>::max();
  double wanted = 0, error_over_tolerance = 0;
};

/// Whether D[i, j] is right, given the sum over k and the sum of magnitudes; if not, `wrong` says what is wanted.
bool right(const Call& c, std::int64_t i, std::int64_t j, double sum, double size, Wrong& wrong) {
  const double alpha = static_cast<double>(c.alpha), beta = static_cast<double>(c.beta), got = static_cast<double>(c.D(i, j));
  const float addend = c.addend ? c.C(i, j) : 0;
  const double product_part = c.product ? alpha * sum : 0, addend_part = c.addend ? beta * static_cast<double>(addend) : 0, ref = product_part + addend_part;
  wrong = {i * c.D.extent(1) + j, ref, 0};
  const Content row = c.product ? c.rows[static_cast<std::size_t>(i)] : Content(), column = c.product ? c.columns[static_cast<std::size_t>(j)] : Content();
  const bool finite = row.finite && column.finite && (!c.product || std::isfinite(c.alpha)) && (!c.addend || (std::isfinite(c.beta) && std::isfinite(addend)));
  if (!finite) return std::isnan(ref) ? std::isnan(got) : got == ref;
  const double product_size = c.product ? std::fabs(alpha) * size : 0, addend_size = std::fabs(addend_part);
  if (std::max(product_size, c.product ? size : 0) + addend_size >= 0x1p127) return true;
  const bool integers = row.integer && column.integer && (!c.product || is_integer(c.alpha)) && (!c.addend || (is_integer(c.beta) && is_integer(addend)));
  if (integers && product_size + addend_size <= 0x1p24) return got == ref;
  const double allowed = 0x1p-24 * (static_cast<double>(c.A.extent(1) + 8) * product_size + 4 * addend_size) + 0x1p-126, error = std::fabs(got - ref);
  wrong.error_over_tolerance = std::isfinite(got) ? error / allowed : HUGE_VAL;
  return error <= allowed;
}

/// The wrong element that stands first in D.
Wrong first_wrong(const Call& c) {
  const std::int64_t M = c.D.extent(0), N = c.D.extent(1), K = c.product ? c.A.extent(1) : 0;
  const std::vector<double> a(c.A.data(), c.A.data() + M * K);
  std::vector<double> a_size(a.size());
  std::ranges::transform(a, a_size.begin(), [](double x) { return std::fabs(x); });
  Wrong first;
  gemm::multiply_f64(M, N, std::vector<gemm::F64Term>{{a.data(), gemm::matrix(c.B), K, a_size.data()}}, true, [&](const gemm::F64Columns& done) {
    Wrong mine, wrong;
    for (std::int64_t i = 0; i < M; ++i)
      for (std::int64_t j = 0; j < done.columns; ++j)
        if (!right(c, i, done.column + j, done.values[i * done.pitch + j], done.sizes[i * done.pitch + j], wrong) && wrong.index < mine.index) mine = wrong;
#pragma omp critical(sgemm_gate)
    if (mine.index < first.index) first = mine;
  });
  return first;
}

}  // namespace

GateResult check_product(const GateCall& call) {
  const TensorRef &got = call.outputs.at("D"), &addend = call.inputs.at("C");
  if (const GateResult bad = same_form("D", got, addend)) return bad;
  const float alpha = call.inputs.at("alpha").scalar<float>(), beta = call.inputs.at("beta").scalar<float>();
  const auto A = call.inputs.at("A").view<const float, 2>(), B = call.inputs.at("B").view<const float, 2>();
  Call c{A, B, addend.view<const float, 2>(), got.view<const float, 2>(), alpha, beta, false, beta != 0, {}, {}};
  c.product = alpha != 0 && c.A.extent(1) > 0;
  if (c.product) {
    c.rows.resize(static_cast<std::size_t>(c.A.extent(0)));
    c.columns.resize(static_cast<std::size_t>(c.B.extent(1)));
    for (std::int64_t i = 0; i < c.A.extent(0); ++i)
      for (std::int64_t k = 0; k < c.A.extent(1); ++k) c.rows[static_cast<std::size_t>(i)].add(c.A(i, k));
    for (std::int64_t k = 0; k < c.B.extent(0); ++k)
      for (std::int64_t j = 0; j < c.B.extent(1); ++j) c.columns[static_cast<std::size_t>(j)].add(c.B(k, j));
  }
  const Wrong wrong = first_wrong(c);
  if (wrong.index == std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  Mismatch mismatch;
  mismatch.tensor = "D";
  mismatch.index = unflatten(got.shape, wrong.index);
  mismatch.got = element_text(got, wrong.index);
  Tensor wanted = Tensor::scalar(wrong.wanted);
  mismatch.wanted = element_text(TensorRef{Dtype::f64, {}, wanted.data()}, 0);
  mismatch.error_over_tolerance = wrong.error_over_tolerance;
  if (wrong.error_over_tolerance == 0) mismatch.what = "integer operands: f32 makes no rounding there, in any order";
  if (!std::isfinite(wrong.wanted)) mismatch.what.clear();
  return mismatch;
}

}  // namespace faibench::sgemm_register_blocktiling
