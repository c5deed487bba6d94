// all2all_tensor_redistribute: variants, workloads, gate, floor. The contract is in contract.cpp, the cases in cases.cpp.
#include "task/task.h"

#include "collectives/all2all_tensor_redistribute/all2all_tensor_redistribute.h"
#include "collectives/all2all_tensor_redistribute/counters.h"
#include "collectives/all2all_tensor_redistribute/one_process.h"

namespace faibench {
namespace all2all_tensor_redistribute {
namespace {

const std::vector<std::string> parameters = {"shape",    "mesh",        "src_axes", "src_axes_offsets", "dst_axes", "dst_axes_offsets",
                                             "src_data", "src_offsets", "dst_data", "dst_offsets"};

/// One overload an element type; `function` gives the variant's function for a T.
template <class FunctionOf>
Kernel for_every_dtype(FunctionOf function) {
  std::vector<Kernel::Overload> overloads;
  for (int i = 0; i < dtype_count; ++i) visit_dtype(static_cast<Dtype>(i), [&]<class T>(T element) { overloads.push_back(bind(function(element), parameters)); });
  return Kernel(std::move(overloads));
}

Workload workload(std::string name, std::string description, Layout layout, double seconds) {
  return {std::move(name), std::move(description), {[layout](Random& random) { return whole_input(random, layout); }}, seconds};
}

Floor floor_of(const TensorRefMap& inputs) {
  double elements = 1;
  for (const std::int64_t extent : inputs.at("shape").flat<const std::int64_t>()) elements *= static_cast<double>(extent);
  const auto mesh = inputs.at("mesh").flat<const std::int64_t>();
  for (const std::int64_t n : mesh) elements *= static_cast<double>(n);
  for (const std::int64_t axis : inputs.at("dst_axes").flat<const std::int64_t>()) elements /= static_cast<double>(mesh[static_cast<std::size_t>(axis)]);
  return {2 * elements * static_cast<double>(size_of(inputs.at("src_data").dtype)), 0};
}

Task make() {
  Task task;
  task.name = "all2all_tensor_redistribute";
  task.group = "collectives";
  task.summary = "Moves a tensor that is sharded over a device mesh from one sharding to another";
  task.semantics =
      "A rank's box starts as [0, shape[d]) for each dim. For each mesh axis a in the dim's list, in order, with n = mesh[a] and the rank's coordinate i on a, [lo, hi) becomes "
      "[min(lo + i*c, hi), min(lo + (i+1)*c, hi)) with c = ceil((hi - lo)/n). A shard is the rank's box in row-major order. Axes in no list replicate. Every target shard holds exactly the "
      "global elements of its box, as bytes.";
  task.contract = one_process_contract();
  const std::vector<std::string> on_host = {"shape", "mesh", "src_axes", "src_axes_offsets", "dst_axes", "dst_axes_offsets", "src_offsets"};
  task.variants = {
      {"reference", for_every_dtype([]<class T>(T) { return &reference::redistribute<T>; }), "the global tensor put together, every box read out of it"},
      {"baseline", for_every_dtype([]<class T>(T) { return &baseline::redistribute<T>; }), "each target element looks for the first source rank whose box holds it"},
      {"cpu", for_every_dtype([]<class T>(T) { return &cpu::redistribute<T>; }), "intersections of boxes from the cut points per dim, copied as merged runs"},
      on_device("cuda_baseline", "a launch a target rank, in which each element looks for the first source rank whose box holds it", on_host),
      on_device("cuda", "one launch over the units of all intersections of boxes, up to 16 bytes each", on_host),
  };
  task.workloads = {
      workload("smoke", "mesh [2, 2], shape [8, 6, 4] f32, [[0], [1], []] -> [[1], [], [0]]; counter pattern", {{8, 6, 4}, {2, 2}, {{0}, {1}, {}}, {{1}, {}, {0}}}, 1e-5),
      workload("standard", "mesh [32, 32], shape [1024, 1024] f32, [[0], [1]] -> [[1], [0]]; counter pattern", {{1024, 1024}, {32, 32}, {{0}, {1}}, {{1}, {0}}}, 1.2),
      workload("heads", "mesh [8, 8], shape [64, 32, 64, 64] f32, [[0, 1], [], [], []] -> [[], [0], [1], []]; counter pattern",
               {{64, 32, 64, 64}, {8, 8}, {{0, 1}, {}, {}, {}}, {{}, {0}, {1}, {}}}, 0.7),
      workload("gpu", "mesh [8, 8], shape [64, 4096, 64, 128] bf16 (batch, sequence, head, width), [[0], [1], [], []] -> [[0], [], [1], []]: sequence to heads; counter pattern",
               {{64, 4096, 64, 128}, {8, 8}, {{0}, {1}, {}, {}}, {{0}, {}, {1}, {}}, Dtype::bf16}, 150),
  };
  task.cases = cases();
  task.random_case = random_input;
  task.gate = exact_gate();
  task.gate.text = "exact (bytes)";
  task.floor = floor_of;
  task.floor_text = "2 numel(dst) s: each target element read and written once";
  task.multi_rank = multi_rank();
  return task;
}

}  // namespace
}  // namespace all2all_tensor_redistribute

namespace tasks {
const Task& all2all_tensor_redistribute() {
  static const Task task = faibench::all2all_tensor_redistribute::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
