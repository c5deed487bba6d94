#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/serving/safetensors_shard_route/index.cpp"
#include <hwy/foreach_target.h>  // recompiles this file for each target
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/serving/safetensors_shard_route/index.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::safetensors_shard_route::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline std::uint64_t Fold(std::uint64_t a, std::uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}
constexpr std::uint64_t key0 = 0xA0761D6478BD642Fu, key1 = 0xE7037ED1A0B428DBu, key2 = 0x8EBC6AF09C88C6E3u;

#if HWY_TARGET == HWY_AVX3

// 64 bytes a step. A masked load touches no byte beyond the name, so a name of up to 64 bytes needs no branch on its length.
using Bytes = hn::ScalableTag<std::uint8_t>;
using Words = hn::ScalableTag<std::uint32_t>;
using Longs = hn::ScalableTag<std::uint64_t>;
constexpr std::size_t step = 64;

hn::Vec<Bytes> LoadName(const std::uint8_t* p, std::size_t length) {
  const std::uint64_t mask = length >= step ? ~std::uint64_t{0} : (std::uint64_t{1} << length) - 1;
  return hn::MaskedLoad(hn::Mask512<std::uint8_t>{mask}, Bytes(), p);
}

// NH (Black et al., "UMAC", 1999): the sum of products of neighbouring 32-bit words, keyed: two different pieces collide with probability 2^-32.
hn::Vec<Longs> Products(hn::Vec<Bytes> piece) {
  alignas(64) static constexpr std::uint32_t keys[16] = {0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89,
                                                         0x452821E6, 0x38D01377, 0xBE5466CF, 0x34E90C6C, 0xC0AC29B7, 0xC97C50DD, 0x3F84D5B5, 0xB5470917};
  const auto words = hn::Add(hn::BitCast(Words(), piece), hn::Load(Words(), keys));
  const auto odd = hn::BitCast(Words(), hn::ShiftRight<32>(hn::BitCast(Longs(), words)));
  return hn::MulEven(words, odd);
}

// By halves: GCC's own reduction of 512 bits adds signed numbers, which may overflow.
std::uint64_t Sum(hn::Vec<Longs> lanes) {
  const hn::Half<Longs> half;
  return hn::GetLane(hn::SumOfLanes(half, hn::Add(hn::LowerHalf(half, lanes), hn::UpperHalf(half, lanes))));
}

// The last mixing, of a sum and a length.
std::uint32_t Finish(std::uint64_t sum, std::size_t length) {
  std::uint64_t h = (sum + length * key0) * key1;
  h = (h ^ h >> 29) * key2;
  return static_cast<std::uint32_t>(h >> 32);
}

std::uint32_t Hash(const std::uint8_t* p, std::size_t length) {
  std::uint64_t before = 0;
  std::size_t left = length;
  for (; left > step; left -= step, p += step) before = Fold(before + Sum(Products(hn::LoadU(Bytes(), p))), key1);
  return Finish(before + Sum(Products(LoadName(p, left))), length);
}

// Eight names of at most 64 bytes: one transposed sum instead of eight sums of lanes. The same hashes as Hash's.
void HashEight(const NameList& names, std::int64_t first, std::uint32_t* hashes) {
  const Longs d;
  const auto products = [&](std::int64_t i) {
    const std::int64_t* const offset = names.offsets + first + i;
    return Products(LoadName(names.bytes + offset[0], static_cast<std::size_t>(offset[1] - offset[0])));
  };
  const auto pair = [&](std::int64_t i) {  // lanes of names i and i+1 in turns
    const auto x = products(i), y = products(i + 1);
    return hn::Add(hn::InterleaveLower(d, x, y), hn::InterleaveUpper(d, x, y));
  };
  const auto halves = [&](std::int64_t i, std::int64_t j) {  // blocks i, i, j, j
    const auto x = pair(i), y = pair(j);
    const auto sum = hn::Add(hn::ConcatLowerLower(d, y, x), hn::ConcatUpperUpper(d, y, x));
    return hn::Add(sum, hn::SwapAdjacentBlocks(sum));
  };
  alignas(64) std::uint64_t sums[8];
  hn::Store(hn::OddEvenBlocks(halves(2, 6), halves(0, 4)), d, sums);  // blocks 0, 2, 4, 6
  for (std::int64_t i = 0; i < 8; ++i) hashes[i] = Finish(sums[i], static_cast<std::size_t>(names.offsets[first + i + 1] - names.offsets[first + i]));
}

