#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/grad_signsgd_error_feedback/passes.cpp"
#include <hwy/foreach_target.h>  // recompiles this file for each target
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "collectives/grad_signsgd_error_feedback/passes.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::grad_signsgd_error_feedback::passes::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Every pass: whole vectors first, 8 or 16 elements and so whole bytes of signs, then elements one by one. A target of one lane has no vectors and does all of it one by one.
#if HWY_TARGET == HWY_SCALAR
constexpr std::int64_t lanes = std::numeric_limits<std::int64_t>::max() / 8;
#else
const hn::ScalableTag<float> d;
const hn::Half<decltype(d)> half;
const hn::ScalableTag<double> wide;
const hn::RebindToSigned<decltype(d)> words;
using Vector = hn::Vec<decltype(d)>;
using Wide = hn::Vec<decltype(wide)>;
constexpr std::int64_t lanes = hn::MaxLanes(d);

Vector Sum(const float* grad, const float* error, std::int64_t i) { return hn::Add(hn::LoadU(d, grad + i), hn::LoadU(d, error + i)); }
// Adds lanes of f32 to two vectors of f64.
void Add(Vector v, Wide& low, Wide& high) {
  low = hn::Add(low, hn::PromoteTo(wide, hn::LowerHalf(half, v)));
  high = hn::Add(high, hn::PromoteTo(wide, hn::UpperHalf(half, v)));
}
// As integers, without their sign, Inf and NaN are the largest floats.
bool AllFinite(hn::Vec<decltype(words)> largest) { return hn::GetLane(hn::MaxOfLanes(words, largest)) < 0x7f800000; }
void Put(Vector v, float* to, bool streamed) {
  if (streamed) hn::Stream(v, d, to);
  else hn::StoreU(v, d, to);
}
#endif

bool IsFinite(float x) { return std::abs(x) <= std::numeric_limits<float>::max(); }
bool Bit(const std::uint8_t* bits, std::int64_t i) { return bits[i / 8] >> (i % 8) & 1; }

bool Signs(const float* grad, const float* error, std::int64_t m, std::uint8_t* bits, double& sum) {
  std::int64_t i = 0;
  bool finite = true;
  sum = 0;
#if HWY_TARGET != HWY_SCALAR
  Wide sums[4] = {hn::Zero(wide), hn::Zero(wide), hn::Zero(wide), hn::Zero(wide)};  // chains of additions that do not wait for one another
  auto largest = hn::Zero(words);
  for (; i + 2 * lanes <= m; i += 2 * lanes)
    for (int k = 0; k < 2; ++k) {
      const Vector c = Sum(grad, error, i + k * lanes), size = hn::Abs(c);
      Add(size, sums[2 * k], sums[2 * k + 1]);
      largest = hn::Max(largest, hn::BitCast(words, size));
      hn::StoreMaskBits(d, hn::Lt(c, hn::Zero(d)), bits + (i + k * lanes) / 8);
    }
  sum = hn::GetLane(hn::SumOfLanes(wide, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
  finite = AllFinite(largest);
#endif
  for (; i < m; ++i) {
    const float c = grad[i] + error[i];
    sum += std::abs(c);
    finite &= IsFinite(c);
    if (i % 8 == 0) bits[i / 8] = 0;
    bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | (c < 0) << (i % 8));
  }
  return finite;
}

template <bool streamed>
void ApplySignsTo(const float* grad, const float* error, std::int64_t m, const std::uint8_t* bits, float scale, const Out& out) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Vector plus = hn::Set(d, scale), minus = hn::Neg(plus);
  for (; i + lanes <= m; i += lanes) {
    const Vector update = hn::IfThenElse(hn::LoadMaskBits(d, bits + i / 8), minus, plus);
    Put(hn::Sub(Sum(grad, error, i), update), out.new_error + i, streamed);
    Put(update, out.update + i, streamed);
    if (out.average) Put(hn::Add(update, hn::Zero(d)), out.average + i, streamed);
  }
  if (streamed) hwy::FlushStream();
#endif
  for (; i < m; ++i) {
    out.update[i] = Bit(bits, i) ? -scale : scale;
    out.new_error[i] = grad[i] + error[i] - out.update[i];
    if (out.average) out.average[i] = out.update[i] + 0.0f;
  }
}
void ApplySigns(const float* grad, const float* error, std::int64_t m, const std::uint8_t* bits, float scale, const Out& out) {
  if (out.streamed) ApplySignsTo<true>(grad, error, m, bits, scale, out);
  else ApplySignsTo<false>(grad, error, m, bits, scale, out);
}

