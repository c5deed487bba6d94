// rdma_blockpool_window: contract, workloads, gate, floor.
#include "task/task.h"

#include "kernels/network/rdma_blockpool_window/cases.h"
#include "kernels/network/rdma_blockpool_window/rdma_blockpool_window.h"

namespace faibench {
namespace rdma_blockpool_window {
namespace {

Task make() {
  Task task;
  task.name = "rdma_blockpool_window";
  task.group = "network";
  task.summary = "Region and block of each send on an RDMA connection, under its send window";
  task.semantics =
      "A region holds its bytes, the end excluded; a span stops at the region's end. Query q first gives back the oldest block if the window is full (to the front of its list), then takes the front of the first idle "
      "list (tier, (q + k) mod buckets) that is not empty. No fall-over to a larger tier.";
  Contract& c = task.contract;
  c.input("config", {Dtype::i64}, {"C"}, "16 parameters");
  c.input("tiers", {Dtype::u64}, {"T"}, "block sizes", "8192, 65536, 2097152");
  c.input("region_start", {Dtype::u64}, {"R"}, "registered regions in registration order");
  c.input("region_size", {Dtype::u64}, {"R"}, "bytes");
  c.input("region_type", {Dtype::i32}, {"R"}, "0, 1, 2: pool region of that tier; 3: user memory");
  c.input("region_id", {Dtype::u32}, {"R"}, "local key");
  c.input("inflight", {Dtype::u64}, {"F"}, "blocks in flight at the start, oldest first");
  c.input("addr", {Dtype::u64}, {"Q"}, "payload of each send");
  c.input("size", {Dtype::u64}, {"Q"}, "its bytes");
  c.output("window", {Dtype::i32}, {}, "W = min(sq_size, remote_rq_size) - 3");
  c.output("region", {Dtype::i32}, {"Q"}, "region that holds addr, -1 if none");
  c.output("lkey", {Dtype::u32}, {"Q"}, "its region_id, 0 if none");
  c.output("span", {Dtype::u64}, {"Q"}, "bytes of the payload inside that region, 0 if none");
  c.output("tier", {Dtype::i32}, {"Q"}, "smallest t with size <= tiers[t]");
  c.output("block", {Dtype::u64}, {"Q"}, "allocated block, 0 if its tier is exhausted");
  c.output("block_lkey", {Dtype::u32}, {"Q"}, "key of its region, 0 if none");
  c.output("released", {Dtype::u64}, {"Q"}, "block given back just before, 0 if none");
  c.output("inflight_out", {Dtype::u64}, {"F+Q"}, "blocks in flight at the end, oldest first").length = "G";
  add_rules(c);
  const std::vector<std::string> parameters = {"config", "tiers", "region_start", "region_size", "region_type", "region_id", "inflight", "addr", "size", "window", "region", "lkey", "span", "tier", "block", "block_lkey", "released", "inflight_out", "G"};
  task.variants = {
      {"reference", Kernel({bind(reference::plan_sends, parameters)}), "every idle block in a deque"},
      {"baseline", Kernel({bind(baseline::plan_sends, parameters)}), "linear scans, spans byte by byte, linked idle nodes"},
      {"cpu", Kernel({bind(cpu::plan_sends, parameters)}), "branch-free search of sorted starts on all threads, stacks over virgin slices, a ring that remembers each block's list"},
  };
  task.workloads = {
      {"smoke", "3 regions, 200 queries", {smoke_input}, 0.01},
      {"standard", "16 pool and 48 user regions, W = 125, 4000 queries of 16 bytes to 2 MiB", {[](Random& random) { return stream_input(random, 4000, false); }}, 2},
      {"heavy", "as standard, 10^6 queries of at most 512 bytes", {[](Random& random) { return stream_input(random, 1000000, true); }}, 8},
  };
  task.cases = cases();
  task.random_case = random_input;
  task.gate = exact_gate();
  task.gate.text = "exact, all rejection codes included";
  task.floor = [](const TensorRefMap& inputs) { return Floor{60.0 * static_cast<double>(inputs.at("addr").size()), 0}; };
  task.floor_text = "16 Q bytes read, 44 Q written";
  return task;
}

}  // namespace
}  // namespace rdma_blockpool_window

namespace tasks {
const Task& rdma_blockpool_window() {
  static const Task task = faibench::rdma_blockpool_window::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
