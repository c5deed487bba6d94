#include "collectives/all2all_tensor_redistribute/box_plan.h"

#include <algorithm>
#include <utility>

namespace faibench::all2all_tensor_redistribute {
namespace {

// Cuts every piece in `n` ceil chunks. In quotients and remainders: extents up to 2^63 - 1 occur where another dim is empty.
std::vector<std::int64_t> split(const std::vector<std::int64_t>& cuts, std::int64_t n) {
  std::vector<std::int64_t> finer;
  finer.reserve((cuts.size() - 1) * static_cast<std::size_t>(n) + 1);
  for (std::size_t j = 0; j + 1 < cuts.size(); ++j) {
    const std::int64_t length = cuts[j + 1] - cuts[j], chunk = length / n + (length % n != 0 ? 1 : 0);
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      finer.push_back(cuts[j] + at);
      at = length - at > chunk ? at + chunk : length;
    }
  }
  finer.push_back(cuts.back());
  return finer;
}

std::vector<int> combine(const std::vector<int>& parts, std::int64_t n, std::int64_t stride) {
  std::vector<int> finer;
  finer.reserve(parts.size() * static_cast<std::size_t>(n));
  for (int part : parts)
    for (std::int64_t i = 0; i < n; ++i) finer.push_back(part + static_cast<int>(i * stride));
  return finer;
}

}  // namespace

Sharding::Sharding(std::span<const std::int64_t> shape, std::span<const std::int64_t> mesh, std::span<const std::int64_t> axes, std::span<const std::int64_t> axes_offsets)
    : dims_(static_cast<int>(shape.size())) {
  const std::size_t K = mesh.size();
  std::array<std::int64_t, 8> stride{}, step{};  // of a mesh axis: in ranks; in pieces of the dim that it shards
  std::array<int, 8> dim_of{};
  dim_of.fill(-1);
  std::int64_t ranks = 1;
  for (std::size_t a = K; a-- > 0;) {
    stride[a] = ranks;
    ranks *= mesh[a];
  }
  for (int d = 0; d < dims_; ++d) {
    const auto k = static_cast<std::size_t>(d);
    cuts_[k] = {0, shape[k]};
    rank_parts_[k] = {0};
    for (std::int64_t i = axes_offsets[k]; i < axes_offsets[k + 1]; ++i) {
      const auto a = static_cast<std::size_t>(axes[static_cast<std::size_t>(i)]);
      cuts_[k] = split(cuts_[k], mesh[a]);
      rank_parts_[k] = combine(rank_parts_[k], mesh[a], stride[a]);
      dim_of[a] = d;
    }
    std::int64_t pieces = 1;
    for (std::int64_t i = axes_offsets[k + 1]; i-- > axes_offsets[k];) {
      const auto a = static_cast<std::size_t>(axes[static_cast<std::size_t>(i)]);
      step[a] = pieces;
      pieces *= mesh[a];
    }
  }
  pieces_.resize(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(dims_));
  free_.resize(static_cast<std::size_t>(ranks));
  std::array<std::int64_t, 8> coordinate{};
  std::array<int, 8> piece{};
  int free = 0;
  free_parts_ = {0};
  for (std::size_t a = 0; a < K; ++a)
    if (dim_of[a] < 0) free_parts_ = combine(free_parts_, mesh[a], stride[a]);
  for (std::size_t rank = 0; rank < free_.size(); ++rank) {
    free_[rank] = free;
    for (int d = 0; d < dims_; ++d) pieces_[rank * static_cast<std::size_t>(dims_) + static_cast<std::size_t>(d)] = piece[static_cast<std::size_t>(d)];
    for (std::size_t a = K; a-- > 0;) {  // the next coordinate
      int& moved = dim_of[a] < 0 ? free : piece[static_cast<std::size_t>(dim_of[a])];
      const auto unit = static_cast<int>(dim_of[a] < 0 ? stride[a] : step[a]);
      if (++coordinate[a] < mesh[a]) {
        moved += unit;
        break;
      }
      coordinate[a] = 0;
      moved -= unit * static_cast<int>(mesh[a] - 1);
    }
  }
}

std::int64_t Sharding::size(int rank) const {
  std::int64_t size = 1;
  bool empty = false;
  for (int d = 0; d < dims_; ++d) empty |= low(d, rank) == high(d, rank);
  if (empty) return 0;  // first: the others may be huge
  for (int d = 0; d < dims_; ++d) size *= high(d, rank) - low(d, rank);
  return size;
}

