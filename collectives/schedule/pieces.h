// How schedules cut vectors and fold rank counts.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

namespace faibench {

/// `count` elements in `parts` consecutive pieces; the first count mod parts are one longer, and pieces may be empty.
struct Pieces {
  std::int64_t count = 0;
  int parts = 1;
  [[nodiscard]] std::int64_t start(int q) const { return count / parts * q + std::min<std::int64_t>(q, count % parts); }
  [[nodiscard]] std::int64_t length(int q) const { return count / parts + (q < count % parts ? 1 : 0); }
};

/// P ranks as a power of two: of the first 2(P - 2^k) ranks every odd one gives its part to the even one before it and sits out; the others play roles 0 .. 2^k-1, in rank order.
struct Folding {
  explicit Folding(int ranks) : roles(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))), extra(ranks - roles) {}
  int roles, extra;
  [[nodiscard]] int steps() const { return std::countr_zero(static_cast<unsigned>(roles)); }
  [[nodiscard]] bool folds() const { return extra > 0; }
  [[nodiscard]] bool sits_out(int rank) const { return rank < 2 * extra && rank % 2 == 1; }
  /// Takes the part of the next rank besides its own.
  [[nodiscard]] bool stands_for_two(int rank) const { return rank < 2 * extra && rank % 2 == 0; }
  [[nodiscard]] int role_of(int rank) const { return rank < 2 * extra ? rank / 2 : rank - extra; }
  [[nodiscard]] int rank_of(int role) const { return role < extra ? 2 * role : role + extra; }
};

/// index mod ranks, for -ranks <= index < 2*ranks.
inline int wrapped(int index, int ranks) { return index < 0 ? index + ranks : index >= ranks ? index - ranks : index; }

}  // namespace faibench
