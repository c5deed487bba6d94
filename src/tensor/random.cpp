#include "tensor/random.h"

#include <bit>
#include <cmath>
#include <numeric>

namespace faibench {
namespace {

constexpr std::uint32_t multiplier0 = 0xD2511F53u, multiplier1 = 0xCD9E8D57u;
constexpr std::uint32_t weyl0 = 0x9E3779B9u, weyl1 = 0xBB67AE85u;

inline void philox_rounds(std::uint32_t& c0, std::uint32_t& c1, std::uint32_t& c2, std::uint32_t& c3, std::uint32_t k0, std::uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{multiplier0} * c0, p1 = std::uint64_t{multiplier1} * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0, n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += weyl0;
    k1 += weyl1;
  }
}

constexpr std::int64_t tile_blocks = 256;               // 1,024 words: stays in L1
constexpr std::int64_t tile_words = tile_blocks * 4;
constexpr std::int64_t parallel_words = 1 << 18;        // below this a thread team costs more than it saves

// Word w of the stream is word w%4 of block w/4. Written as four planes first, so that the compiler vectorises over blocks.
__attribute__((target_clones("default", "avx2", "avx512f")))
void philox_tile(std::uint64_t key, std::uint64_t stream, std::uint64_t first_block, std::uint32_t* __restrict out) {
  alignas(64) std::uint32_t p0[tile_blocks], p1[tile_blocks], p2[tile_blocks], p3[tile_blocks];
  const std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  const std::uint32_t s0 = static_cast<std::uint32_t>(stream), s1 = static_cast<std::uint32_t>(stream >> 32);
  for (std::int64_t i = 0; i < tile_blocks; ++i) {
    const std::uint64_t counter = first_block + static_cast<std::uint64_t>(i);
    std::uint32_t c0 = static_cast<std::uint32_t>(counter), c1 = static_cast<std::uint32_t>(counter >> 32), c2 = s0, c3 = s1;
    philox_rounds(c0, c1, c2, c3, k0, k1);
    p0[i] = c0;
    p1[i] = c1;
    p2[i] = c2;
    p3[i] = c3;
  }
  for (std::int64_t i = 0; i < tile_blocks; ++i) {
    out[4 * i] = p0[i];
    out[4 * i + 1] = p1[i];
    out[4 * i + 2] = p2[i];
    out[4 * i + 3] = p3[i];
  }
}

// Box-Muller on pairs of words, in f32 with polynomials of our own: libm's bits differ from system to system.
__attribute__((target_clones("default", "avx2", "avx512f")))
void normal_tile(const std::uint32_t* __restrict words, float mean, float deviation, float* __restrict out) {
  for (std::int64_t i = 0; i < tile_words / 2; ++i) {
    // u in (0, 1]: 24 bits; log by exponent and a polynomial in the mantissa m in [sqrt(1/2), sqrt(2)).
    const float u = static_cast<float>(static_cast<std::int32_t>((words[i] >> 8) + 1)) * 0x1p-24f;
    std::uint32_t bits = std::bit_cast<std::uint32_t>(u);
    const std::uint32_t shifted = bits - 0x3f3504f3u;
    const std::int32_t exponent = static_cast<std::int32_t>(shifted) >> 23;
    const float m = std::bit_cast<float>((shifted & 0x7fffffu) + 0x3f3504f3u);
    const float z = (m - 1.0f) / (m + 1.0f), z2 = z * z;
    const float log_m = 2.0f * z * (1.0f + z2 * (0.33333334f + z2 * (0.2f + z2 * (0.14285715f + z2 * 0.11111111f))));
    const float log_u = static_cast<float>(exponent) * 0.6931472f + log_m;
    const float radius = std::sqrt(-2.0f * log_u > 0.0f ? -2.0f * log_u : 0.0f);
    // angle in quarter turns: q the quadrant, t in [-1/2, 1/2) of it.
    const std::uint32_t w = words[i + tile_words / 2];
    const float t = static_cast<float>(static_cast<std::int32_t>((w << 2) >> 8)) * 0x1p-24f - 0.5f;
    const float a = t * 1.5707964f, a2 = a * a;
    const float sine = a * (1.0f + a2 * (-0.16666667f + a2 * (0.008333334f + a2 * -0.00019841270f)));
    const float cosine = 1.0f + a2 * (-0.5f + a2 * (0.041666668f + a2 * (-0.0013888889f + a2 * 2.4801588e-5f)));
    const std::uint32_t quadrant = w >> 30;
    const float x = (quadrant & 1u) ? -sine : cosine, y = (quadrant & 1u) ? cosine : sine;
    const float sign = (quadrant & 2u) ? -1.0f : 1.0f;
    out[i] = mean + deviation * (radius * sign * x);
    out[i + tile_words / 2] = mean + deviation * (radius * sign * y);
  }
}

// Runs `convert(words, first, count)` over all tiles of `total` output words.
template <class Convert>
void for_tiles(std::uint64_t key, std::uint64_t stream, std::int64_t total, Convert convert) {
  const std::int64_t tiles = (total + tile_words - 1) / tile_words;
#pragma omp parallel for schedule(static) if (total >= parallel_words)
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    alignas(64) std::uint32_t words[tile_words];
    philox_tile(key, stream, static_cast<std::uint64_t>(tile) * tile_blocks, words);
    const std::int64_t first = tile * tile_words;
    convert(words, first, std::min(tile_words, total - first));
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> key) {
  philox_rounds(c[0], c[1], c[2], c[3], key[0], key[1]);
  return c;
}

std::uint64_t stable_hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t h = 0xcbf29ce484222325u ^ (seed * 0x9E3779B97F4A7C15u);
  for (unsigned char c : text) h = (h ^ c) * 0x100000001b3u;
  h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
  h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
  return h ^ (h >> 32);
}

