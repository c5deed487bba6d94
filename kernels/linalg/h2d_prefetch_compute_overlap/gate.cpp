#include "kernels/linalg/h2d_prefetch_compute_overlap/gate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace faibench::h2d_prefetch_compute_overlap {
namespace {

constexpr std::int64_t block = 64;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double u = 0x1p-24;
constexpr double half_subnormal = 0x1p-150;    // what rounding a product to a subnormal f32 may lose; a large gain makes it count
constexpr double f32_range = 0x1.fffff0p127;  // beyond it f32 may be infinite

/// For |x| <= 700, within 1e-12: a ten-thousandth of what the bound is made of. Without a call or a branch, so that the compiler makes vectors of it.
inline double plain_exp(double x) {
  const double shifted = x * 0x1.71547652b82fep0 + 0x1.8p52, n = shifted - 0x1.8p52;
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  double p = 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return std::bit_cast<double>(std::bit_cast<std::int64_t>(p) + (std::bit_cast<std::int64_t>(shifted) << 52));
}

/// Elements on their way through the rounds, in f64.
struct Elements {
  alignas(64) double v[block], bound[block], gain[block], bias[block];
  alignas(64) double skipped[block];  // 1 where a value was beyond the range of f32, or z was -Inf: not compared
};

__attribute__((target_clones("default", "avx2", "avx512f")))
void run_rounds(Elements& at, std::int32_t rounds) {
  for (std::int32_t round = 0; round < rounds; ++round)
    for (std::int64_t i = 0; i < block; ++i) {
      const double product = at.gain[i] * at.v[i], z = product + at.bias[i];
      const double largest = std::abs(product) > std::abs(z) ? std::abs(product) : std::abs(z);
      double skip = largest > f32_range ? 1.0 : 0.0;
      skip = largest == infinity ? 0.0 : skip;
      skip = z == -infinity ? 1.0 : skip;
      at.skipped[i] = at.skipped[i] > skip ? at.skipped[i] : skip;
      double x = -z < 700.0 ? -z : 700.0;
      x = x > -700.0 ? x : -700.0;
      const double silu = z / (1.0 + plain_exp(x));
      const double error = std::abs(at.gain[i]) * at.bound[i] + 2 * u * (std::abs(product) + std::abs(at.bias[i]));
      at.bound[i] = 1.1 * error + (32.0 + 4.0 * std::abs(z)) * u * std::abs(silu);
      at.v[i] = silu;
    }
}

struct Inputs {
  explicit Inputs(const TensorRefMap& inputs)
      : data(inputs.at("data").flat<const float>()), scale(inputs.at("scale").flat<const float>()), gain(inputs.at("gain").flat<const float>()), bias(inputs.at("bias").flat<const float>()),
        offsets(inputs.at("offsets").flat<const std::int64_t>()), rounds(inputs.at("rounds").scalar<std::int32_t>()), D(inputs.at("data").shape[1]) {}
  std::span<const float> data, scale, gain, bias;
  std::span<const std::int64_t> offsets;
  std::int32_t rounds;
  std::int64_t D;

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(data.size()); }
  /// The chunk that a row lies in.
  [[nodiscard]] std::size_t chunk(std::int64_t row) const { return static_cast<std::size_t>(std::ranges::upper_bound(offsets, row) - offsets.begin()) - 1; }

  void load(std::int64_t first, Elements& at) const {
    std::int64_t row = first / D, column = first % D;
    std::size_t i = chunk(row);
    for (std::int64_t k = 0; k < block; ++k) {
      if (first + k >= size()) {
        at.v[k] = at.gain[k] = at.bias[k] = at.bound[k] = at.skipped[k] = 0;
        continue;
      }
      while (offsets[i + 1] <= row) ++i;
      at.v[k] = double{scale[i]} * double{data[static_cast<std::size_t>(first + k)]};
      at.gain[k] = gain[static_cast<std::size_t>(column)];
      at.bias[k] = bias[static_cast<std::size_t>(column)];
      at.bound[k] = u * std::abs(at.v[k]) + half_subnormal;
      at.skipped[k] = std::abs(at.v[k]) > f32_range && std::abs(at.v[k]) != infinity ? 1.0 : 0.0;
      if (++column == D) {
        column = 0;
        ++row;
      }
    }
  }
};

constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

double tolerance(const Elements& at, std::int64_t k) { return 2 * at.bound[k] + 0x1p-120; }

bool right(const Elements& at, std::int64_t k, float out) {
  const double wanted = at.v[k], got = out;
  if (at.skipped[k] != 0) return true;
  if (std::isnan(wanted)) return std::isnan(got);
  if (std::isinf(wanted)) return got == wanted;
  return std::abs(got - wanted) <= tolerance(at, k) || (std::isnan(at.bound[k]) && !std::isnan(got));
}

