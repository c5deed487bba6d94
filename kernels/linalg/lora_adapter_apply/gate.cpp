// ref and S = |x|@|W|^T + |scale|*(|x|@|A|^T)@|B|^T in f64, compared with y as the product's columns come.
#include "kernels/linalg/lora_adapter_apply/gate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gemm/f64.h"

namespace faibench::lora_adapter_apply {
namespace {

using Matrix = View<const float, 2>;

/// A left operand in f64, and sums of the magnitudes of what it is made of.
struct Rows {
  std::vector<double> values, sizes;
};
struct GateProblem {
  Matrix W, B, y;
  Rows x, correction;  ///< correction = scale * x@A^T
  float scale;           ///< 0: no correction
  std::vector<bool> x_finite, W_finite, x_integer, W_integer, B_integer;
  bool adapter_integer;  ///< all of A, and scale
};
/// The wrong element that stands first in y.
struct WrongElement {
  std::int64_t index = INT64_MAX;
  double wanted = 0, ratio = 0;
};

/// Whether y is right there; if not, by how much it misses.
bool right(const GateProblem& p, std::int64_t t, std::int64_t o, double ref, double S, WrongElement& wrong) {
  const double y = static_cast<double>(p.y(t, o));
  wrong = {t * p.y.extent(1) + o, ref, 0};
  if (!p.x_finite[static_cast<std::size_t>(t)] || !p.W_finite[static_cast<std::size_t>(o)]) {
    if (std::isnan(ref) ? std::isnan(y) : y == ref) return true;
    // scale = 0 is x@W^T by rule 2; the formula as written, 0 times what is not finite (A and B are, x is not), is NaN and is taken too.
    return p.scale == 0 && std::isnan(y) && !p.x_finite[static_cast<std::size_t>(t)] && p.B.extent(1) > 0;
  }
  if (!(S < 0x1p127)) return true;
  if (p.adapter_integer && S <= 0x1p24 && p.x_integer[static_cast<std::size_t>(t)] && p.W_integer[static_cast<std::size_t>(o)] && p.B_integer[static_cast<std::size_t>(o)])
    return y == ref;
  const double allowed = 0x1p-24 * static_cast<double>(p.W.extent(1) + p.B.extent(1) + 8) * S + 0x1p-126;
  wrong.ratio = std::isfinite(y) ? std::abs(y - ref) / allowed : HUGE_VAL;
  return std::abs(y - ref) <= allowed;
}

WrongElement first_wrong(const GateProblem& p) {
  std::vector<gemm::F64Term> terms{{p.x.values.data(), gemm::transposed(p.W), p.W.extent(1), p.x.sizes.data()}};
  if (p.scale != 0) terms.push_back({p.correction.values.data(), gemm::transposed(p.B), p.B.extent(1), p.correction.sizes.data()});
  WrongElement first;
  gemm::multiply_f64(p.y.extent(0), p.y.extent(1), terms, true, [&](const gemm::F64Columns& done) {
    WrongElement mine, wrong;
    for (std::int64_t t = 0; t < p.y.extent(0); ++t)
      for (std::int64_t c = 0; c < done.columns; ++c)
        if (!right(p, t, done.column + c, done.values[t * done.pitch + c], done.sizes[t * done.pitch + c], wrong) && wrong.index < mine.index) mine = wrong;
#pragma omp critical(lora_gate)
    if (mine.index < first.index) first = mine;
  });
  return first;
}

template <class Property>
std::vector<bool> rows_where(Matrix m, Property property) {
  std::vector<bool> all(static_cast<std::size_t>(m.extent(0)));
  for (std::int64_t r = 0; r < m.extent(0); ++r) all[static_cast<std::size_t>(r)] = std::all_of(m.data() + r * m.extent(1), m.data() + (r + 1) * m.extent(1), property);
  return all;
}

}  // namespace

GateResult check_y(const GateCall& call) {
  const TensorRefMap& in = call.inputs;
  const auto x = in.at("x").view<const float, 2>(), W = in.at("W").view<const float, 2>(), A = in.at("A").view<const float, 2>(), B = in.at("B").view<const float, 2>();
  const float scale = in.at("scale").scalar<float>();
  const std::int64_t T = x.extent(0), I = x.extent(1), O = W.extent(0), R = A.extent(0);
  const TensorRef* y = call.outputs.find("y");
  if (!y) return Mismatch{"y", {}, "", "", 0, "output is missing"};
  if (auto bad = same_form("y", *y, {Dtype::f32, {T, O}, nullptr})) return bad;
  if (T * O == 0) return std::nullopt;

  const auto finite = [](float v) { return std::isfinite(v); };
  const auto integer = [](float v) { return v == std::nearbyint(v) && std::isfinite(v); };
  GateProblem problem{W, B, y->view<const float, 2>(), {}, {}, scale, rows_where(x, finite), rows_where(W, finite), rows_where(x, integer), rows_where(W, integer), rows_where(B, integer),
                      integer(scale) && std::ranges::all_of(A.flat(), integer)};
  problem.x = {{x.flat().begin(), x.flat().end()}, std::vector<double>(static_cast<std::size_t>(T * I))};
  std::ranges::transform(problem.x.values, problem.x.sizes.begin(), [](double v) { return std::abs(v); });
  if (scale != 0) {
    std::vector<double> &h = problem.correction.values, &sizes = problem.correction.sizes;
    h.resize(static_cast<std::size_t>(T * R));
    sizes.resize(h.size());
    gemm::multiply_f64(T, R, std::vector<gemm::F64Term>{{problem.x.values.data(), gemm::transposed(A), I, problem.x.sizes.data()}}, h.data(), sizes.data());
    for (double& v : h) v *= static_cast<double>(scale);
    for (double& v : sizes) v *= std::abs(static_cast<double>(scale));
  }
  const WrongElement wrong = first_wrong(problem);
  if (wrong.index == INT64_MAX) return std::nullopt;
  Tensor wanted = Tensor::scalar(wrong.wanted);
  return Mismatch{"y", unflatten(y->shape, wrong.index), element_text(*y, wrong.index), element_text(wanted.ref(), 0), wrong.ratio, wrong.ratio == 0 ? "must be exact: integers, or what is not finite" : ""};
}

}  // namespace faibench::lora_adapter_apply
