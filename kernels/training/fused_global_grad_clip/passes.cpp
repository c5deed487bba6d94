#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/training/fused_global_grad_clip/passes.cpp"
#include <hwy/foreach_target.h>  // recompiles this file for each target
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/training/fused_global_grad_clip/passes.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::fused_global_grad_clip::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Lanes of f64, and as many elements of each kind.
const hn::ScalableTag<double> wide;
using Wide = hn::Vec<decltype(wide)>;
const hn::Rebind<float, decltype(wide)> narrow;
const hn::Rebind<std::uint32_t, decltype(wide)> words;
const hn::Rebind<std::uint16_t, decltype(wide)> halves;

Wide Load(const float* p) { return hn::PromoteTo(wide, hn::LoadU(narrow, p)); }
Wide Load(const bf16* p) {
  const auto bits = hn::PromoteTo(words, hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(p)));
  return hn::PromoteTo(wide, hn::BitCast(narrow, hn::ShiftLeft<16>(bits)));
}

void Store(Wide x, float* p) { hn::StoreU(hn::DemoteTo(narrow, x), narrow, p); }
// To f32 by rounding to nearest, then to 16 bits: a tie that the first rounding makes is within the gate by orders.
void Store(Wide x, bf16* p) {
  const auto bits = hn::BitCast(words, hn::DemoteTo(narrow, x));
  const auto nan = hn::Gt(hn::And(bits, hn::Set(words, 0x7fffffffu)), hn::Set(words, 0x7f800000u));
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fffu))));
  const auto result = hn::IfThenElse(nan, hn::Or(hn::ShiftRight<16>(bits), hn::Set(words, 0x40u)), rounded);
  const hn::Rebind<std::int32_t, decltype(wide)> signed_words;
  const hn::RebindToUnsigned<decltype(hn::Rebind<std::uint16_t, decltype(wide)>())> d;
  hn::StoreU(hn::DemoteTo(d, hn::BitCast(signed_words, result)), d, reinterpret_cast<std::uint16_t*>(p));
}

const hn::ScalableTag<std::uint8_t> bytes;

// A block of 64 bytes from a small buffer to an aligned place, past the caches.
void StreamLine(const std::uint8_t* from, std::uint8_t* to) {
  for (std::size_t i = 0; i < 64; i += hn::Lanes(bytes)) hn::Stream(hn::Load(bytes, from + i), bytes, to + i);
}
void CopyLine(const std::uint8_t* from, std::uint8_t* to) {
  for (std::size_t i = 0; i < 64; i += hn::Lanes(bytes)) hn::Stream(hn::LoadU(bytes, from + i), bytes, to + i);
}

template <class T>
constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));

// Elements before `out` reaches a line's start.
template <class T>
std::int64_t Head(const T* out, std::int64_t n) { return std::min<std::int64_t>(n, static_cast<std::int64_t>((64 - reinterpret_cast<std::uintptr_t>(out) % 64) % 64 / sizeof(T))); }

template <class T>
double Squares(const T* g, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(to_float(g[i])) * to_float(g[i]);
  return sum;
}

template <class T, bool copying>
double SquaresOfLines(const T* g, std::int64_t lines, T* copy) {
  constexpr std::int64_t per_line = line<T>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  Wide sums[4] = {hn::Zero(wide), hn::Zero(wide), hn::Zero(wide), hn::Zero(wide)};  // four chains hide the latency of an addition
  for (std::int64_t l = 0; l < lines; ++l, g += per_line) {
    for (std::int64_t i = 0; i < per_line; i += 4 * lanes) {
      const std::int64_t chains = std::min<std::int64_t>(4, (per_line - i) / lanes);
      for (std::int64_t c = 0; c < chains; ++c) {
        const Wide x = Load(g + i + c * lanes);
        sums[(c + l * (per_line / lanes)) % 4] = hn::MulAdd(x, x, sums[(c + l * (per_line / lanes)) % 4]);
      }
    }
    if constexpr (copying) {
      CopyLine(reinterpret_cast<const std::uint8_t*>(g), reinterpret_cast<std::uint8_t*>(copy));
      copy += per_line;
    }
  }
  const Wide sum = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  alignas(64) double lane[64];
  hn::Store(sum, wide, lane);
  double total = 0;
  for (std::int64_t i = 0; i < lanes; ++i) total += lane[i];
  return total;
}

