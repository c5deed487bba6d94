// gemm_tile_size_planner: contract, reference, gate, metric. The fixed cases and the workloads are in cases.cpp.
#include "task/task.h"

#include <algorithm>
#include <cmath>

#include "kernels/compiler/gemm_tile_size_planner/cases.h"
#include "kernels/compiler/gemm_tile_size_planner/gemm_tile_size_planner.h"

namespace faibench {
namespace gemm_tile_size_planner {
namespace {

constexpr std::int64_t largest = std::int64_t{1} << 18;  // dimension or tile

std::int64_t tile_count(std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; }

/// Rule 5 of the semantics: bytes moved.
std::int64_t traffic(const std::int64_t* problem, const std::int64_t* tiles, std::int64_t elem_bytes) {
  const std::int64_t M = problem[0], N = problem[1], K = problem[2];
  const std::int64_t nM = tile_count(M, tiles[0]), nN = tile_count(N, tiles[1]), nK = tile_count(K, tiles[2]);
  return elem_bytes * (M * K * (nK > 1 ? nN : 1) + K * N * (nK > 1 || nN > 1 ? nM : 1) + M * N);
}
/// Rule 2: bytes in the buffer.
std::int64_t footprint(const std::int64_t* tiles, std::int64_t elem_bytes) { return elem_bytes * (tiles[0] * tiles[2] + tiles[2] * tiles[1] + tiles[0] * tiles[1]); }

}  // namespace

// Every pair (Tm, Tn), each with the only two Tk that can matter: the smallest, and the smallest that holds K.
void reference::plan_tiling(View<const std::int64_t, 2> problem, View<const std::int32_t, 1> elem_bytes, Ints tm_cand, Ints tm_offsets, Ints tn_cand, Ints tn_offsets, Ints tk_cand,
                            Ints tk_offsets, std::int64_t buffer_bytes, View<std::int64_t, 2> tiles) {
  for (std::int64_t i = 0; i < problem.extent(0); ++i) {
    const std::int64_t dims[3] = {problem(i, 0), problem(i, 1), problem(i, 2)};
    std::int64_t smallest = INT64_MAX, whole = INT64_MAX;
    for (std::int64_t k = tk_offsets[i]; k < tk_offsets[i + 1]; ++k) {
      smallest = std::min(smallest, tk_cand[k]);
      if (tk_cand[k] >= dims[2]) whole = std::min(whole, tk_cand[k]);
    }
    std::array<std::int64_t, 5> best;
    best.fill(INT64_MAX);
    for (std::int64_t m = tm_offsets[i]; m < tm_offsets[i + 1]; ++m)
      for (std::int64_t n = tn_offsets[i]; n < tn_offsets[i + 1]; ++n)
        for (const std::int64_t tk : {smallest, whole}) {
          if (tk == INT64_MAX) continue;
          const std::int64_t plan[3] = {tm_cand[m], tn_cand[n], tk}, bytes = footprint(plan, elem_bytes[i]);
          if (bytes <= buffer_bytes) best = std::min(best, {traffic(dims, plan, elem_bytes[i]), bytes, plan[0], plan[1], plan[2]});
        }
    for (std::int64_t axis = 0; axis < 3; ++axis) tiles(i, axis) = best[static_cast<std::size_t>(2 + axis)];
  }
}

namespace {

constexpr const char* axes[] = {"tm", "tn", "tk"};

struct List {
  std::span<const std::int64_t> all;
  std::int64_t first, last;
  [[nodiscard]] std::span<const std::int64_t> of_task() const { return all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)); }
};

List list_of(const TensorRefMap& inputs, const std::string& axis, std::int64_t task) {
  const auto offsets = inputs.at(axis + "_offsets").flat<const std::int64_t>();
  return {inputs.at(axis + "_cand").flat<const std::int64_t>(), offsets[static_cast<std::size_t>(task)], offsets[static_cast<std::size_t>(task) + 1]};
}

// ---- rejections

Rejected out_of_range(const TensorRefMap& inputs, const std::string& name, const char* code) {
  const auto values = inputs.at(name).flat<const std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] < 1 || values[i] > largest) return reject(code, name, static_cast<std::int64_t>(i), std::to_string(values[i]), "not in 1 .. 2^18");
  return std::nullopt;
}

Rejected bad_elem_bytes(const TensorRefMap& inputs) {
  const auto bytes = inputs.at("elem_bytes").flat<const std::int32_t>();
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != 1 && bytes[i] != 2 && bytes[i] != 4 && bytes[i] != 8)
      return reject("bad_elem_bytes", "elem_bytes", static_cast<std::int64_t>(i), std::to_string(bytes[i]), "not 1, 2, 4 or 8");
  return std::nullopt;
}

