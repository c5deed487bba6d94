// One pass: an element is read once, goes through all rounds in a register and is written once; no second memory, no staging. Elements are cut into equal pieces, whatever rows and chunks
// they lie in, which the threads take one after another. Twelve vectors go through the rounds together, since a round is one long chain: multiply-add, exp, divide.
// exp(-z) = 2^y is a polynomial of degree 4 in y's fraction, relative error 2.7e-6, times a power of two; the gate's bound leaves 3.8e-6 at z = 0 and more elsewhere.
//
// Bound: 8*H*D bytes, or by arithmetic 12 operations a vector and round. With AVX-512 the floating-point pipes are full: 6 multiplications or additions of theirs a round, beside a
// reduction, a scaling and a division. Measured on a Zen 4 core at 4096 x 1024, 32 rounds, in CPU time (the machine was busy): 21 ms where the baseline takes 451, of which the rounds alone
// are 20; two threads share it.
// Tried and lost, in cycles of the time-stamp counter a vector and round (6.3 as it is): 4, 6, 8 vectors together 9.3, 7.7, 6.7; the reciprocal's estimate and one step of Newton for the
// division 7.8; integer shifts for the scaling, which then wants y clamped, 7.4. floor(y) and a subtraction for the reduction: 6.2, and NaN for infinite z.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linalg/h2d_prefetch_compute_overlap/cpu.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"

#include <algorithm>
#include <cmath>

#include "kernels/linalg/h2d_prefetch_compute_overlap/h2d_prefetch_compute_overlap.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::h2d_prefetch_compute_overlap::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<float> f;
using V = hn::Vec<decltype(f)>;
constexpr std::int64_t lanes = HWY_TARGET == HWY_SCALAR ? 1 : static_cast<std::int64_t>(hn::MaxLanes(f));
constexpr int chains = HWY_TARGET == HWY_AVX3 ? 12 : 6;  // vectors at a time: a round is a chain of some 50 cycles, during which the others go on
constexpr std::int64_t block = chains * lanes;
constexpr std::int64_t piece = 43 * 12 * 16;  // elements that a thread takes at a time; a multiple of every block

/// z / (1 + 2^y) with y = -z*log2(e).
HWY_INLINE V silu(V z) {
  const V y = hn::Mul(z, hn::Set(f, -0x1.715476p0f));
  const auto two_to = [](V x) HWY_ATTR {  // 2^x for 0 <= x < 1, relative error below 2.7e-6: half of what the gate's bound gives an exp
    V p = hn::Set(f, 0x1.bb7cd4p-7f);
    p = hn::MulAdd(p, x, hn::Set(f, 0x1.aa13f0p-5f));
    p = hn::MulAdd(p, x, hn::Set(f, 0x1.ee798ap-3f));
    p = hn::MulAdd(p, x, hn::Set(f, 0x1.62d166p-1f));
    return hn::MulAdd(p, x, hn::Set(f, 0x1.00002cp+0f));
  };
  const V one = hn::Set(f, 1.0f);
#if HWY_TARGET == HWY_AVX3
  const V fraction{_mm512_reduce_ps(y.raw, 9)};  // y - floor(y)
  const V power{_mm512_scalef_ps(two_to(fraction).raw, y.raw)};  // times 2^floor(y): Inf and 0 where that is out of range
  return hn::Div(z, hn::Add(one, power));
#else
  const hn::RebindToSigned<decltype(f)> i;
  const V within = hn::Min(hn::Max(y, hn::Set(f, -126.0f)), hn::Set(f, 127.5f)), whole = hn::Floor(within);
  const V scale = hn::BitCast(f, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(i, whole), hn::Set(i, 127))));
  const V power = hn::Mul(two_to(hn::Sub(within, whole)), scale);
  return hn::IfThenZeroElse(hn::Ge(y, hn::Set(f, 128.0f)), hn::Div(z, hn::Add(one, power)));
#endif
}

/// Gain and bias by column, repeated, so that a block may start at any column.
struct Columns {
  const float *gain, *bias;
};

HWY_INLINE void run_block(const float* HWY_RESTRICT from, float factor, const Columns& at, std::int32_t rounds, float* HWY_RESTRICT to) {
  V v[chains];
  const V scale = hn::Set(f, factor);
  for (int k = 0; k < chains; ++k) v[k] = hn::Mul(scale, hn::LoadU(f, from + k * lanes));
  for (std::int32_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int k = 0; k < chains; ++k) {
      const std::int64_t c = k * lanes;
      v[k] = silu(hn::MulAdd(v[k], hn::LoadU(f, at.gain + c), hn::LoadU(f, at.bias + c)));
    }
  }
  for (int k = 0; k < chains; ++k) hn::StoreU(v[k], f, to + k * lanes);
}

/// Elements first .. last-1 of all, whatever rows and chunks they lie in.
void run_piece(const float* data, const std::int64_t* offsets, const float* scale, std::int64_t D, const Columns& columns, std::int32_t rounds, std::int64_t first, std::int64_t last, float* out,
               std::int64_t chunks) {
  alignas(64) float buffer[block], result[block];
  std::int64_t i = std::upper_bound(offsets, offsets + chunks + 1, first / D) - offsets - 1;
  for (std::int64_t p = first; p < last; p += block) {
    const std::int64_t end = std::min(p + block, last), column = p % D;
    while (offsets[i + 1] * D <= p) ++i;
    const Columns at{columns.gain + column, columns.bias + column};
    if (end == p + block && offsets[i + 1] * D >= end) {
      run_block(data + p, scale[i], at, rounds, out + p);
      continue;
    }
    std::fill(buffer, buffer + block, 0.0f);
    for (std::int64_t k = p, chunk = i; k < end; ++chunk)
      for (const std::int64_t stop = std::min(end, offsets[chunk + 1] * D); k < stop; ++k) buffer[k - p] = scale[chunk] * data[k];
    run_block(buffer, 1.0f, at, rounds, result);
    std::copy(result, result + (end - p), out + p);
  }
}

void apply(View<const float, 2> data, Offsets offsets, Values scale, Values gain, Values bias, std::int32_t rounds, View<float, 2> out) {
  const std::int64_t D = data.extent(1), count = data.size(), length = (D + block + 15) / 16 * 16;
  const auto table = hwy::AllocateAligned<float>(static_cast<std::size_t>(2 * length));
  const Columns columns{table.get(), table.get() + length};
  for (std::int64_t c = 0; c < length; ++c) {
    table[static_cast<std::size_t>(c)] = gain[c % D];
    table[static_cast<std::size_t>(length + c)] = bias[c % D];
  }
#pragma omp parallel for schedule(dynamic) if (count * (rounds + 1) >= 1 << 16)  // less is done before a second thread is awake
  for (std::int64_t first = 0; first < count; first += piece)
    run_piece(data.data(), offsets.data(), scale.data(), D, columns, rounds, first, std::min(first + piece, count), out.data(), scale.extent(0));
}

}  // namespace faibench::h2d_prefetch_compute_overlap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::h2d_prefetch_compute_overlap::cpu {

void streamed_chunk_apply(View<const float, 2> data, Offsets offsets, Values scale, Values gain, Values bias, std::int32_t rounds, View<float, 2> out) {
  if (data.empty()) return;
  HWY_EXPORT(apply);
  HWY_DYNAMIC_DISPATCH(apply)(data, offsets, scale, gain, bias, rounds, out);
}

}  // namespace faibench::h2d_prefetch_compute_overlap::cpu
#endif
