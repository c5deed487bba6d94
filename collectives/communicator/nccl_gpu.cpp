#include "communicator/nccl_gpu.h"

#include <algorithm>

#include "communicator/node_map.h"
#include "device/assignment.h"

namespace faibench {
namespace {

// Every rank's texts, by rank.
std::vector<std::vector<std::string>> gather(Communicator& ranks, const std::vector<std::string>& own) {
  std::string text;
  for (const std::string& one : own) text += one + '\n';
  const auto size = static_cast<std::size_t>(ranks.size());
  std::vector<std::int64_t> lengths(size), ones(size, 1);
  const auto length = static_cast<std::int64_t>(text.size());
  ranks.all_gather(&length, lengths.data(), ones, Dtype::i64);
  std::int64_t sum = 0;
  for (std::int64_t l : lengths) sum += l;
  std::string all(static_cast<std::size_t>(sum), '\0');
  ranks.all_gather(text.data(), all.data(), lengths, Dtype::u8);
  std::vector<std::vector<std::string>> texts(size);
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < size; ++rank) {
    for (const std::size_t end = at + static_cast<std::size_t>(lengths[rank]); at < end;) {
      const std::size_t line = all.find('\n', at);
      texts[rank].push_back(all.substr(at, line - at));
      at = line + 1;
    }
  }
  return texts;
}

}  // namespace

int own_gpu(Communicator& ranks, const std::vector<std::string>& visible, std::string& why) {
  const auto all = gather(ranks, visible);
  const NodeMap& nodes = ranks.nodes();
  const auto members = nodes.members(nodes.node_of(ranks.rank()));
  std::vector<std::vector<std::string>> here;
  for (int member : members) here.push_back(all[static_cast<std::size_t>(member)]);
  const std::vector<int> given = assign_gpus(here);
  const auto uuid = [&](std::size_t local) { return here[local][static_cast<std::size_t>(given[local])]; };
  const auto own = static_cast<std::size_t>(nodes.local_rank(ranks.rank()));
  if (given[own] < 0) {
    why = "no GPU";
    return -1;
  }
  for (std::size_t local = 0; local < here.size(); ++local) {
    if (local == own || given[local] < 0 || uuid(local) != uuid(own)) continue;
    why = uuid(own) + " is also that of rank " + std::to_string(members[local]) + ": NCCL wants a GPU of its own for every rank of a node";
    return -1;
  }
  return given[own];
}

}  // namespace faibench