Rejected bad_buffer(const TensorRefMap& inputs) {
  const std::int64_t bytes = inputs.at("buffer_bytes").scalar<std::int64_t>();
  if (bytes >= 1) return std::nullopt;
  return reject("bad_buffer", "buffer_bytes", -1, std::to_string(bytes), "less than 1");
}

Rejected no_candidates(const TensorRefMap& inputs) {
  for (const std::string axis : axes) {
    const auto offsets = inputs.at(axis + "_offsets").flat<const std::int64_t>();
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
      if (offsets[i + 1] == offsets[i])
        return reject("no_candidates", axis + "_offsets", static_cast<std::int64_t>(i) + 1, std::to_string(offsets[i + 1]), "the list of task " + std::to_string(i) + " is empty");
  }
  return std::nullopt;
}

Rejected bad_candidate(const TensorRefMap& inputs) {
  for (const std::string axis : axes)
    if (auto rejected = out_of_range(inputs, axis + "_cand", "bad_candidate")) return rejected;
  return std::nullopt;
}

Rejected no_fit(const TensorRefMap& inputs) {
  const std::int64_t buffer = inputs.at("buffer_bytes").scalar<std::int64_t>();
  const auto elem_bytes = inputs.at("elem_bytes").flat<const std::int32_t>();
  for (std::size_t i = 0; i < elem_bytes.size(); ++i) {
    std::int64_t smallest[3];
    for (std::size_t axis = 0; axis < 3; ++axis) smallest[axis] = std::ranges::min(list_of(inputs, axes[axis], static_cast<std::int64_t>(i)).of_task());
    if (const std::int64_t needed = footprint(smallest, elem_bytes[i]); needed > buffer)
      return reject("no_fit", "buffer_bytes", -1, std::to_string(buffer), "the smallest tiles of task " + std::to_string(i) + " need " + std::to_string(needed) + " bytes");
  }
  return std::nullopt;
}

// ---- gate and metric

GateResult legal(const GateCall& call) {
  const TensorRef& problem = call.inputs.at("problem");
  const TensorRef* out = call.outputs.find("tiles");
  if (!out) return Mismatch{"tiles", {}, "", "", 0, "output is missing"};
  if (auto bad = same_form("tiles", *out, problem)) return bad;
  const auto tiles = out->flat<const std::int64_t>();
  const auto elem_bytes = call.inputs.at("elem_bytes").flat<const std::int32_t>();
  const std::int64_t buffer = call.inputs.at("buffer_bytes").scalar<std::int64_t>();
  for (std::size_t i = 0; i < elem_bytes.size(); ++i) {
    const std::int64_t task = static_cast<std::int64_t>(i);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::int64_t tile = tiles[3 * i + axis];
      const auto list = list_of(call.inputs, axes[axis], task).of_task();
      if (std::ranges::find(list, tile) == list.end())
        return Mismatch{"tiles", {task, static_cast<std::int64_t>(axis)}, std::to_string(tile), "", 0, "task " + std::to_string(i) + ": " + std::to_string(tile) + " is not in the list " + axes[axis] + "_cand"};
    }
    if (const std::int64_t bytes = footprint(&tiles[3 * i], elem_bytes[i]); bytes > buffer)
      return Mismatch{"tiles", {task, 0}, std::to_string(bytes), "", 0, "task " + std::to_string(i) + ": the tiles take " + std::to_string(bytes) + " bytes of a buffer of " + std::to_string(buffer)};
  }
  return std::nullopt;
}

/// Geometric mean over the tasks. Of plans that the gate has not seen yet: tiles that are none count as a size between 1 and the dimension.
double mean_traffic(const TensorRefMap& inputs, const TensorRefMap& outputs) {
  const auto problem = inputs.at("problem").flat<const std::int64_t>(), tiles = outputs.at("tiles").flat<const std::int64_t>();
  const auto elem_bytes = inputs.at("elem_bytes").flat<const std::int32_t>();
  double logs = 0;
  for (std::size_t i = 0; i < elem_bytes.size(); ++i) {
    std::int64_t plan[3];
    for (std::size_t axis = 0; axis < 3; ++axis) plan[axis] = std::clamp<std::int64_t>(tiles[3 * i + axis], 1, problem[3 * i + axis]);
    logs += std::log(static_cast<double>(traffic(&problem[3 * i], plan, elem_bytes[i])));
  }
  return elem_bytes.empty() ? 1 : std::exp(logs / static_cast<double>(elem_bytes.size()));
}