template <bool streamed>
void ApplyNothingTo(const float* grad, const float* error, std::int64_t m, const Out& out) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; i + lanes <= m; i += lanes) {
    Put(Sum(grad, error, i), out.new_error + i, streamed);
    Put(hn::Zero(d), out.update + i, streamed);
    if (out.average) Put(hn::Zero(d), out.average + i, streamed);
  }
  if (streamed) hwy::FlushStream();
#endif
  for (; i < m; ++i) {
    out.update[i] = 0;
    out.new_error[i] = grad[i] + error[i];
    if (out.average) out.average[i] = 0;
  }
}
void ApplyNothing(const float* grad, const float* error, std::int64_t m, const Out& out) {
  if (out.streamed) ApplyNothingTo<true>(grad, error, m, out);
  else ApplyNothingTo<false>(grad, error, m, out);
}

void Expand(const std::uint8_t* bits, float scale, std::int64_t m, float* update) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Vector plus = hn::Set(d, scale), minus = hn::Neg(plus);
  for (; i + lanes <= m; i += lanes) hn::StoreU(hn::IfThenElse(hn::LoadMaskBits(d, bits + i / 8), minus, plus), d, update + i);
#endif
  for (; i < m; ++i) update[i] = Bit(bits, i) ? -scale : scale;
}

bool Scan(const float* grad, const float* error, std::int64_t m, float* largest, double& sum) {
  bool finite = true;
  sum = 0;
  std::int64_t first = 0;
#if HWY_TARGET != HWY_SCALAR
  Wide sums[4] = {hn::Zero(wide), hn::Zero(wide), hn::Zero(wide), hn::Zero(wide)};
  auto most = hn::Zero(words);
  for (; first + group <= m; first += group) {
    auto of_group = hn::Zero(words);
    for (std::int64_t i = 0; i < group; i += 2 * lanes)
      for (int k = 0; k < 2; ++k) {
        const std::int64_t at = first + i + k * lanes;
        of_group = hn::Max(of_group, hn::BitCast(words, hn::Abs(Sum(grad, error, at))));
        Add(hn::Abs(hn::LoadU(d, grad + at)), sums[2 * k], sums[2 * k + 1]);
      }
    most = hn::Max(most, of_group);
    largest[first / group] = hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(words, of_group)));
  }
  sum = hn::GetLane(hn::SumOfLanes(wide, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
  finite = AllFinite(most);
#endif
  for (; first < m; first += group) {
    float of_group = 0;
    for (std::int64_t i = first; i < first + group && i < m; ++i) {
      const float size = std::abs(grad[i] + error[i]);
      finite &= IsFinite(size);
      of_group = size > of_group ? size : of_group;
      sum += std::abs(grad[i]);
    }
    largest[first / group] = of_group;
  }
  return finite;
}

std::uint64_t AtLeast(const float* grad, const float* error, std::int64_t m, float unit, float limit) {
  std::uint64_t found = 0;
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Vector by = hn::Set(d, unit), least = hn::Set(d, limit);
  for (; i + lanes <= m; i += lanes) {
    std::uint64_t bits = 0;
    hn::StoreMaskBits(d, hn::Ge(hn::Div(hn::Abs(Sum(grad, error, i)), by), least), reinterpret_cast<std::uint8_t*>(&bits));
    found |= bits << i;
  }
#endif
  for (; i < m; ++i) found |= static_cast<std::uint64_t>(std::abs(grad[i] + error[i]) / unit >= limit) << i;
  return found;
}

void Mean(const Term* terms, int count, std::int64_t m, float* average) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Wide by = hn::Set(wide, static_cast<double>(count));
  const hn::Rebind<float, decltype(wide)> narrow;
  for (; i + lanes <= m; i += lanes) {
    Wide low = hn::Zero(wide), high = low;
    for (const Term* term = terms; term < terms + count; ++term) {
      if (term->values) {
        Add(hn::LoadU(d, term->values + i), low, high);
      } else {
        const Vector plus = hn::Set(d, term->scale);
        Add(hn::IfThenElse(hn::LoadMaskBits(d, term->bits + i / 8), hn::Neg(plus), plus), low, high);
      }
    }
    hn::StoreU(hn::DemoteTo(narrow, hn::Div(low, by)), narrow, average + i);
    hn::StoreU(hn::DemoteTo(narrow, hn::Div(high, by)), narrow, average + i + lanes / 2);
  }
#endif
  for (; i < m; ++i) {
    double sum = 0;
    for (const Term* term = terms; term < terms + count; ++term) sum += term->values ? term->values[i] : Bit(term->bits, i) ? -term->scale : term->scale;
    average[i] = static_cast<float>(sum / count);
  }
}

}  // namespace faibench::grad_signsgd_error_feedback::passes::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::grad_signsgd_error_feedback::passes {