bool Equal(const std::uint8_t* p, const std::uint8_t* q, std::size_t length) {
  if (length > step) return std::memcmp(p, q, length) == 0;
  return hn::AllTrue(Bytes(), hn::Eq(LoadName(p, length), LoadName(q, length)));
}

#else

inline std::uint64_t Load64(const std::uint8_t* p) {
  std::uint64_t x;
  std::memcpy(&x, p, 8);
  return x;
}
inline std::uint32_t Load32(const std::uint8_t* p) {
  std::uint32_t x;
  std::memcpy(&x, p, 4);
  return x;
}

// 16 bytes a step by folded 64-bit products (as in wyhash); the last step overlaps the one before, so that no byte beyond the name is read.
inline std::uint32_t Hash(const std::uint8_t* p, std::size_t length) {
  std::uint64_t h = length * key0, a = 0, b = 0;
  if (length > 16) {
    std::size_t left = length;
    for (; left > 16; left -= 16, p += 16) h = Fold(Load64(p) ^ key1, Load64(p + 8) ^ h);
    a = Load64(p + left - 16);
    b = Load64(p + left - 8);
  } else if (length >= 8) {
    a = Load64(p);
    b = Load64(p + length - 8);
  } else if (length >= 4) {
    a = Load32(p);
    b = Load32(p + length - 4);
  } else if (length > 0) {
    a = std::uint64_t{p[0]} << 16 | std::uint64_t{p[length / 2]} << 8 | p[length - 1];
  }
  return static_cast<std::uint32_t>(Fold(Fold(a ^ key1, b ^ h), key2));
}

inline bool Equal(const std::uint8_t* p, const std::uint8_t* q, std::size_t length) { return std::memcmp(p, q, length) == 0; }

#endif

inline std::size_t Length(const NameList& list, std::int64_t i) { return static_cast<std::size_t>(list.offsets[i + 1] - list.offsets[i]); }

// Hashes of names first .. first+count-1.
void HashAll(const NameList& names, std::int64_t first, std::int64_t count, std::uint32_t* hashes) {
  std::int64_t i = 0;
#if HWY_TARGET == HWY_AVX3
  for (; i + 8 <= count; i += 8) {
    std::size_t longest = 0;
    for (std::int64_t k = 0; k < 8; ++k) longest = std::max(longest, Length(names, first + i + k));
    if (longest <= step)
      HashEight(names, first + i, hashes + i);
    else
      for (std::int64_t k = i; k < i + 8; ++k) hashes[k] = Hash(names.bytes + names.offsets[first + k], Length(names, first + k));
  }
#endif
  for (; i < count; ++i) hashes[i] = Hash(names.bytes + names.offsets[first + i], Length(names, first + i));
}

std::int64_t HashNames(const NameList& names, std::int64_t first, std::int64_t count, Slot* low, Slot* high) {
  constexpr std::size_t reserved_length = 12;
  constexpr std::int64_t batch = 64;
  std::uint32_t hashes[batch];
  std::int64_t lows = 0, highs = 0;
  for (std::int64_t begin = first; begin < first + count; begin += batch) {
    const std::int64_t n = std::min(batch, first + count - begin);
    HashAll(names, begin, n, hashes);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t k = begin + i;
      if (Length(names, k) == reserved_length && std::memcmp(names.bytes + names.offsets[k], "__metadata__", reserved_length) == 0) return -1 - k;
      const Slot slot = std::uint64_t{hashes[i]} << 32 | static_cast<std::uint32_t>(k + 1);
      low[lows] = slot;  // written to both, kept in one: no branch on a random bit
      high[highs] = slot;
      lows += 1 - (hashes[i] >> 31);
      highs += hashes[i] >> 31;
    }
  }
  return lows;
}

// The slot after `at` in the same half.
inline std::size_t Next(const Table& table, std::size_t at) { return (at & ~std::size_t{table.within}) | ((at + 1) & table.within); }