void add_list(Contract& contract, const std::string& axis, const std::string& length) {
  contract.input(axis + "_cand", {Dtype::i64}, {length}, "candidates for T" + axis.substr(1) + " of all tasks, one list after another", "1 .. 2^18; any order, repeats, above the dimension");
  contract.input(axis + "_offsets", {Dtype::i64}, {"n+1"}, "list of task i: " + axis + "_cand[" + axis + "_offsets[i] .. " + axis + "_offsets[i+1]-1]", "no list is empty").last_offset = Extent(length);
}

Task make() {
  Task task;
  task.name = "gemm_tile_size_planner";
  task.group = "compiler";
  task.summary = "Tile sizes from given lists that move the fewest bytes under a buffer cap, for a batch of GEMMs";
  task.semantics =
      "Nest m, n, k with k innermost; nM = ceil(M/Tm), nN, nK likewise. A plan fits when elem_bytes*(Tm*Tk + Tk*Tn + Tm*Tn) <= buffer_bytes, with nominal sizes. traffic = elem_bytes * (M*K*(nN if nK > 1 "
      "else 1) + K*N*(nM if nK > 1 or nN > 1 else 1) + M*N). reference and cpu: least traffic, then footprint, Tm, Tn, Tk; any legal plan passes and is scored by its traffic.";
  task.contract.input("problem", {Dtype::i64}, {"n", "3"}, "M, N, K of each task", "1 .. 2^18; n may be 0");
  task.contract.input("elem_bytes", {Dtype::i32}, {"n"}, "bytes an element of A, B and C", "1, 2, 4 or 8");
  add_list(task.contract, "tm", "a");
  add_list(task.contract, "tn", "b");
  add_list(task.contract, "tk", "c");
  task.contract.input("buffer_bytes", {Dtype::i64}, {}, "on-chip buffer, one for the batch", ">= 1");
  task.contract.output("tiles", {Dtype::i64}, {"n", "3"}, "Tm, Tn, Tk of each task");
  task.contract.rule("bad_problem", "an entry of problem is < 1 or > 2^18", CheckedBy::runner, [](const TensorRefMap& inputs) { return out_of_range(inputs, "problem", "bad_problem"); });
  task.contract.rule("bad_elem_bytes", "not 1, 2, 4 or 8", CheckedBy::runner, bad_elem_bytes);
  task.contract.rule("bad_buffer", "buffer_bytes < 1", CheckedBy::runner, bad_buffer);
  task.contract.rule("no_candidates", "a task has an empty list (tm, then tn, then tk)", CheckedBy::runner, no_candidates);
  task.contract.rule("bad_candidate", "a candidate is < 1 or > 2^18 (tm, then tn, then tk)", CheckedBy::runner, bad_candidate);
  task.contract.rule("no_fit", "a task whose smallest candidates together do not fit", CheckedBy::runner, no_fit);
  const std::vector<std::string> names = {"problem", "elem_bytes", "tm_cand", "tm_offsets", "tn_cand", "tn_offsets", "tk_cand", "tk_offsets", "buffer_bytes", "tiles"};
  task.variants = {
      {"reference", Kernel({bind(reference::plan_tiling, names)}), "every pair of Tm and Tn, with the two Tk that can matter"},
      {"baseline", Kernel({bind(baseline::plan_tiling, names)}), "the smallest candidate of each axis"},
      {"cpu", Kernel({bind(cpu::plan_tiling, names)}), "the exact optimum by one walk along two sorted lists, tasks over threads"},
  };
  task.workloads = workloads();
  task.cases = cases();
  task.random_case = random_case;
  task.gate = {"property: each tile is in its task's list for that axis, and the plan fits; on one core at most 1 ms a task of the standard batch and 5 s for the long one", legal, false, false, {}};
  task.metric = {"quality: geometric mean over the tasks of traffic(baseline plan) / traffic(plan)", false, mean_traffic, 1};
  task.gate.time_limits = {{"standard", 2}, {"long", 5}};  // 1 ms for each of the standard batch's 2000 tasks
  task.floor = [](const TensorRefMap& inputs) {
    double bytes = 24.0 * static_cast<double>(inputs.at("elem_bytes").size());
    for (const auto& [name, tensor] : inputs) bytes += static_cast<double>(tensor.bytes());
    return Floor{bytes, 0};
  };
  task.floor_text = "every input read once, 24 bytes a task written; the metric is the plans' traffic, and time is only bounded";
  return task;
}

}  // namespace
}  // namespace gemm_tile_size_planner

namespace tasks {
const Task& gemm_tile_size_planner() {
  static const Task task = faibench::gemm_tile_size_planner::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
