// Counter-based random numbers: the same bits on every rank, node, compiler and thread count.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace faibench {

/// Philox 4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// 64-bit hash of text, stable for ever (it seeds generators): FNV-1a with a final mix.
std::uint64_t stable_hash(std::string_view text, std::uint64_t seed = 0);

/// log and exp from nothing but IEEE + - * / and bit operations: equal bits everywhere, within 3 ulp of the true value.
/// For finite positive normal x, and for |x| <= 700.
double stable_log(double x);
double stable_exp(double x);

/// A stream of random numbers, and bulk fills. Cheap to copy; `stream(k)` gives independent ones.
/// The bulk fills use several threads for large spans; the result does not depend on how many.
class Random {
 public:
  explicit Random(std::uint64_t key) : key_(key) {}
  /// The generator of one input set: equal arguments give equal numbers everywhere.
  Random(std::string_view task, std::string_view workload, std::uint64_t seed, std::uint64_t repetition);
  /// An independent generator; the same `k` gives the same one, wherever this one stands.
  [[nodiscard]] Random stream(std::uint64_t k) const;

  std::uint32_t u32();
  std::uint64_t u64();
  /// In [0, 1), 53 bits.
  double uniform();
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// In 0 .. n-1, without bias for n < 2^32 and with a bias below 2^-32 beyond. n >= 1.
  std::int64_t below(std::int64_t n);
  /// In low .. high, both included.
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool chance(double probability) { return uniform() < probability; }
  /// Standard normal; exponential of mean 1.
  double normal();
  double exponential();
  template <class T>
  void shuffle(std::span<T> items) {
    for (std::int64_t i = static_cast<std::int64_t>(items.size()) - 1; i > 0; --i) std::swap(items[static_cast<std::size_t>(i)], items[static_cast<std::size_t>(below(i + 1))]);
  }
  template <class T>
  void shuffle(std::vector<T>& items) { shuffle(std::span<T>(items)); }
  /// 0 .. n-1 in random order.
  std::vector<std::int64_t> permutation(std::int64_t n);

  /// Each fill takes its own stream: the next fill of the same generator gives other numbers.
  void fill_bits(std::span<std::uint32_t> out);
  void fill_uniform(std::span<float> out, float low, float high);
  void fill_normal(std::span<float> out, float mean = 0, float deviation = 1);
  /// In 0 .. n-1; 1 <= n <= 2^31.
  void fill_below(std::span<std::int32_t> out, std::int32_t n);

 private:
  void refill();
  std::uint64_t next_stream();

  std::uint64_t key_;
  std::uint64_t counter_ = 0;
  std::uint64_t fills_ = 0;
  std::array<std::uint32_t, 4> block_{};
  int left_ = 0;
};

}  // namespace faibench
