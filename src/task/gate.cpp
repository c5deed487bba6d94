#include "task/gate.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace faibench {
namespace {

template <class T> double as_double(T x) { return static_cast<double>(x); }
double as_double(f16 x) { return to_float(x); }
double as_double(bf16 x) { return to_float(x); }
double as_double(Bool8 x) { return x.bits; }

std::string number_text(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

Mismatch wrong_element(const std::string& name, const TensorRef& got, const TensorRef& wanted, std::int64_t i, double ratio) {
  return {name, unflatten(got.shape, i), element_text(got, i), element_text(wanted, i), ratio, ""};
}

// The judge compares up to gigabytes per block: whole equal ranges go by memcmp.
GateResult exact_tensor(const std::string& name, const TensorRef& got, const TensorRef& wanted) {
  if (got.dtype != wanted.dtype) return Mismatch{name, {}, std::string(name_of(got.dtype)), std::string(name_of(wanted.dtype)), 0, "dtype differs"};
  if (auto bad = same_form(name, got, wanted)) return bad;
  const std::int64_t bytes = got.bytes();
  if (bytes == 0 || std::memcmp(got.data, wanted.data, static_cast<std::size_t>(bytes)) == 0) return std::nullopt;
  const std::int64_t width = size_of(got.dtype);
  for (std::int64_t i = 0;; ++i)
    if (std::memcmp(got.data + i * width, wanted.data + i * width, static_cast<std::size_t>(width)) != 0) return wrong_element(name, got, wanted, i, 0);
}

// Index of the first element out of tolerance, -1 if none, and its error over tolerance.
template <class G, class W>
std::int64_t first_far(std::span<const G> got, std::span<const W> wanted, double rtol, double atol, double& ratio) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double g = as_double(got[i]), w = as_double(wanted[i]);
    const double error = std::abs(g - w), allowed = atol + rtol * std::abs(w);
    if (error <= allowed && std::isfinite(w)) continue;  // also false for NaN
    if ((std::isnan(g) && std::isnan(w)) || (g == w)) continue;
    ratio = allowed > 0 && std::isfinite(error) ? error / allowed : HUGE_VAL;
    return static_cast<std::int64_t>(i);
  }
  return -1;
}

GateResult close_tensor(const std::string& name, const TensorRef& got, const TensorRef& wanted, double rtol, double atol) {
  if (auto bad = same_form(name, got, wanted)) return bad;
  double ratio = 0;
  const std::int64_t i = visit_dtype(got.dtype, [&]<class G>(G) {
    return visit_dtype(wanted.dtype, [&]<class W>(W) { return first_far(got.flat<const G>(), wanted.flat<const W>(), rtol, atol, ratio); });
  });
  if (i < 0) return std::nullopt;
  return wrong_element(name, got, wanted, i, ratio);
}

}  // namespace

std::string to_string(const Mismatch& m) {
  std::string text = m.tensor;
  if (!m.index.empty()) text += to_string(m.index);
  if (!m.got.empty() || !m.wanted.empty()) text += ": got " + m.got + (m.wanted.empty() ? "" : ", wanted " + m.wanted);
  if (m.error_over_tolerance > 0) text += std::isfinite(m.error_over_tolerance) ? " (error " + number_text(m.error_over_tolerance) + " x tolerance)" : " (error far beyond tolerance)";
  if (!m.what.empty()) text += (text.empty() ? "" : ": ") + m.what;
  return text;
}

GateResult same_form(const std::string& name, const TensorRef& got, const TensorRef& wanted) {
  const bool dtype_fits = got.dtype == wanted.dtype || (is_float(got.dtype) && wanted.dtype == Dtype::f64);
  if (!dtype_fits) return Mismatch{name, {}, std::string(name_of(got.dtype)), std::string(name_of(wanted.dtype)), 0, "dtype differs"};
  if (got.shape != wanted.shape) return Mismatch{name, {}, to_string(got.shape), to_string(wanted.shape), 0, "shape differs"};
  return std::nullopt;
}

GateResult exact_outputs(const GateCall& call) {
  for (const auto& [name, wanted] : call.expected) {
    const TensorRef* got = call.outputs.find(name);
    if (!got) return Mismatch{name, {}, "", "", 0, "output is missing"};
    if (auto bad = exact_tensor(name, *got, wanted)) return bad;
  }
  return std::nullopt;
}

Gate exact_gate() { return {"exact: every element equal, floats bit for bit", exact_outputs}; }

GateResult close_outputs(const GateCall& call, const std::vector<Tolerance>& tolerances) {
  for (const auto& [name, wanted] : call.expected) {
    const TensorRef* got = call.outputs.find(name);
    if (!got) return Mismatch{name, {}, "", "", 0, "output is missing"};
    const Tolerance* tolerance = nullptr;
    for (const Tolerance& t : tolerances)
      if (t.dtype == got->dtype && (t.tensor == name || (t.tensor.empty() && !tolerance))) tolerance = &t;
    GateResult bad = tolerance ? close_tensor(name, *got, wanted, tolerance->rtol, tolerance->atol) : exact_tensor(name, *got, wanted);
    if (bad) return bad;
  }
  return std::nullopt;
}

Gate close_gate(std::vector<Tolerance> tolerances) {
  std::string text;
  for (const Tolerance& t : tolerances)
    text += (text.empty() ? "" : ", ") + (t.tensor.empty() ? "" : t.tensor + " ") + std::string(name_of(t.dtype)) + " close(" + number_text(t.rtol) + ", " + number_text(t.atol) + ")";
  return {text, [tolerances](const GateCall& call) { return close_outputs(call, tolerances); }};
}

Shape unflatten(const Shape& shape, std::int64_t flat) {
  Shape index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = shape[d] ? flat % shape[d] : 0;
    flat = shape[d] ? flat / shape[d] : 0;
  }
  return index;
}

std::string element_text(const TensorRef& tensor, std::int64_t flat) {
  return visit_dtype(tensor.dtype, [&]<class T>(T) -> std::string {
    const T value = tensor.flat<const T>()[static_cast<std::size_t>(flat)];
    if constexpr (std::is_integral_v<T>) {
      return std::to_string(value);
    } else {
      const double number = as_double(value);
      if (std::isfinite(number)) return number_text(number);
      std::uint64_t bits = 0;
      std::memcpy(&bits, &value, sizeof value);
      char buffer[48];
      std::snprintf(buffer, sizeof buffer, "%g (0x%0*llx)", number, static_cast<int>(2 * sizeof value), static_cast<unsigned long long>(bits));
      return buffer;
    }
  });
}

}  // namespace faibench