Redistribution::Redistribution(std::span<const std::int64_t> shape, std::span<const std::int64_t> mesh, std::span<const std::int64_t> src_axes, std::span<const std::int64_t> src_axes_offsets,
                               std::span<const std::int64_t> dst_axes, std::span<const std::int64_t> dst_axes_offsets)
    : source_(shape, mesh, src_axes, src_axes_offsets), target_(shape, mesh, dst_axes, dst_axes_offsets) {
  for (int d = 0; d < source_.dims(); ++d) {
    const auto from = source_.cuts(d), to = target_.cuts(d);
    auto& first = first_source_[static_cast<std::size_t>(d)];
    std::size_t j = 0;
    for (std::size_t t = 0; t + 1 < to.size(); ++t) {
      while (j + 2 < from.size() && from[j + 1] <= to[t]) ++j;
      first.push_back(static_cast<int>(j));
    }
    auto& next = next_source_[static_cast<std::size_t>(d)];  // most of thousands of pieces may be empty: nobody is to step over them rank by rank
    next.resize(from.size() - 1);
    auto behind = static_cast<int>(next.size());
    for (std::size_t i = next.size(); i-- > 0;) {
      next[i] = behind;
      if (from[i] < from[i + 1]) behind = static_cast<int>(i);
    }
  }
}

// Every source box that reaches into the target box of `rank`, from the copy nearest in the mesh.
std::vector<Transfer> Redistribution::wants_of(int rank) const {
  std::vector<Transfer> wants;
  const int D = source_.dims();
  if (target_.size(rank) == 0) return wants;
  Transfer transfer;
  transfer.to = rank;
  const auto visit = [&](const auto& self, int d, int from, std::int64_t count) -> void {
    if (d == D) {
      transfer.from = from;
      transfer.count = count;
      wants.push_back(transfer);
      return;
    }
    const auto k = static_cast<std::size_t>(d);
    const auto cuts = source_.cuts(d);
    const std::int64_t low = target_.low(d, rank), high = target_.high(d, rank);
    for (auto j = static_cast<std::size_t>(first_source(d, target_.piece(d, rank))); j + 1 < cuts.size() && cuts[j] < high; ++j) {
      if (cuts[j] == cuts[j + 1]) continue;
      transfer.low[k] = std::max(low, cuts[j]);
      transfer.high[k] = std::min(high, cuts[j + 1]);
      self(self, d + 1, from + source_.rank_part(d, static_cast<int>(j)), count * (transfer.high[k] - transfer.low[k]));
    }
  };
  visit(visit, 0, source_.free_part(rank), 1);
  return wants;
}

// Every rank whose target box the source box of `rank` reaches into, itself among them; `from` is `rank`.
std::vector<Transfer> Redistribution::takers_of(int rank) const {
  std::vector<Transfer> takers;
  const int D = source_.dims();
  if (source_.size(rank) == 0) return takers;
  Transfer transfer;
  transfer.from = rank;
  const auto visit = [&](const auto& self, int d, int to, std::int64_t count) -> void {
    if (d == D) {
      transfer.count = count;
      for (int free : target_.free_parts()) {
        transfer.to = to + free;
        takers.push_back(transfer);
      }
      return;
    }
    const auto k = static_cast<std::size_t>(d);
    const auto cuts = target_.cuts(d);
    const std::int64_t low = source_.low(d, rank), high = source_.high(d, rank);
    const auto past = std::upper_bound(cuts.begin(), cuts.end() - 1, low);  // the piece before it reaches `low`
    for (auto t = static_cast<std::size_t>(past - cuts.begin()) - 1; t + 1 < cuts.size() && cuts[t] < high; ++t) {
      if (cuts[t] == cuts[t + 1]) continue;
      transfer.low[k] = std::max(low, cuts[t]);
      transfer.high[k] = std::min(high, cuts[t + 1]);
      if (transfer.low[k] >= transfer.high[k]) continue;
      self(self, d + 1, to + target_.rank_part(d, static_cast<int>(t)), count * (transfer.high[k] - transfer.low[k]));
    }
  };
  visit(visit, 0, 0, 1);
  std::sort(takers.begin(), takers.end(), [](const Transfer& a, const Transfer& b) { return a.to < b.to; });
  return takers;
}

