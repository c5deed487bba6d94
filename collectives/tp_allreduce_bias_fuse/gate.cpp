// The contract's own gate: an error bound from the addends, overflow as the output dtype has it, and equal bits on every run.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "collectives/tp_allreduce_bias_fuse/tp_allreduce_bias_fuse.h"

namespace faibench::tp_allreduce_bias_fuse {
namespace {

/// Per output dtype: unit roundoff, half the spacing (or the flushed range) below the normals, largest finite value, where rounding to infinity begins.
struct Rounding { double u, t, largest, overflow; };
template <class T> constexpr Rounding rounding{};
template <> constexpr Rounding rounding<float>{0x1p-24, 0x1p-126, 0x1.fffffep127, 0x1.ffffffp127};
template <> constexpr Rounding rounding<bf16>{0x1p-8, 0x1p-126, 0x1.fep127, 0x1.ffp127};
template <> constexpr Rounding rounding<f16>{0x1p-11, 0x1p-25, 65504, 65520};

constexpr double unjudged_above = 3.4e38;  // S: an f32 accumulator may overflow in one order and not in another

/// Error over what is allowed; at most 1 is right, infinity is beyond measure.
template <class T>
double error_ratio(double out, double ref, double S, double P) {
  constexpr Rounding r = rounding<T>;
  if (std::isnan(ref)) return std::isnan(out) ? 0 : HUGE_VAL;
  if (std::isinf(ref)) return out == ref ? 0 : HUGE_VAL;
  if (S > unjudged_above) return 0;
  const double size = std::abs(ref);
  if (std::isinf(out)) return size > r.largest * (1 - 2 * r.u) && std::signbit(out) == std::signbit(ref) ? 0 : HUGE_VAL;
  if (size >= r.overflow * (1 + 2 * r.u)) return HUGE_VAL;
  const double ratio = std::abs(out - ref) / (1.01 * r.u * size + (P + 1) * 0x1p-24 * S + r.t);
  return ratio <= 1 ? ratio : std::isnan(ratio) ? HUGE_VAL : ratio;
}

std::string number_text(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

constexpr std::int64_t block = 1024;

template <class T>
GateResult check_elements(const TensorRef& partials, const TensorRef& bias, const TensorRef& out) {
  const std::int64_t P = partials.shape[0], N = partials.shape[2], L = out.size();
  const T* x = reinterpret_cast<const T*>(partials.data);
  const T* b = reinterpret_cast<const T*>(bias.data);
  const T* y = reinterpret_cast<const T*>(out.data);
  const auto sums = [&](std::int64_t first, std::int64_t n, double* ref, double* S) {
    for (std::int64_t i = 0; i < n; ++i) ref[i] = S[i] = 0;
    for (std::int64_t p = 0; p < P; ++p)
      for (std::int64_t i = 0; i < n; ++i) {
        const double value = to_float(x[p * L + first + i]);
        ref[i] += value;
        S[i] += std::abs(value);
      }
    for (std::int64_t i = 0, column = first % N; i < n; ++i, column = column + 1 == N ? 0 : column + 1) {
      ref[i] += to_float(b[column]);
      S[i] += std::abs(static_cast<double>(to_float(b[column])));
    }
  };
  std::int64_t first_wrong = L;
  const std::int64_t blocks = (L + block - 1) / block;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) if (blocks >= 64)
  for (std::int64_t k = 0; k < blocks; ++k) {
    double ref[block], S[block];
    const std::int64_t first = k * block, n = std::min(block, L - first);
    if (first > first_wrong) continue;
    sums(first, n, ref, S);
    for (std::int64_t i = 0; i < n && first_wrong > first; ++i)
      if (error_ratio<T>(to_float(y[first + i]), ref[i], S[i], static_cast<double>(P)) > 1) first_wrong = first + i;
  }
  if (first_wrong == L) return std::nullopt;
  double ref, S;
  sums(first_wrong, 1, &ref, &S);
  return Mismatch{"out", unflatten(out.shape, first_wrong), element_text(out, first_wrong), number_text(ref),
                  error_ratio<T>(to_float(y[first_wrong]), ref, S, static_cast<double>(P)), ""};
}

}  // namespace

GateResult check_out(const TensorRefMap& inputs, const TensorRef& out) {
  const TensorRef& partials = inputs.at("partials");
  if (auto bad = same_form("out", out, TensorRef{partials.dtype, {partials.shape[1], partials.shape[2]}, nullptr})) return bad;
  if (out.size() == 0) return std::nullopt;
  switch (out.dtype) {
    case Dtype::f16: return check_elements<f16>(partials, inputs.at("bias"), out);
    case Dtype::bf16: return check_elements<bf16>(partials, inputs.at("bias"), out);
    default: return check_elements<float>(partials, inputs.at("bias"), out);
  }
}

GateResult check_same_bits(const TensorRef& out, const TensorRef& again, const std::string& what) {
  if (auto bad = same_form("out", again, out)) return bad;
  const std::size_t width = static_cast<std::size_t>(size_of(out.dtype));
  if (out.bytes() == 0 || std::memcmp(out.data, again.data, static_cast<std::size_t>(out.bytes())) == 0) return std::nullopt;
  std::int64_t i = 0;
  while (std::memcmp(out.data + static_cast<std::size_t>(i) * width, again.data + static_cast<std::size_t>(i) * width, width) == 0) ++i;
  return Mismatch{"out", unflatten(out.shape, i), element_text(again, i), element_text(out, i), 0, what};
}

}  // namespace faibench::tp_allreduce_bias_fuse