template <class T>
double SumOfSquares(const T* g, std::int64_t n, T* copy, bool streamed) {
  const std::int64_t head = copy && streamed ? Head(copy, n) : 0, lines = (n - head) / line<T>, tail = head + lines * line<T>;
  double sum = Squares(g, head) + Squares(g + tail, n - tail);
  if (copy && streamed) {
    std::copy(g, g + head, copy);
    sum += SquaresOfLines<T, true>(g + head, lines, copy + head);
    std::copy(g + tail, g + n, copy + tail);
    hwy::FlushStream();
  } else {
    sum += SquaresOfLines<T, false>(g + head, lines, nullptr);
    if (copy) std::copy(g, g + n, copy);
  }
  return sum;
}

template <class T>
void Scale(const T* g, std::int64_t n, double factor, T* out, bool streamed) {
  if (factor == 1 && !streamed) {
    std::copy(g, g + n, out);
    return;
  }
  const std::int64_t head = Head(out, n), lines = (n - head) / line<T>, tail = head + lines * line<T>;
  const auto one = [&](std::int64_t i) { out[i] = factor == 1 ? g[i] : round_to<T>(static_cast<double>(to_float(g[i])) * factor); };
  for (std::int64_t i = 0; i < head; ++i) one(i);
  for (std::int64_t i = tail; i < n; ++i) one(i);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  const Wide by = hn::Set(wide, factor);
  for (std::int64_t l = 0; l < lines; ++l) {
    const T* from = g + head + l * line<T>;
    T* to = out + head + l * line<T>;
    if (factor == 1) {
      CopyLine(reinterpret_cast<const std::uint8_t*>(from), reinterpret_cast<std::uint8_t*>(to));
    } else if (streamed) {
      alignas(64) T scaled[line<T>];
      for (std::int64_t i = 0; i < line<T>; i += lanes) Store(hn::Mul(Load(from + i), by), scaled + i);
      StreamLine(reinterpret_cast<const std::uint8_t*>(scaled), reinterpret_cast<std::uint8_t*>(to));
    } else {
      for (std::int64_t i = 0; i < line<T>; i += lanes) Store(hn::Mul(Load(from + i), by), to + i);
    }
  }
  if (streamed) hwy::FlushStream();
}

double SquaresF32(const float* g, std::int64_t n, float* copy, bool streamed) { return SumOfSquares(g, n, copy, streamed); }
double SquaresBf16(const bf16* g, std::int64_t n, bf16* copy, bool streamed) { return SumOfSquares(g, n, copy, streamed); }
void ScaleF32(const float* g, std::int64_t n, double factor, float* out, bool streamed) { Scale(g, n, factor, out, streamed); }
void ScaleBf16(const bf16* g, std::int64_t n, double factor, bf16* out, bool streamed) { Scale(g, n, factor, out, streamed); }

}  // namespace faibench::fused_global_grad_clip::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::fused_global_grad_clip::cpu {

HWY_EXPORT(SquaresF32);
HWY_EXPORT(SquaresBf16);
HWY_EXPORT(ScaleF32);
HWY_EXPORT(ScaleBf16);

template <> double sum_of_squares<float>(const float* g, std::int64_t n, float* copy, bool streamed) { return HWY_DYNAMIC_DISPATCH(SquaresF32)(g, n, copy, streamed); }
template <> double sum_of_squares<bf16>(const bf16* g, std::int64_t n, bf16* copy, bool streamed) { return HWY_DYNAMIC_DISPATCH(SquaresBf16)(g, n, copy, streamed); }
template <> void scale<float>(const float* g, std::int64_t n, double factor, float* out, bool streamed) { HWY_DYNAMIC_DISPATCH(ScaleF32)(g, n, factor, out, streamed); }
template <> void scale<bf16>(const bf16* g, std::int64_t n, double factor, bf16* out, bool streamed) { HWY_DYNAMIC_DISPATCH(ScaleBf16)(g, n, factor, out, streamed); }

}  // namespace faibench::fused_global_grad_clip::cpu
#endif
