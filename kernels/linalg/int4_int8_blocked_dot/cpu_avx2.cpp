// AVX2: vpmaddubsw, which Highway 1.0.3 has no name for. A vector holds the bytes of two blocks, so a group of 8 blocks is
//   n'  [4 pairs][32] low halves, the same of high halves     n' = 16 - n where a bit of the signs, spread over the bytes, is set
//   acc [4 pairs][2 blocks x 8]                               i16: two vpmaddubsw (4096 at most each) and the packed -8*sum q; 2^12 at most in size
//   acc [4 pairs][2 blocks x 4]                               i32: vpmaddwd with b_coef, below 2^28
//   sum [2 lanes of 128 bits][4 pairs]                        transposed and added: one block a lane of 32 bits, 2^30 at most
//   two vectors of i64                                        times a_coef, even and odd lanes apart
// The last group of a piece is copied into room of its own, filled up with zeros: no byte past a row is read.
#include <immintrin.h>

#include <cstring>
#include <new>

#include "kernels/linalg/int4_int8_blocked_dot/cpu.h"

namespace faibench::int4_int8_blocked_dot::cpu {
namespace {

constexpr std::int64_t group_blocks = 8;

struct alignas(32) PackedGroup {
  std::int8_t low[4][32], high[4][32];  // of two blocks each: elements 0 to 15, elements 16 to 31
  std::int16_t start[4][16];            // -8 * (sum of 4 q): what two vpmaddubsw take for the partial sum in that place
  std::int16_t coef[4][16];
  std::uint32_t sign[8];
};
static_assert(most_blocks / group_blocks * sizeof(PackedGroup) <= packed_room);

bool runs_here() { return __builtin_cpu_supports("avx2"); }

/// Where one row's group lies.
struct Row {
  const std::uint8_t* q;
  const std::int8_t* coef;
  const std::uint32_t* sign;
};

#pragma GCC push_options
#pragma GCC target("avx2")

inline __m256i load(const void* from) { return _mm256_load_si256(static_cast<const __m256i*>(from)); }
inline void store(__m256i value, void* to) { _mm256_store_si256(static_cast<__m256i*>(to), value); }

void pack_group(const std::int8_t* q, const std::int16_t* coef, const std::uint32_t* sign, PackedGroup& to) {
  const __m256i eight = _mm256_set1_epi8(8);
  for (int pair = 0; pair < 4; ++pair) {
    const __m256i q0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + pair * 64)), q1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + pair * 64 + 32));
    const __m256i low = _mm256_permute2x128_si256(q0, q1, 0x20), high = _mm256_permute2x128_si256(q0, q1, 0x31);
    store(low, to.low[pair]);
    store(high, to.high[pair]);
    store(_mm256_sub_epi16(_mm256_setzero_si256(), _mm256_add_epi16(_mm256_maddubs_epi16(eight, low), _mm256_maddubs_epi16(eight, high))), to.start[pair]);
    store(_mm256_set_m128i(_mm_set1_epi16(coef[pair * 2 + 1]), _mm_set1_epi16(coef[pair * 2])), to.coef[pair]);
  }
  std::memcpy(to.sign, sign, sizeof to.sign);
}

void pack(const Activations& b, Range blocks, std::byte* packed) {
  auto* to = reinterpret_cast<PackedGroup*>(packed);
  std::int64_t first = blocks.first;
  for (; first + group_blocks <= blocks.end; first += group_blocks, ++to) pack_group(b.q + first * 32, b.coef + first, b.sign + first, *new (to) PackedGroup);
  if (const auto left = static_cast<std::size_t>(blocks.end - first); left > 0) {
    std::int8_t q[group_blocks * 32] = {};
    std::int16_t coef[group_blocks] = {};
    std::uint32_t sign[group_blocks] = {};
    std::memcpy(q, b.q + first * 32, left * 32);
    std::memcpy(coef, b.coef + first, left * 2);
    std::memcpy(sign, b.sign + first, left * 4);
    pack_group(q, coef, sign, *new (to) PackedGroup);
  }
}

/// 16 - n in the bytes whose bit in `signs` is set: `bytes` brings the byte with its bit to each.
inline __m256i negate(__m256i n, __m256i signs, __m256i bytes) {
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(signs, bytes), bit), bit);
  return _mm256_blendv_epi8(n, _mm256_sub_epi8(_mm256_set1_epi8(16), n), set);
}

