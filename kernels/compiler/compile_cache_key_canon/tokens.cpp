// Bit masks over blocks of 64 bytes, as in simdjson (Langdale, Lemire: "Parsing gigabytes of JSON per second"): classify with SIMD compares, find escaped
// quotes with an addition, the insides of strings with a prefix XOR, then write out the positions of the set bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/compiler/compile_cache_key_canon/tokens.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/compiler/compile_cache_key_canon/tokens.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::compile_cache_key_canon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Masks {
  std::uint64_t backslash = 0, quote = 0, bracket = 0, white = 0, control = 0, wide = 0;
};

template <class D>
HWY_INLINE std::uint64_t mask_bits(D d, hn::Mask<D> mask) {
  std::uint64_t bits = 0;
  hn::StoreMaskBits(d, mask, reinterpret_cast<std::uint8_t*>(&bits));
  return bits;
}

HWY_INLINE Masks classify(const std::uint8_t* block) {
  const hn::CappedTag<std::uint8_t, 64> d;
  constexpr std::size_t lanes = hn::MaxLanes(d);
  Masks masks;
  for (std::size_t i = 0; i < 64; i += lanes) {
    const auto c = hn::LoadU(d, block + i);
    const auto is = [&](char wanted) HWY_ATTR { return hn::Eq(c, hn::Set(d, static_cast<std::uint8_t>(wanted))); };
    const auto braces = hn::Or(c, hn::Set(d, 0x20));  // [ and {, ] and } differ in this bit alone
    const auto bracket = hn::Or(hn::Or(hn::Eq(braces, hn::Set(d, '{')), hn::Eq(braces, hn::Set(d, '}'))), hn::Or(is(':'), is(',')));
    const auto white = hn::Or(hn::Or(is(' '), is('\t')), hn::Or(is('\n'), is('\r')));
    masks.backslash |= mask_bits(d, is('\\')) << i;
    masks.quote |= mask_bits(d, is('"')) << i;
    masks.bracket |= mask_bits(d, bracket) << i;
    masks.white |= mask_bits(d, white) << i;
    masks.control |= mask_bits(d, hn::Lt(c, hn::Set(d, 0x20))) << i;
    masks.wide |= mask_bits(d, hn::Gt(c, hn::Set(d, 0x7f))) << i;
  }
  return masks;
}

// Bits of the characters that a backslash before them escapes; `carry` is whether the block's first one is, and then whether the next block's is.
HWY_INLINE std::uint64_t escaped_by(std::uint64_t backslash, std::uint64_t& carry) {
  if (backslash == 0) {
    const std::uint64_t escaped = carry;
    carry = 0;
    return escaped;
  }
  constexpr std::uint64_t even = 0x5555555555555555u;
  backslash &= ~carry;
  const std::uint64_t follows = backslash << 1 | carry;
  const std::uint64_t odd_starts = backslash & ~even & ~follows;
  std::uint64_t sequences = 0;
  carry = __builtin_add_overflow(odd_starts, backslash, &sequences);  // a run that begins at an odd place carries past its end
  return (even ^ (sequences << 1)) & follows;
}

HWY_INLINE std::uint64_t prefix_xor(std::uint64_t bits) {
  for (int shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
  return bits;
}

// Writes more positions than bits, so that the usual block needs no loop of its own; the next ones overwrite the surplus.
HWY_INLINE std::uint32_t* write_positions(std::uint64_t bits, std::uint32_t base, std::uint32_t* out) {
  const int count = static_cast<int>(hwy::PopCount(bits));
  constexpr std::uint64_t last = std::uint64_t{1} << 63;
  const auto some = [&](int from, int to) HWY_ATTR {
    for (int k = from; k < to; ++k) {
      out[k] = base + static_cast<std::uint32_t>(__builtin_ctzll(bits | last));
      bits &= bits - 1;
    }
  };
  some(0, 16);
  if (count > 16) some(16, 24);
  if (count > 24) some(24, 64);
  return out + count;
}

bool find_tokens_here(const char* text, std::size_t size, Tokens& tokens) {
  std::uint64_t escape_carry = 0, inside_carry = 0, word_carry = 0, wide = 0, faults = 0;
  std::uint32_t* out = tokens.at.get();
  for (std::size_t base = 0; base < size; base += 64) {
    const Masks m = classify(reinterpret_cast<const std::uint8_t*>(text + base));
    tokens.backslashes[base / 64] = m.backslash;
    const std::uint64_t quote = m.quote & ~escaped_by(m.backslash, escape_carry);
    const std::uint64_t inside = prefix_xor(quote) ^ inside_carry;  // opening quotes and what follows them, not the closing ones
    inside_carry = static_cast<std::uint64_t>(static_cast<std::int64_t>(inside) >> 63);
    faults |= m.control & inside;
    wide |= m.wide;
    const std::uint64_t word = ~(m.bracket | m.white | quote | inside);
    const std::uint64_t word_begins = word & ~(word << 1 | word_carry);
    word_carry = word >> 63;
    out = write_positions((m.bracket & ~inside) | quote | word_begins, static_cast<std::uint32_t>(base), out);
  }
  tokens.count = static_cast<std::size_t>(out - tokens.at.get());
  *out = static_cast<std::uint32_t>(size);
  tokens.backslashes[(size + 63) / 64] = 0;
  tokens.wide = wide != 0;
  return faults == 0 && inside_carry == 0;
}

}  // namespace faibench::compile_cache_key_canon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::compile_cache_key_canon::cpu {

HWY_EXPORT(find_tokens_here);

bool find_tokens(const char* text, std::size_t size, Tokens& tokens) { return HWY_DYNAMIC_DISPATCH(find_tokens_here)(text, size, tokens); }

void Tokens::reserve(std::size_t size) {
  if (at && size <= capacity) return;
  capacity = size + size / 2;
  at = std::make_unique_for_overwrite<std::uint32_t[]>(capacity + 128);
  backslashes = std::make_unique_for_overwrite<std::uint64_t[]>(capacity / 64 + 3);
}

}  // namespace faibench::compile_cache_key_canon::cpu
#endif
