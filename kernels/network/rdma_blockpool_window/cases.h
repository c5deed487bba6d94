// Rules, cases and generated inputs of rdma_blockpool_window.
#pragma once
#include <string>
#include <vector>

#include "task/task.h"

namespace faibench::rdma_blockpool_window {

struct Parameter {
  std::string name;
  std::int64_t low, high;
};
/// The 16 entries of config and their ranges.
const std::vector<Parameter>& parameters();
void add_rules(Contract& contract);

struct Region {
  std::uint64_t start, size;
  std::int32_t type;
  std::uint32_t id;
};
/// An input before it becomes tensors. Default: valid parameters, no region, no query.
struct Input {
  std::vector<std::int64_t> config = {16, 1024, 1024, 4, 128, 0, 128, 128, 128, 128, 2097152, 4, 512, 1, 0, 32};
  std::vector<std::uint64_t> tiers = {8192, 65536, 2097152};
  std::vector<Region> regions;
  std::vector<std::uint64_t> inflight, addr, size;
  [[nodiscard]] TensorMap tensors() const;
  void ask(std::uint64_t at, std::uint64_t bytes) {
    addr.push_back(at);
    size.push_back(bytes);
  }
};
std::vector<Case> cases();
TensorMap random_input(Random& random);
/// 16 pool and 48 user regions in random address order; `small`: sizes of 16 to 512 bytes only.
TensorMap stream_input(Random& random, std::int64_t queries, bool small);
/// 3 regions.
TensorMap smoke_input(Random& random);

}  // namespace faibench::rdma_blockpool_window