inline __m256i pair_sums(const Row& row, const PackedGroup& b, int pair) {
  const __m256i low_bytes = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5);
  const __m256i high_bytes = _mm256_setr_epi8(2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 6, 6, 6, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7);
  const __m256i nibble = _mm256_set1_epi8(15);
  std::int64_t a_sign, b_sign;  // of two blocks
  std::memcpy(&a_sign, row.sign + pair * 2, 8);
  std::memcpy(&b_sign, b.sign + pair * 2, 8);
  const __m256i signs = _mm256_set1_epi64x(a_sign ^ b_sign);
  const __m256i q = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row.q + pair * 32));
  const __m256i low = negate(_mm256_and_si256(q, nibble), signs, low_bytes), high = negate(_mm256_and_si256(_mm256_srli_epi16(q, 4), nibble), signs, high_bytes);
  __m256i sum = _mm256_add_epi16(load(b.start[pair]), _mm256_maddubs_epi16(low, load(b.low[pair])));
  sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(high, load(b.high[pair])));
  return _mm256_madd_epi16(sum, load(b.coef[pair]));
}

inline __m256i add_group(const Row& row, const PackedGroup& b, __m256i total) {
  const __m256i a0 = pair_sums(row, b, 0), a1 = pair_sums(row, b, 1), a2 = pair_sums(row, b, 2), a3 = pair_sums(row, b, 3);
  const __m256i a01 = _mm256_add_epi32(_mm256_unpacklo_epi32(a0, a1), _mm256_unpackhi_epi32(a0, a1));
  const __m256i a23 = _mm256_add_epi32(_mm256_unpacklo_epi32(a2, a3), _mm256_unpackhi_epi32(a2, a3));
  const __m256i sum = _mm256_add_epi32(_mm256_unpacklo_epi64(a01, a23), _mm256_unpackhi_epi64(a01, a23));  // lane l, element p: block 2p + l
  const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i coef = _mm256_cvtepi8_epi32(_mm_shuffle_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(row.coef)), order));
  total = _mm256_add_epi64(total, _mm256_mul_epi32(sum, coef));
  return _mm256_add_epi64(total, _mm256_mul_epi32(_mm256_srli_epi64(sum, 32), _mm256_srli_epi64(coef, 32)));
}

void add_rows(const Weights& a, Range rows, Range blocks, const std::byte* packed, std::uint64_t* sums) {
  for (std::int64_t r = rows.first; r < rows.end; ++r) {
    const auto* b = reinterpret_cast<const PackedGroup*>(packed);
    const std::int64_t at = r * a.nb + blocks.first;
    Row row{a.q + at * 16, a.coef + at, a.sign + at};
    __m256i total = _mm256_setzero_si256();
    std::int64_t left = blocks.end - blocks.first;
    for (; left >= group_blocks; left -= group_blocks, ++b) {
      for (int line = 0; line < 2; ++line) _mm_prefetch(reinterpret_cast<const char*>(row.q + ahead_blocks * 16 + line * 64), _MM_HINT_T1);
      _mm_prefetch(reinterpret_cast<const char*>(row.sign + ahead_blocks), _MM_HINT_T1);
      total = add_group(row, *b, total);
      row = {row.q + group_blocks * 16, row.coef + group_blocks, row.sign + group_blocks};
    }
    if (left > 0) {
      std::uint8_t q[group_blocks * 16] = {};
      std::int8_t coef[group_blocks] = {};
      std::uint32_t sign[group_blocks] = {};
      std::memcpy(q, row.q, static_cast<std::size_t>(left) * 16);
      std::memcpy(coef, row.coef, static_cast<std::size_t>(left));
      std::memcpy(sign, row.sign, static_cast<std::size_t>(left) * 4);
      total = add_group({q, coef, sign}, *b, total);
    }
    const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
    sums[r] += static_cast<std::uint64_t>(_mm_cvtsi128_si64(two)) + static_cast<std::uint64_t>(_mm_extract_epi64(two, 1));
  }
}

#pragma GCC pop_options

}  // namespace

const Form avx2_form = {"avx2", runs_here, pack, add_rows};

}  // namespace faibench::int4_int8_blocked_dot::cpu