HWY_EXPORT(Signs);
HWY_EXPORT(ApplySigns);
HWY_EXPORT(ApplyNothing);
HWY_EXPORT(Expand);
HWY_EXPORT(Scan);
HWY_EXPORT(AtLeast);
HWY_EXPORT(Mean);

bool signs(const float* grad, const float* error, std::int64_t m, std::uint8_t* bits, double& sum) { return HWY_DYNAMIC_DISPATCH(Signs)(grad, error, m, bits, sum); }
void apply_signs(const float* grad, const float* error, std::int64_t m, const std::uint8_t* bits, float scale, const Out& out) {
  HWY_DYNAMIC_DISPATCH(ApplySigns)(grad, error, m, bits, scale, out);
}
void apply_nothing(const float* grad, const float* error, std::int64_t m, const Out& out) { HWY_DYNAMIC_DISPATCH(ApplyNothing)(grad, error, m, out); }
void expand(const std::uint8_t* bits, float scale, std::int64_t m, float* update) { HWY_DYNAMIC_DISPATCH(Expand)(bits, scale, m, update); }
bool scan(const float* grad, const float* error, std::int64_t m, float* largest, double& sum) { return HWY_DYNAMIC_DISPATCH(Scan)(grad, error, m, largest, sum); }
std::uint64_t at_least(const float* grad, const float* error, std::int64_t m, float unit, float limit) { return HWY_DYNAMIC_DISPATCH(AtLeast)(grad, error, m, unit, limit); }
void mean(const Term* terms, int count, std::int64_t m, float* average) { HWY_DYNAMIC_DISPATCH(Mean)(terms, count, m, average); }

Out outputs(View<float, 1> update, View<float, 1> new_error, float* average) {
  constexpr std::int64_t streamed_elements = 1 << 22;
  const auto on_border = [](const float* p) { return reinterpret_cast<std::uintptr_t>(p) % 64 == 0; };
  return {update.data(), new_error.data(), average, average && update.size() >= streamed_elements && on_border(update.data()) && on_border(new_error.data()) && on_border(average)};
}

void mean_with_peers(std::int32_t rank, Bytes peers, Offsets peer_offsets, std::int64_t first, std::int64_t m, const float* update, float* average) {
  const std::int64_t ranks = peer_offsets.size(), block_bytes = first / sign_block::block * (4 + sign_block::block / 8);
  std::vector<Term> terms(static_cast<std::size_t>(ranks));
  for (std::int64_t r = 0; r < ranks; ++r) {
    Term& term = terms[static_cast<std::size_t>(r)];
    if (r == rank) {
      term = {update, nullptr, 0};
      continue;
    }
    const std::uint8_t* bytes = peers.data() + peer_offsets[r < rank ? r : r - 1] + block_bytes;
    term = {nullptr, bytes + 4, 0};
    std::memcpy(&term.scale, bytes, 4);
  }
  mean(terms.data(), static_cast<int>(ranks), m, average);
}

}  // namespace faibench::grad_signsgd_error_feedback::passes
#endif
