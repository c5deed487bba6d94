// Damages bytes the way disks, transfers and attackers do: bits flipped, ends cut off, pieces moved, numbers made extreme.
#pragma once
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tensor/random.h"

namespace faibench::testing_support {

/// One to eight changes of a random one of `originals`.
inline std::string mutated(const std::vector<std::string>& originals, Random& random) {
  std::string bytes = originals[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(originals.size())))];
  const auto place = [&] { return static_cast<std::size_t>(random.below(static_cast<std::int64_t>(bytes.size()) + 1)); };
  for (std::int64_t changes = random.between(1, 8); changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = std::min(place(), bytes.size() - 1);
    switch (random.below(8)) {
      case 0:
      case 1:
      case 2: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8))); break;
      case 3: bytes[at] = static_cast<char>(random.u32()); break;
      case 4: {  // an extreme number of 1, 2, 4 or 8 bytes
        static constexpr std::uint64_t extremes[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, 0xffffffffffffffff};
        std::uint64_t value = extremes[random.below(12)];
        for (std::size_t i = at, end = std::min(bytes.size(), at + (std::size_t{1} << random.below(4))); i < end; ++i, value >>= 8) bytes[i] = static_cast<char>(value);
        break;
      }
      case 5:
        if (random.below(4) == 0) bytes.resize(at);
        break;
      case 6: {  // a piece of itself or of another file over this place
        const std::string& source = originals[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(originals.size())))];
        const std::size_t from = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(source.size())));
        const std::string piece = source.substr(from, static_cast<std::size_t>(random.between(1, 64)));
        bytes.replace(at, std::min(piece.size(), bytes.size() - at), piece);
        break;
      }
      case 7:  // a piece in or out: everything behind it moves
        if (random.below(2) == 0) bytes.erase(at, static_cast<std::size_t>(random.between(1, 16)));
        else bytes.insert(at, bytes.substr(at, static_cast<std::size_t>(random.between(1, 16))));
        break;
    }
  }
  return bytes;
}

/// Calls `attempt(Random&)` with numbers of its own each time until the time is over: FAIBENCH_FUZZ_SECONDS or `default_seconds`. Returns how often.
inline std::int64_t fuzz(double default_seconds, const std::function<void(Random&)>& attempt) {
  const char* asked = std::getenv("FAIBENCH_FUZZ_SECONDS");
  const char* seed = std::getenv("FAIBENCH_FUZZ_SEED");
  const std::chrono::duration<double> limit(asked ? std::atof(asked) : default_seconds);
  const auto start = std::chrono::steady_clock::now();
  std::int64_t attempts = 0;
  while (std::chrono::steady_clock::now() - start < limit) {
    Random random("fuzz", "", seed ? std::strtoull(seed, nullptr, 10) : 1, static_cast<std::uint64_t>(attempts++));
    attempt(random);
  }
  return attempts;
}

}  // namespace faibench::testing_support