double stable_log(double x) {
  const std::uint64_t shifted = std::bit_cast<std::uint64_t>(x) - 0x3fe6a09e667f3bcdu;  // so that the mantissa is in [sqrt(1/2), sqrt(2))
  const std::int64_t exponent = static_cast<std::int64_t>(shifted) >> 52;
  const double m = std::bit_cast<double>((shifted & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu);
  const double z = (m - 1.0) / (m + 1.0), z2 = z * z;
  double series = 0;
  for (int k = 21; k >= 1; k -= 2) series = series * z2 + 1.0 / k;  // 2 atanh(z); |z| < 0.172, the next term is below 2^-60
  return static_cast<double>(exponent) * 0x1.62e42fefa39efp-1 + 2.0 * z * series;
}

double stable_exp(double x) {
  const double scaled = std::nearbyint(x * 0x1.71547652b82fep0);
  const double r = (x - scaled * 0x1.62e42feep-1) - scaled * 0x1.a39ef35793c76p-33;
  double series = 1;
  for (int k = 14; k >= 1; --k) series = series * r / k + 1.0;
  return std::ldexp(series, static_cast<int>(scaled));
}

Random::Random(std::string_view task, std::string_view workload, std::uint64_t seed, std::uint64_t repetition)
    : key_(stable_hash(workload, stable_hash(task, seed)) + repetition * 0x9E3779B97F4A7C15u) {}

Random Random::stream(std::uint64_t k) const { return Random(stable_hash("stream", key_ ^ (k + 1) * 0xD1342543DE82EF95u)); }

void Random::refill() {
  const std::uint64_t c = counter_++;
  block_ = philox4x32_10({static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(c >> 32), 0, 0}, {static_cast<std::uint32_t>(key_), static_cast<std::uint32_t>(key_ >> 32)});
  left_ = 4;
}

std::uint64_t Random::next_stream() { return ++fills_; }

std::uint32_t Random::u32() {
  if (left_ == 0) refill();
  return block_[static_cast<std::size_t>(4 - left_--)];
}

std::uint64_t Random::u64() {
  const std::uint64_t high = u32();
  return high << 32 | u32();
}

double Random::uniform() { return static_cast<double>(u64() >> 11) * 0x1p-53; }

std::int64_t Random::below(std::int64_t n) {
  const std::uint64_t range = static_cast<std::uint64_t>(n);
  if (range <= 0xffffffffu) {  // Lemire's multiplication, with rejection
    std::uint64_t product = std::uint64_t{u32()} * range;
    if (static_cast<std::uint32_t>(product) < range) {
      const std::uint32_t threshold = static_cast<std::uint32_t>((std::uint64_t{1} << 32) % range);
      while (static_cast<std::uint32_t>(product) < threshold) product = std::uint64_t{u32()} * range;
    }
    return static_cast<std::int64_t>(product >> 32);
  }
  return static_cast<std::int64_t>((static_cast<unsigned __int128>(u64()) * range) >> 64);
}

double Random::normal() {  // Marsaglia's polar method: no trigonometry
  for (;;) {
    const double x = uniform(-1, 1), y = uniform(-1, 1), s = x * x + y * y;
    if (s > 0 && s < 1) return x * std::sqrt(-2.0 * stable_log(s) / s);
  }
}

double Random::exponential() { return -stable_log(1.0 - uniform()); }

std::vector<std::int64_t> Random::permutation(std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  shuffle(order);
  return order;
}

void Random::fill_bits(std::span<std::uint32_t> out) {
  for_tiles(key_, next_stream(), static_cast<std::int64_t>(out.size()), [&](const std::uint32_t* words, std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) out[static_cast<std::size_t>(first + i)] = words[i];
  });
}

void Random::fill_uniform(std::span<float> out, float low, float high) {
  for_tiles(key_, next_stream(), static_cast<std::int64_t>(out.size()), [&](const std::uint32_t* words, std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      out[static_cast<std::size_t>(first + i)] = low + (high - low) * (static_cast<float>(static_cast<std::int32_t>(words[i] >> 8)) * 0x1p-24f);
  });
}

void Random::fill_normal(std::span<float> out, float mean, float deviation) {
  for_tiles(key_, next_stream(), static_cast<std::int64_t>(out.size()), [&](const std::uint32_t* words, std::int64_t first, std::int64_t count) {
    alignas(64) float values[tile_words];
    normal_tile(words, mean, deviation, values);
    for (std::int64_t i = 0; i < count; ++i) out[static_cast<std::size_t>(first + i)] = values[i];
  });
}

void Random::fill_below(std::span<std::int32_t> out, std::int32_t n) {
  for_tiles(key_, next_stream(), static_cast<std::int64_t>(out.size()), [&](const std::uint32_t* words, std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      out[static_cast<std::size_t>(first + i)] = static_cast<std::int32_t>(std::uint64_t{words[i]} * static_cast<std::uint32_t>(n) >> 32);
  });
}

}  // namespace faibench