void Insert(const Table& table, const NameList& names, const Slot* declarations, std::int64_t count) {
  constexpr std::int64_t ahead = 16;
  for (std::int64_t i = 0; i < count; ++i) {
    hwy::Prefetch(table.slots + (declarations[std::min(i + ahead, count - 1)] >> 32 >> table.shift));
    const Slot declaration = declarations[i];
    const auto k = static_cast<std::int64_t>(static_cast<std::uint32_t>(declaration)) - 1;
    for (std::size_t at = declaration >> 32 >> table.shift;; at = Next(table, at)) {
      const Slot slot = table.slots[at];
      if (slot != 0 && (slot ^ declaration) >> 32 != 0) continue;
      if (slot != 0) {
        const auto other = static_cast<std::int64_t>(static_cast<std::uint32_t>(slot)) - 1;
        const std::size_t length = Length(names, k);
        if (Length(names, other) != length || !Equal(names.bytes + names.offsets[k], names.bytes + names.offsets[other], length)) continue;
      }
      table.slots[at] = declaration;
      break;
    }
  }
}

// The first slot from `at` on that is empty or has the hash.
inline std::size_t Probe(const Table& table, std::size_t at, std::uint32_t hash) {
  while (table.slots[at] != 0 && table.slots[at] >> 32 != hash) at = Next(table, at);
  return at;
}

void LookUp(const Table& table, const NameList& names, const std::int32_t* owner, const NameList& queries, std::int64_t first, std::int64_t count, std::int32_t* file, std::int64_t* entry) {
  constexpr std::int64_t batch = 32;  // look-ups in flight: each stage prefetches what the next one reads
  std::uint32_t hashes[batch];
  std::size_t places[batch];
  std::int64_t found[batch];
  for (std::int64_t begin = first; begin < first + count; begin += batch) {
    const std::int64_t n = std::min(batch, first + count - begin);
    HashAll(queries, begin, n, hashes);
    for (std::int64_t i = 0; i < n; ++i) hwy::Prefetch(table.slots + (hashes[i] >> table.shift));
    for (std::int64_t i = 0; i < n; ++i) {
      places[i] = Probe(table, hashes[i] >> table.shift, hashes[i]);
      found[i] = static_cast<std::int64_t>(static_cast<std::uint32_t>(table.slots[places[i]])) - 1;
      hwy::Prefetch(names.offsets + std::max<std::int64_t>(found[i], 0));
      hwy::Prefetch(owner + std::max<std::int64_t>(found[i], 0));
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint8_t* const name = names.bytes + names.offsets[std::max<std::int64_t>(found[i], 0)];
      hwy::Prefetch(name);
      hwy::Prefetch(name + 63);  // most names straddle two lines; prefetching never faults
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t q = begin + i;
      const std::uint8_t* const query = queries.bytes + queries.offsets[q];
      const std::size_t length = Length(queries, q);
      std::size_t at = places[i];
      std::int64_t k = found[i];
      while (k >= 0 && (Length(names, k) != length || !Equal(names.bytes + names.offsets[k], query, length))) {  // another name of the same hash
        at = Probe(table, Next(table, at), hashes[i]);
        k = static_cast<std::int64_t>(static_cast<std::uint32_t>(table.slots[at])) - 1;
      }
      entry[q] = k;
      file[q] = k < 0 ? -1 : owner[k];
    }
  }
}

}  // namespace faibench::safetensors_shard_route::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::safetensors_shard_route::cpu {

HWY_EXPORT(HashNames);
HWY_EXPORT(Insert);
HWY_EXPORT(LookUp);

std::int64_t hash_names(const NameList& names, std::int64_t first, std::int64_t count, Slot* low, Slot* high) { return HWY_DYNAMIC_DISPATCH(HashNames)(names, first, count, low, high); }
void insert(const Table& table, const NameList& names, const Slot* declarations, std::int64_t count) { HWY_DYNAMIC_DISPATCH(Insert)(table, names, declarations, count); }
void look_up(const Table& table, const NameList& names, const std::int32_t* owner, const NameList& queries, std::int64_t first, std::int64_t count, std::int32_t* file, std::int64_t* entry) {
  HWY_DYNAMIC_DISPATCH(LookUp)(table, names, owner, queries, first, count, file, entry);
}

}  // namespace faibench::safetensors_shard_route::cpu
#endif
