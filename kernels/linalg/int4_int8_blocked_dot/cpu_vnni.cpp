// AVX-512 with VNNI: vpdpbusd, which Highway 1.0.3 has no name for. A vector holds 64 nibbles' bytes of four blocks, so a group of 16 blocks is
//   n'  [4 quarters][64] low halves, the same of high halves      negated under masks that two shuffled words of signs give
//   acc [4 quarters][4 blocks x 4 partial sums]                   two vpdpbusd on the packed -8*sum q; below 2^13 in size
//   sum [4 lanes of 128 bits][4 quarters]                         transposed and added: one block sum a lane of 32 bits, at most 2^15
//   two vectors of i64                                            sum * a_coef (32 bits) * b_coef (64 bits), even and odd lanes apart
// About 60 vector operations a group and row, 30 cycles on a Zen 4 core. The last group of a piece loads under masks: no byte past a row is read, and zeros add nothing.
#include <immintrin.h>

#include <new>

#include "kernels/linalg/int4_int8_blocked_dot/cpu.h"

namespace faibench::int4_int8_blocked_dot::cpu {
namespace {

constexpr std::int64_t group_blocks = 16;

struct alignas(64) PackedGroup {
  std::int8_t low[4][64], high[4][64];  // of four blocks each: elements 0 to 15, elements 16 to 31
  std::int32_t start[4][16];            // -8 * (sum of 8 q): what two vpdpbusd take for the partial sum in that place
  std::uint32_t sign[16];
  std::int64_t even[8], odd[8];         // coefficients in the order of the lanes of `sum`
};
static_assert(most_blocks / group_blocks * sizeof(PackedGroup) <= packed_room);

bool runs_here() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

#pragma GCC push_options
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 sees some in its own header's "undefined" vectors
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")

void pack(const Activations& b, Range blocks, std::byte* packed) {
  const __m512i lows = _mm512_setr_epi64(0, 1, 4, 5, 8, 9, 12, 13), highs = _mm512_setr_epi64(2, 3, 6, 7, 10, 11, 14, 15), eight = _mm512_set1_epi8(8), none = _mm512_setzero_si512();
  const __m256i order = _mm256_setr_epi16(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  auto* to = reinterpret_cast<PackedGroup*>(packed);
  for (std::int64_t first = blocks.first; first < blocks.end; first += group_blocks, ++to) {
    new (to) PackedGroup;
    const std::int64_t count = blocks.end - first < group_blocks ? blocks.end - first : group_blocks;
    const auto there = static_cast<__mmask16>((1u << count) - 1);  // one bit a block
    for (int quarter = 0; quarter < 4; ++quarter) {
      const unsigned here = there >> (quarter * 4) & 15;
      const auto two_blocks = [&](unsigned which) { return static_cast<__mmask16>((which & 1 ? 0x00ff : 0) | (which & 2 ? 0xff00 : 0)); };  // 8 words each
      const std::int8_t* const q = b.q + (first + quarter * 4) * 32;
      const __m512i q01 = _mm512_maskz_loadu_epi32(two_blocks(here), q), q23 = _mm512_maskz_loadu_epi32(two_blocks(here >> 2), q + 64);
      const __m512i low = _mm512_permutex2var_epi64(q01, lows, q23), high = _mm512_permutex2var_epi64(q01, highs, q23);
      _mm512_store_si512(to->low[quarter], low);
      _mm512_store_si512(to->high[quarter], high);
      _mm512_store_si512(to->start[quarter], _mm512_sub_epi32(none, _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(none, eight, low), eight, high)));
    }
    _mm512_store_si512(to->sign, _mm512_maskz_loadu_epi32(there, b.sign + first));
    const __m256i coef = _mm256_permutexvar_epi16(order, _mm256_maskz_loadu_epi16(there, b.coef + first));
    _mm512_store_si512(to->even, _mm512_cvtepi16_epi64(_mm256_castsi256_si128(coef)));
    _mm512_store_si512(to->odd, _mm512_cvtepi16_epi64(_mm256_extracti128_si256(coef, 1)));
  }
}

/// Where one row's group lies.
struct Row {
  const std::uint8_t* q;
  const std::int8_t* coef;
  const std::uint32_t* sign;
};
struct Totals {
  __m512i even, odd;
};

/// Of a group that is not whole, only the first `blocks` are there.
template <bool whole>
inline __m512i quarter_sums(const Row& row, int blocks, const PackedGroup& b, int quarter) {
  const __m128i halves = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  const __m512i nibble = _mm512_set1_epi8(15), sixteen = _mm512_set1_epi8(16);
  __m512i q;
  __m128i sign;
  if constexpr (whole) {
    q = _mm512_loadu_si512(row.q + quarter * 64);
    sign = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row.sign + quarter * 4));
  } else {
    const int here = blocks - quarter * 4;
    if (here <= 0) return _mm512_setzero_si512();
    const int taken = here < 4 ? here : 4;
    q = _mm512_maskz_loadu_epi8(~0ull >> (64 - 16 * taken), row.q + quarter * 64);
    sign = _mm_maskz_loadu_epi32(static_cast<__mmask8>((1u << taken) - 1), row.sign + quarter * 4);
  }
  const __m128i negated = _mm_shuffle_epi8(_mm_xor_si128(sign, _mm_load_si128(reinterpret_cast<const __m128i*>(b.sign + quarter * 4))), halves);
  __m512i low = _mm512_and_si512(q, nibble), high = _mm512_and_si512(_mm512_srli_epi16(q, 4), nibble);
  low = _mm512_mask_sub_epi8(low, static_cast<__mmask64>(_mm_cvtsi128_si64(negated)), sixteen, low);
  high = _mm512_mask_sub_epi8(high, static_cast<__mmask64>(_mm_extract_epi64(negated, 1)), sixteen, high);
  const __m512i sum = _mm512_dpbusd_epi32(_mm512_load_si512(b.start[quarter]), low, _mm512_load_si512(b.low[quarter]));
  return _mm512_dpbusd_epi32(sum, high, _mm512_load_si512(b.high[quarter]));
}

