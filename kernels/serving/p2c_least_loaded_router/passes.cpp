#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/serving/p2c_least_loaded_router/passes.cpp"
#include <hwy/foreach_target.h>  // recompiles this file for each target
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <bit>
#include <cstring>
#include <type_traits>

#include "kernels/serving/p2c_least_loaded_router/choose.h"
#include "kernels/serving/p2c_least_loaded_router/passes.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::p2c_least_loaded_router::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::ScalableTag<std::uint32_t>;
using Ints = hn::ScalableTag<std::int32_t>;

bool AllValid(const std::int32_t* values, std::int64_t count, std::int32_t num_replicas) {
  const Words d;
  const auto L = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* words = reinterpret_cast<const std::uint32_t*>(values);  // negative values become large ones
  auto max0 = hn::Zero(d), max1 = max0, max2 = max0, max3 = max0;
  std::int64_t i = 0;
  for (; i + 4 * L <= count; i += 4 * L) {
    max0 = hn::Max(max0, hn::LoadU(d, words + i));
    max1 = hn::Max(max1, hn::LoadU(d, words + i + L));
    max2 = hn::Max(max2, hn::LoadU(d, words + i + 2 * L));
    max3 = hn::Max(max3, hn::LoadU(d, words + i + 3 * L));
  }
  std::uint32_t largest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(max0, max1), hn::Max(max2, max3))));
  for (; i < count; ++i) largest = largest > words[i] ? largest : words[i];
  return largest < static_cast<std::uint32_t>(num_replicas) || count == 0;
}

void PackChoices(const std::int32_t* candidates, const std::int32_t* picks, std::int64_t count, std::uint8_t* choices) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Ints d;
  const auto L = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + L <= count; i += L) {
    hn::Vec<Ints> a, b;
    hn::LoadInterleaved2(d, candidates + 2 * i, a, b);
    hn::StoreMaskBits(d, hn::Ne(hn::LoadU(d, picks + i), a), choices + i / 8);
  }
#endif
  for (; i < count; i += 8) {
    unsigned bits = 0;
    for (std::int64_t k = 0; k < 8 && i + k < count; ++k) bits |= static_cast<unsigned>(picks[i + k] != candidates[2 * (i + k)]) << k;
    choices[i / 8] = static_cast<std::uint8_t>(bits);
  }
}

void UnpackChoices(const std::int32_t* candidates, const std::uint8_t* choices, std::int64_t count, std::int32_t* picks) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Ints d;
  const auto L = static_cast<std::int64_t>(hn::Lanes(d));
  const bool aligned = reinterpret_cast<std::uintptr_t>(picks) % 64 == 0;
  for (; i + L <= count; i += L) {
    hn::Vec<Ints> a, b;
    hn::LoadInterleaved2(d, candidates + 2 * i, a, b);
    std::uint8_t bits[8] = {};
    std::memcpy(bits, choices + i / 8, static_cast<std::size_t>(L / 8));
    const auto pick = hn::IfThenElse(hn::LoadMaskBits(d, bits), b, a);
    if (aligned) hn::Stream(pick, d, picks + i);
    else hn::StoreU(pick, d, picks + i);
  }
  hwy::FlushStream();
#endif
  for (; i < count; ++i) picks[i] = candidates[2 * i + (choices[i / 8] >> (i % 8) & 1)];
}

#if HWY_TARGET == HWY_SCALAR  // no vectors, no gain
bool DecideHot(const std::int32_t*, std::int64_t, std::uint8_t*, std::int64_t, std::uint32_t*, std::int32_t*) { return false; }
#else

using Bytes = hn::ScalableTag<std::uint8_t>;
using Halves = hn::ScalableTag<std::uint16_t>;

// Position of every replica on a scale on which two replicas at least `certain` apart cannot change places within an epoch: loads in units of
// half an epoch, with wide gaps shortened so that 64 of them fit a byte.
constexpr std::uint32_t unit = hot_epoch / 2;
constexpr std::uint32_t certain = 3;  // a distance of 3 units, each rounded down, is more than 2 units = hot_epoch requests
static_assert(hot_replicas * certain <= 256);

