// Plain C++. b is packed as 16-bit values with their signs applied, so that only a's nibbles and signs are left to decode; one bit a 16-bit lane, which vectors without variable shifts can test.
#include <new>

#include "kernels/linalg/int4_int8_blocked_dot/cpu.h"

namespace faibench::int4_int8_blocked_dot::cpu {
namespace {

struct PackedBlock {
  std::int16_t low[16], high[16];  // elements 0 to 15 and 16 to 31
  std::int16_t coef;
};
static_assert(most_blocks * sizeof(PackedBlock) <= packed_room);

constexpr std::uint16_t bit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};

/// -x where bit j of `signs` is set.
inline std::int16_t with_sign(int x, std::uint16_t signs, int j) {
  const auto minus = static_cast<std::int16_t>((signs & bit[j]) == bit[j] ? -1 : 0);
  return static_cast<std::int16_t>((x ^ minus) - minus);
}

bool runs_here() { return true; }

void pack(const Activations& b, Range blocks, std::byte* packed) {
  auto* to = reinterpret_cast<PackedBlock*>(packed);
  for (std::int64_t block = blocks.first; block < blocks.end; ++block, ++to) {
    new (to) PackedBlock;
    const std::int8_t* const q = b.q + block * 32;
    const auto low_signs = static_cast<std::uint16_t>(b.sign[block]), high_signs = static_cast<std::uint16_t>(b.sign[block] >> 16);
#pragma omp simd
    for (int j = 0; j < 16; ++j) {
      to->low[j] = with_sign(q[j], low_signs, j);
      to->high[j] = with_sign(q[j + 16], high_signs, j);
    }
    to->coef = b.coef[block];
  }
}

void add_rows(const Weights& a, Range rows, Range blocks, const std::byte* packed, std::uint64_t* sums) {
  for (std::int64_t r = rows.first; r < rows.end; ++r) {
    const auto* b = reinterpret_cast<const PackedBlock*>(packed);
    std::uint64_t total = 0;
    for (std::int64_t at = r * a.nb + blocks.first; at < r * a.nb + blocks.end; ++at, ++b) {
      const std::uint8_t* const q = a.q + at * 16;
      const auto low_signs = static_cast<std::uint16_t>(a.sign[at]), high_signs = static_cast<std::uint16_t>(a.sign[at] >> 16);
      std::int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int j = 0; j < 16; ++j) {
        const std::uint16_t byte = q[j];
        sum += with_sign((byte & 15) - 8, low_signs, j) * b->low[j] + with_sign((byte >> 4) - 8, high_signs, j) * b->high[j];
      }
      total += static_cast<std::uint64_t>(std::int64_t{a.coef[at]} * b->coef * sum);
    }
    sums[r] += total;
  }
}

}  // namespace

const Form portable_form = {"portable", runs_here, pack, add_rows};

}  // namespace faibench::int4_int8_blocked_dot::cpu