template <bool whole>
inline void add_group(const Row& row, int blocks, const PackedGroup& b, Totals& totals) {
  const __m512i a0 = quarter_sums<whole>(row, blocks, b, 0), a1 = quarter_sums<whole>(row, blocks, b, 1), a2 = quarter_sums<whole>(row, blocks, b, 2), a3 = quarter_sums<whole>(row, blocks, b, 3);
  const __m512i a01 = _mm512_add_epi32(_mm512_unpacklo_epi32(a0, a1), _mm512_unpackhi_epi32(a0, a1));
  const __m512i a23 = _mm512_add_epi32(_mm512_unpacklo_epi32(a2, a3), _mm512_unpackhi_epi32(a2, a3));
  const __m512i sum = _mm512_add_epi32(_mm512_unpacklo_epi64(a01, a23), _mm512_unpackhi_epi64(a01, a23));  // lane l, element g: block 4g + l
  const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m128i coef = whole ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(row.coef)) : _mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << blocks) - 1), row.coef);
  const __m512i scaled = _mm512_mullo_epi32(sum, _mm512_cvtepi8_epi32(_mm_shuffle_epi8(coef, order)));
  totals.even = _mm512_add_epi64(totals.even, _mm512_mul_epi32(scaled, _mm512_load_si512(b.even)));
  totals.odd = _mm512_add_epi64(totals.odd, _mm512_mul_epi32(_mm512_srli_epi64(scaled, 32), _mm512_load_si512(b.odd)));
}

void add_rows(const Weights& a, Range rows, Range blocks, const std::byte* packed, std::uint64_t* sums) {
  for (std::int64_t r = rows.first; r < rows.end; ++r) {
    const auto* b = reinterpret_cast<const PackedGroup*>(packed);
    const std::int64_t at = r * a.nb + blocks.first;
    Row row{a.q + at * 16, a.coef + at, a.sign + at};
    Totals totals{_mm512_setzero_si512(), _mm512_setzero_si512()};
    std::int64_t left = blocks.end - blocks.first;
    for (; left >= group_blocks; left -= group_blocks, ++b) {
      for (int line = 0; line < 4; ++line) _mm_prefetch(reinterpret_cast<const char*>(row.q + ahead_blocks * 16 + line * 64), _MM_HINT_T1);
      _mm_prefetch(reinterpret_cast<const char*>(row.sign + ahead_blocks), _MM_HINT_T1);
      _mm_prefetch(reinterpret_cast<const char*>(row.coef + ahead_blocks), _MM_HINT_T1);
      add_group<true>(row, group_blocks, *b, totals);
      row = {row.q + group_blocks * 16, row.coef + group_blocks, row.sign + group_blocks};
    }
    if (left > 0) add_group<false>(row, static_cast<int>(left), *b, totals);
    sums[r] += static_cast<std::uint64_t>(_mm512_reduce_add_epi64(_mm512_add_epi64(totals.even, totals.odd)));
  }
}

#pragma GCC pop_options

}  // namespace

const Form vnni_form = {"avx512_vnni", runs_here, pack, add_rows};

}  // namespace faibench::int4_int8_blocked_dot::cpu
