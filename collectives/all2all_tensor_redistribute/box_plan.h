// Which part of which source shard goes where: the algebra of boxes, without any data.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "communicator/node_map.h"
#include "collectives/all2all_tensor_redistribute/strided_copy.h"

namespace faibench::all2all_tensor_redistribute {

/// A tensor cut over a mesh. Per dim the pieces are intervals in ascending order that follow each other without a gap (some may be empty), so a list of cut points says all.
class Sharding {
 public:
  /// Arguments as the contract's, valid by its rules. O(P + D).
  Sharding(std::span<const std::int64_t> shape, std::span<const std::int64_t> mesh, std::span<const std::int64_t> axes, std::span<const std::int64_t> axes_offsets);

  [[nodiscard]] int dims() const { return dims_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(free_.size()); }
  /// Piece j of dim d is [cuts(d)[j], cuts(d)[j+1]).
  [[nodiscard]] std::span<const std::int64_t> cuts(int d) const { return cuts_[static_cast<std::size_t>(d)]; }
  [[nodiscard]] int piece(int d, int rank) const { return pieces_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(dims_) + static_cast<std::size_t>(d)]; }
  [[nodiscard]] std::int64_t low(int d, int rank) const { return cuts(d)[static_cast<std::size_t>(piece(d, rank))]; }
  [[nodiscard]] std::int64_t high(int d, int rank) const { return cuts(d)[static_cast<std::size_t>(piece(d, rank)) + 1]; }
  /// Elements of a rank's shard.
  [[nodiscard]] std::int64_t size(int rank) const;
  /// A rank is the sum of rank_part(d, its piece of d) over d and free_part(rank): its coordinates on mesh axes that shard nothing.
  [[nodiscard]] int rank_part(int d, int piece) const { return rank_parts_[static_cast<std::size_t>(d)][static_cast<std::size_t>(piece)]; }
  [[nodiscard]] int free_part(int rank) const { return free_[static_cast<std::size_t>(rank)]; }
  /// All values of free_part, ascending: the ranks that hold equal shards are one sum of rank parts plus each of these.
  [[nodiscard]] std::span<const int> free_parts() const { return free_parts_; }

 private:
  int dims_;
  std::array<std::vector<std::int64_t>, 8> cuts_;
  std::array<std::vector<int>, 8> rank_parts_;
  std::vector<int> pieces_, free_, free_parts_;
};

/// A part of a shard on its way: the intersection of a source and a target box. Never empty.
struct Transfer {
  int from = 0, to = 0;
  std::int64_t count = 0;  ///< elements
  std::array<std::int64_t, 8> low{}, high{};
};

/// All transfers between two shardings of one tensor over one mesh.
class Redistribution {
 public:
  Redistribution(std::span<const std::int64_t> shape, std::span<const std::int64_t> mesh, std::span<const std::int64_t> src_axes, std::span<const std::int64_t> src_axes_offsets,
                 std::span<const std::int64_t> dst_axes, std::span<const std::int64_t> dst_axes_offsets);

  [[nodiscard]] const Sharding& source() const { return source_; }
  [[nodiscard]] const Sharding& target() const { return target_; }
  [[nodiscard]] int ranks() const { return source_.ranks(); }

  /// Straight copies that fill the target shard of `rank` where all shards lie in one memory: of every piece the copy nearest in the mesh, the rank's own if it has one.
  /// `first`, `last`: the part of the target box along its first dim that is wanted, relative to the box. Calls visit(source rank, copy) for each.
  template <class Visit>
  void for_copies(int rank, std::int64_t first, std::int64_t last, Visit visit) const;

  /// What `rank` receives, one transfer a supplier, ascending; its own overlap among them. A piece that several ranks hold comes from `rank` itself, else from a rank of its
  /// node, else from any, such that the holders send about equally much. Every rank finds the same for every other.
  [[nodiscard]] std::vector<Transfer> incoming(int rank, const NodeMap& nodes) const;
  /// What `rank` sends, ascending by receiver; what it keeps is not among them.
  [[nodiscard]] std::vector<Transfer> outgoing(int rank, const NodeMap& nodes) const;

  /// From the source shard straight to the target shard; to a packed message; from one.
  [[nodiscard]] StridedCopy direct(const Transfer& transfer) const;
  [[nodiscard]] StridedCopy pack(const Transfer& transfer) const;
  [[nodiscard]] StridedCopy unpack(const Transfer& transfer) const;

 private:
  /// First source piece that reaches into target piece t of dim d; the others follow it.
  [[nodiscard]] int first_source(int d, int target_piece) const { return first_source_[static_cast<std::size_t>(d)][static_cast<std::size_t>(target_piece)]; }
  [[nodiscard]] std::vector<Transfer> wants_of(int rank) const;
  [[nodiscard]] std::vector<Transfer> takers_of(int rank) const;
  [[nodiscard]] std::vector<std::pair<int, int>> suppliers(int holder, const NodeMap& nodes) const;

  Sharding source_, target_;
  std::array<std::vector<int>, 8> first_source_, next_source_;  // next: the nearest piece behind that is not empty, or as many as there are
};

template <class Visit>
void Redistribution::for_copies(int rank, std::int64_t first, std::int64_t last, Visit visit) const {
  const int D = source_.dims();
  std::array<std::int64_t, 8> want_low{}, want_high{}, want_extent{};
  std::array<int, 8> j{};
  for (int d = 0; d < D; ++d) {
    const auto k = static_cast<std::size_t>(d);
    want_low[k] = target_.low(d, rank);
    want_high[k] = target_.high(d, rank);
    want_extent[k] = want_high[k] - want_low[k];
    if (d == 0) {
      want_high[0] = want_low[0] + last;
      want_low[0] += first;
    }
    if (want_low[k] >= want_high[k]) return;
    j[k] = first_source(d, target_.piece(d, rank));
    while (source_.cuts(d)[static_cast<std::size_t>(j[k]) + 1] <= want_low[k]) ++j[k];  // only where a part is wanted
  }
  const auto start = j;
  const int free = source_.free_part(rank);
  const std::int64_t target_skip = D > 0 ? first : 0;
  for (;;) {
    int from = free;
    CopyBuilder builder;
    for (int d = D - 1; d >= 0; --d) {
      const auto k = static_cast<std::size_t>(d);
      const auto cuts = source_.cuts(d);
      const std::int64_t piece_low = cuts[static_cast<std::size_t>(j[k])], piece_high = cuts[static_cast<std::size_t>(j[k]) + 1];
      const std::int64_t low = std::max(want_low[k], piece_low), high = std::min(want_high[k], piece_high);
      from += source_.rank_part(d, j[k]);
      builder.add_dim(high - low, low - piece_low, piece_high - piece_low, low - want_low[k] + (d == 0 ? target_skip : 0), want_extent[k]);
    }
    visit(from, builder.copy());
    int d = D - 1;
    for (; d >= 0; --d) {  // the next combination of source pieces, empty ones left out
      const auto k = static_cast<std::size_t>(d);
      const auto cuts = source_.cuts(d);
      j[k] = next_source_[k][static_cast<std::size_t>(j[k])];
      if (static_cast<std::size_t>(j[k]) + 1 < cuts.size() && cuts[static_cast<std::size_t>(j[k])] < want_high[k]) break;
      j[k] = start[k];
    }
    if (d < 0) return;
  }
}

}  // namespace faibench::all2all_tensor_redistribute
