// Which ranks of a group share a node.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace faibench {

/// The nodes of a group of ranks, numbered by their lowest rank. Ranks of one node reach each other through memory, others through the network.
class NodeMap {
 public:
  /// `node_of_rank`: any labels, equal where ranks share a node.
  explicit NodeMap(std::span<const int> node_of_rank);
  /// Ranks in order, `per_node` to a node; the last node may hold fewer. Throws Error(internal) unless both are at least 1.
  static NodeMap regular(int ranks, int per_node);

  [[nodiscard]] int ranks() const { return static_cast<int>(node_.size()); }
  [[nodiscard]] int nodes() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] int node_of(int rank) const { return node_[static_cast<std::size_t>(rank)]; }
  /// Position among the ranks of its node.
  [[nodiscard]] int local_rank(int rank) const { return local_[static_cast<std::size_t>(rank)]; }
  /// Ranks of a node, ascending.
  [[nodiscard]] std::span<const int> members(int node) const { return members_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] bool same_node(int a, int b) const { return node_of(a) == node_of(b); }
  /// Whether all nodes hold equally many ranks.
  [[nodiscard]] bool uniform() const;
  /// Whether the ranks of every node are consecutive, so that sums over nodes in order run over ranks in order.
  [[nodiscard]] bool contiguous() const;

 private:
  std::vector<int> node_, local_;
  std::vector<std::vector<int>> members_;
};

}  // namespace faibench