void Positions(const std::uint32_t* load, std::int64_t num_replicas, std::uint8_t* order, std::uint8_t* position) {
  for (std::int64_t i = 1; i < num_replicas; ++i) {  // the order of the last epoch, nearly right: insertion sort is one pass
    const std::uint8_t r = order[i];
    std::int64_t j = i;
    for (; j > 0 && load[order[j - 1]] > load[r]; --j) order[j] = order[j - 1];
    order[j] = r;
  }
  std::uint32_t last = load[order[0]] / unit, at = 0;
  for (std::int64_t i = 0; i < num_replicas; ++i) {
    const std::uint32_t q = load[order[i]] / unit, gap = q - last;
    at += gap < certain ? gap : certain;
    last = q;
    position[order[i]] = static_cast<std::uint8_t>(at);
  }
}

// table[index] for bytes below 64, 16 entries a shuffle.
struct ByteTable {
  hn::Vec<Bytes> part[4];
  explicit ByteTable(const std::uint8_t* entries) {
    for (int p = 0; p < 4; ++p) part[p] = hn::LoadDup128(Bytes(), entries + 16 * p);
  }
  hn::Vec<Bytes> operator()(hn::Vec<Bytes> index) const {
    const Bytes d;
    const auto within = hn::And(index, hn::Set(d, std::uint8_t{15}));
    const auto odd = hn::TestBit(index, hn::Set(d, std::uint8_t{16})), upper = hn::TestBit(index, hn::Set(d, std::uint8_t{32}));
    const auto low = hn::IfThenElse(odd, hn::TableLookupBytes(part[1], within), hn::TableLookupBytes(part[0], within));
    const auto high = hn::IfThenElse(odd, hn::TableLookupBytes(part[3], within), hn::TableLookupBytes(part[2], within));
    return hn::IfThenElse(upper, high, low);
  }
};

constexpr std::int64_t chunk = 64;               // requests: the lanes of one mask word
constexpr std::uint16_t nobody = hot_replicas;   // stands for the pick of a lane that is still open
constexpr std::size_t lanes = hn::MaxLanes(Halves());
constexpr std::size_t vectors = chunk / lanes;

// Requests of a vector as 16-bit lanes a | b << 8.
hn::Vec<Halves> LoadPairs(const std::int32_t* candidates) {
  const Halves d16;
  const Words d32;
  const auto L = hn::Lanes(d32);
  const auto words = [&](std::size_t v) { return hn::BitCast(d16, hn::LoadU(Ints(), candidates + v * L)); };
  const auto packed = [&](hn::Vec<Halves> pairs) {  // 16-bit lanes a, b
    const auto pair = hn::BitCast(d32, pairs);
    return hn::BitCast(d16, hn::Or(pair, hn::ShiftRight<8>(pair)));
  };
  return hn::ConcatEven(d16, packed(hn::ConcatEven(d16, words(3), words(2))), packed(hn::ConcatEven(d16, words(1), words(0))));
}

// Lane i of vector v becomes bit v*lanes + i. Each vector's bits are read back by a load of the store's own width, which the compiler turns into a move.
template <class Mask>
std::uint64_t LaneBits(Mask mask, std::size_t v) {
  std::conditional_t<lanes == 32, std::uint32_t, std::uint16_t> word;
  static_assert(sizeof word * 8 == lanes);
  hn::StoreMaskBits(Halves(), mask, reinterpret_cast<std::uint8_t*>(&word));
  return std::uint64_t{word} << (v * lanes);
}

// Picks of 64 requests by position alone, `nobody` in the lanes whose candidates are too near each other; those lanes are the result.
std::uint64_t DecideByPosition(const std::int32_t* candidates, const ByteTable& position, hn::Vec<Halves>* picked) {
  const Halves d;
  const hn::RebindToSigned<Halves> di;
  std::uint64_t open = 0;
  for (std::size_t v = 0; v < vectors; ++v) {
    const auto pairs = LoadPairs(candidates + v * lanes * 2);
    const auto positions = hn::BitCast(d, position(hn::BitCast(Bytes(), pairs)));
    const auto low = hn::Set(d, std::uint16_t{255});
    const auto a = hn::And(pairs, low), b = hn::ShiftRight<8>(pairs);
    const auto lead = hn::BitCast(di, hn::Sub(hn::And(positions, low), hn::ShiftRight<8>(positions)));
    const auto near = hn::Lt(hn::Abs(lead), hn::Set(di, std::int16_t{certain}));
    const auto unsure = hn::And(hn::VecFromMask(d, hn::MaskFromVec(hn::BitCast(d, hn::VecFromMask(di, near)))), hn::VecFromMask(d, hn::Ne(a, b)));
    const auto second = hn::MaskFromVec(hn::BitCast(d, hn::VecFromMask(di, hn::Gt(lead, hn::Zero(di)))));
    const auto open_lanes = hn::MaskFromVec(unsure);
    picked[v] = hn::IfThenElse(open_lanes, hn::Set(d, nobody), hn::IfThenElse(second, b, a));
    open |= LaneBits(open_lanes, v);
  }
  return open;
}