// Who sends the box of `holder` to whom: (receiver, supplier), ascending. A rank holds one box, so what its holders send of it is all that they send, and the choice
// for one box settles the balance. The largest parts are placed first, those that a rank of the receiver's own node can supply before the others.
std::vector<std::pair<int, int>> Redistribution::suppliers(int holder, const NodeMap& nodes) const {
  struct Holder { int rank; std::int64_t load; };
  std::vector<Holder> holders;
  const int base = holder - source_.free_part(holder);
  for (int free : source_.free_parts()) holders.push_back({base + free, 0});
  std::vector<std::pair<int, int>> chosen;
  std::vector<Transfer> needs = takers_of(holder);
  std::erase_if(needs, [&](const Transfer& need) { return need.to - source_.free_part(need.to) == base; });  // they hold it themselves
  if (holders.size() == 1) {
    for (const Transfer& need : needs) chosen.emplace_back(need.to, holder);
    return chosen;
  }
  std::stable_sort(needs.begin(), needs.end(), [](const Transfer& a, const Transfer& b) { return a.count > b.count; });
  for (const bool same_node : {true, false}) {
    std::vector<Transfer> others;
    for (const Transfer& need : needs) {
      Holder* least = nullptr;
      for (Holder& candidate : holders)
        if ((!same_node || nodes.same_node(candidate.rank, need.to)) && (!least || candidate.load < least->load)) least = &candidate;
      if (!least) {
        others.push_back(need);
        continue;
      }
      least->load += need.count;
      chosen.emplace_back(need.to, least->rank);
    }
    needs = std::move(others);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<Transfer> Redistribution::incoming(int rank, const NodeMap& nodes) const {
  std::vector<Transfer> transfers = wants_of(rank);
  if (source_.free_parts().size() > 1)
    for (Transfer& transfer : transfers) {
      if (transfer.from == rank) continue;
      const auto chosen = suppliers(transfer.from, nodes);
      transfer.from = std::lower_bound(chosen.begin(), chosen.end(), std::pair{rank, 0})->second;
    }
  std::sort(transfers.begin(), transfers.end(), [](const Transfer& a, const Transfer& b) { return a.from < b.from; });
  return transfers;
}

std::vector<Transfer> Redistribution::outgoing(int rank, const NodeMap& nodes) const {
  std::vector<Transfer> transfers = takers_of(rank);
  if (source_.free_parts().size() == 1) {
    std::erase_if(transfers, [&](const Transfer& transfer) { return transfer.to == rank; });
    return transfers;
  }
  const auto chosen = suppliers(rank, nodes);
  std::erase_if(transfers, [&](const Transfer& transfer) {
    const auto found = std::lower_bound(chosen.begin(), chosen.end(), std::pair{transfer.to, 0});
    return found == chosen.end() || found->first != transfer.to || found->second != rank;
  });
  return transfers;
}

StridedCopy Redistribution::direct(const Transfer& transfer) const {
  CopyBuilder builder;
  for (int d = source_.dims() - 1; d >= 0; --d) {
    const auto k = static_cast<std::size_t>(d);
    const std::int64_t from = source_.low(d, transfer.from), to = target_.low(d, transfer.to);
    builder.add_dim(transfer.high[k] - transfer.low[k], transfer.low[k] - from, source_.high(d, transfer.from) - from, transfer.low[k] - to, target_.high(d, transfer.to) - to);
  }
  return builder.copy();
}

StridedCopy Redistribution::pack(const Transfer& transfer) const {
  CopyBuilder builder;
  for (int d = source_.dims() - 1; d >= 0; --d) {
    const auto k = static_cast<std::size_t>(d);
    const std::int64_t extent = transfer.high[k] - transfer.low[k], from = source_.low(d, transfer.from);
    builder.add_dim(extent, transfer.low[k] - from, source_.high(d, transfer.from) - from, 0, extent);
  }
  return builder.copy();
}

StridedCopy Redistribution::unpack(const Transfer& transfer) const {
  CopyBuilder builder;
  for (int d = source_.dims() - 1; d >= 0; --d) {
    const auto k = static_cast<std::size_t>(d);
    const std::int64_t extent = transfer.high[k] - transfer.low[k], to = target_.low(d, transfer.to);
    builder.add_dim(extent, 0, extent, transfer.low[k] - to, target_.high(d, transfer.to) - to);
  }
  return builder.copy();
}

}  // namespace faibench::all2all_tensor_redistribute
