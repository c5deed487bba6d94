#include "communicator/node_map.h"

#include <algorithm>
#include <map>

#include "tensor/error.h"

namespace faibench {

NodeMap::NodeMap(std::span<const int> node_of_rank) {
  std::map<int, int> numbers;
  for (std::size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    const auto [entry, is_new] = numbers.emplace(node_of_rank[rank], static_cast<int>(members_.size()));
    if (is_new) members_.emplace_back();
    auto& members = members_[static_cast<std::size_t>(entry->second)];
    node_.push_back(entry->second);
    local_.push_back(static_cast<int>(members.size()));
    members.push_back(static_cast<int>(rank));
  }
}

NodeMap NodeMap::regular(int ranks, int per_node) {
  if (ranks < 1 || per_node < 1) throw Error(Error::Kind::internal, "NodeMap: " + std::to_string(ranks) + " ranks, " + std::to_string(per_node) + " to a node");
  std::vector<int> labels(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) labels[static_cast<std::size_t>(rank)] = rank / per_node;
  return NodeMap(labels);
}

bool NodeMap::uniform() const {
  return std::ranges::all_of(members_, [&](const auto& members) { return members.size() == members_.front().size(); });
}

bool NodeMap::contiguous() const { return std::ranges::is_sorted(node_); }

}  // namespace faibench