bool DecideHot(const std::int32_t* candidates, std::int64_t count, std::uint8_t* order, std::int64_t num_replicas, std::uint32_t* load, std::int32_t* picks) {
  const Halves d;
  const Ints d32;
  alignas(64) std::uint8_t positions[hot_replicas] = {};
  Positions(load, num_replicas, order, positions);
  const ByteTable position(positions);
  alignas(64) std::uint16_t picked_lanes[chunk];
  for (std::int64_t at = 0; at < count; at += chunk) {
    hn::Vec<Halves> picked[vectors];
    std::uint64_t open = DecideByPosition(candidates + 2 * at, position, picked);
    if (at == 0 && std::popcount(open) > hot_open_lanes) return false;
    for (std::size_t v = 0; v < vectors; ++v) {
      hn::Store(picked[v], d, picked_lanes + v * lanes);
      const hn::Half<Halves> half;
      hn::StoreU(hn::PromoteTo(d32, hn::LowerHalf(half, picked[v])), d32, picks + at + v * lanes);
      hn::StoreU(hn::PromoteTo(d32, hn::UpperHalf(half, picked[v])), d32, picks + at + v * lanes + lanes / 2);
    }
    // The open lanes in order. `load` counts the chunks before and the open lanes decided so far; what the lanes decided by position add to it
    // is counted in their mask, so only open lanes wait for each other.
    for (; open; open &= open - 1) {
      const int lane = std::countr_zero(open);
      const std::int32_t a = candidates[2 * (at + lane)], b = candidates[2 * (at + lane) + 1];
      std::uint64_t takes_a = 0, takes_b = 0;
      for (std::size_t v = 0; v < vectors; ++v) {
        takes_a |= LaneBits(hn::Eq(picked[v], hn::Set(d, static_cast<std::uint16_t>(a))), v);
        takes_b |= LaneBits(hn::Eq(picked[v], hn::Set(d, static_cast<std::uint16_t>(b))), v);
      }
      const std::uint64_t before = (std::uint64_t{1} << lane) - 1;
      const std::uint32_t own_a = load[a], own_b = load[b];
      const std::uint32_t load_a = own_a + static_cast<std::uint32_t>(std::popcount(takes_a & before)), load_b = own_b + static_cast<std::uint32_t>(std::popcount(takes_b & before));
      const Choice<std::uint32_t> choice = choose(static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b), load_a, load_b);
      load[b] = own_b - choice.minus_second;
      load[a] = own_a + 1 + choice.minus_second;
      picks[at + lane] = static_cast<std::int32_t>(choice.pick);
    }
#pragma GCC unroll 16
    for (std::int64_t k = 0; k < chunk; ++k) load[picked_lanes[k]] += 1;
  }
  return true;
}
#endif

}  // namespace faibench::p2c_least_loaded_router::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::p2c_least_loaded_router::cpu {

HWY_EXPORT(AllValid);
HWY_EXPORT(PackChoices);
HWY_EXPORT(UnpackChoices);
HWY_EXPORT(DecideHot);

bool all_valid(const std::int32_t* values, std::int64_t count, std::int32_t num_replicas) { return HWY_DYNAMIC_DISPATCH(AllValid)(values, count, num_replicas); }
void pack_choices(const std::int32_t* candidates, const std::int32_t* picks, std::int64_t count, std::uint8_t* choices) { HWY_DYNAMIC_DISPATCH(PackChoices)(candidates, picks, count, choices); }
void unpack_choices(const std::int32_t* candidates, const std::uint8_t* choices, std::int64_t count, std::int32_t* picks) { HWY_DYNAMIC_DISPATCH(UnpackChoices)(candidates, choices, count, picks); }
bool decide_hot(const std::int32_t* candidates, std::int64_t count, std::uint8_t* order, std::int64_t num_replicas, std::uint32_t* load, std::int32_t* picks) {
  return HWY_DYNAMIC_DISPATCH(DecideHot)(candidates, count, order, num_replicas, load, picks);
}

}  // namespace faibench::p2c_least_loaded_router::cpu
#endif