bool right_product(const Inputs& in, std::int64_t k, float out) {
  const float wanted = in.scale[in.chunk(k / in.D)] * in.data[static_cast<std::size_t>(k)];
  return std::isnan(wanted) ? std::isnan(out) : std::bit_cast<std::uint32_t>(wanted) == std::bit_cast<std::uint32_t>(out);
}

/// The first wrong element, or `none`.
std::int64_t first_wrong(const Inputs& in, std::span<const float> out) {
  std::int64_t wrong = none;
#pragma omp parallel for schedule(dynamic, 64) reduction(min : wrong) if (in.size() * (in.rounds + 1) >= 1 << 16)  // less is done before a second thread is awake
  for (std::int64_t first = 0; first < in.size(); first += block) {
    if (wrong != none) continue;
    const std::int64_t count = std::min(block, in.size() - first);
    if (in.rounds == 0) {
      for (std::int64_t k = first; k < first + count && wrong == none; ++k)
        if (!right_product(in, k, out[static_cast<std::size_t>(k)])) wrong = k;
      continue;
    }
    Elements at;
    in.load(first, at);
    run_rounds(at, in.rounds);
    for (std::int64_t k = 0; k < count && wrong == none; ++k)
      if (!right(at, k, out[static_cast<std::size_t>(first + k)])) wrong = first + k;
  }
  return wrong;
}

GateResult check_call(const TensorRefMap& inputs, const TensorRefMap& outputs) {
  const TensorRef& data = inputs.at("data");
  const TensorRef* out = outputs.find("out");
  if (!out) return Mismatch{"out", {}, "", "", 0, "output is missing"};
  if (auto bad = same_form("out", *out, data)) return bad;
  const Inputs in(inputs);
  const auto values = out->flat<const float>();
  const std::int64_t wrong = first_wrong(in, values);
  if (wrong == none) return std::nullopt;
  const std::string got = element_text(*out, wrong);
  if (in.rounds == 0) {
    const Tensor wanted = Tensor::scalar(in.scale[in.chunk(wrong / in.D)] * in.data[static_cast<std::size_t>(wrong)]);
    return Mismatch{"out", unflatten(out->shape, wrong), got, element_text(wanted.ref(), 0), 0, "rounds is 0: exact"};
  }
  Elements at;
  in.load(wrong / block * block, at);
  run_rounds(at, in.rounds);
  const std::int64_t k = wrong % block;
  const double error = std::abs(double{values[static_cast<std::size_t>(wrong)]} - at.v[k]) / tolerance(at, k);
  return Mismatch{"out", unflatten(out->shape, wrong), got, element_text(Tensor::scalar(at.v[k]).ref(), 0), std::isfinite(error) ? error : 0, ""};
}

/// Other data of the same shape: that of the call, moved on by some elements more each time.
std::vector<Probe> later_calls(const TensorRefMap& inputs) {
  std::vector<Probe> calls;
  const TensorRef& data = inputs.at("data");
  if (data.size() < twenty_calls_from || data.size() > twenty_calls_to) return calls;
  const auto from = data.flat<const float>();
  for (std::size_t call = 1; call < 20; ++call) {
    TensorMap changed;
    for (const auto& [name, tensor] : inputs) changed.add(name, Tensor::copy_of(tensor));
    std::ranges::rotate_copy(from, from.begin() + static_cast<std::ptrdiff_t>(call * 7001 % from.size()), changed.at("data").flat<float>().begin());
    calls.push_back({std::move(changed), 0});
  }
  return calls;
}

GateResult check(const GateCall& call) {
  if (auto bad = check_call(call.inputs, call.outputs)) return bad;
  if (call.probes.empty()) return std::nullopt;
  const std::vector<Probe> later = later_calls(call.inputs);
  for (std::size_t i = 0; i < std::min(later.size(), call.probes.size()); ++i)
    if (auto bad = check_call(refs(later[i].inputs), refs(call.probes[i]))) {
      bad->what = "call " + std::to_string(i + 2) + " of 20 in a row" + (bad->what.empty() ? "" : ": " + bad->what);
      return bad;
    }
  return std::nullopt;
}

}  // namespace

Gate gate() {
  return {"out: |out - ref| <= 2*e + 2^-120, e the contract's bound along the f64 reference (u = 2^-24; e = u*|v| + 2^-150, each round e = 1.1*(|gain|*e + 2u*(|gain*v| + |bias|)) + (32 + 4*|z|)*u*|silu(z)|); "
          "exact when rounds is 0; NaN where and only where ref is NaN, Inf matched in sign; 20 calls in a row with different data",
          check, false, false, later_calls};
}

}  // namespace faibench::h2d_prefetch_compute_overlap
