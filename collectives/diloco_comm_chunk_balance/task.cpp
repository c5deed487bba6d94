// diloco_comm_chunk_balance: contract, gate, metric, cases, floor.
#include "task/task.h"

#include <algorithm>
#include <limits>

#include "collectives/diloco_comm_chunk_balance/diloco_comm_chunk_balance.h"
#include "collectives/diloco_comm_chunk_balance/ranks.h"
#include "collectives/diloco_comm_chunk_balance/workloads.h"

namespace faibench {
namespace diloco_comm_chunk_balance {

std::int64_t lower_bound(View<const std::int64_t, 1> sizes, std::int32_t chunks) {
  std::vector<std::int64_t> descending(sizes.data(), sizes.data() + sizes.size());
  std::ranges::sort(descending, std::greater<>());
  std::int64_t total = 0;
  for (const std::int64_t size : descending) total += size;
  std::int64_t bound = std::max(descending.empty() ? 0 : descending[0], total / chunks + (total % chunks != 0));
  if (sizes.size() > chunks) bound = std::max(bound, descending[static_cast<std::size_t>(chunks) - 1] + descending[static_cast<std::size_t>(chunks)]);
  return bound;
}

namespace {

constexpr std::int32_t most_chunks = 1 << 20;

bool legal_chunks(std::int32_t chunks) { return chunks >= 1 && chunks <= most_chunks; }

Rejected check_chunks(const TensorRefMap& inputs) {
  const auto P = inputs.at("chunks").scalar<std::int32_t>();
  if (!legal_chunks(P)) return reject("bad_chunks", "chunks", -1, std::to_string(P), "the number of chunks is 1 .. 2^20");
  return std::nullopt;
}

Rejected check_negative(const TensorRefMap& inputs) {
  const auto sizes = inputs.at("sizes").flat<const std::int64_t>();
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] < 0) return reject("negative_size", "sizes", static_cast<std::int64_t>(i), std::to_string(sizes[i]), "a tensor has at least 0 bytes");
  return std::nullopt;
}

Rejected check_total(const TensorRefMap& inputs) {
  const auto sizes = inputs.at("sizes").flat<const std::int64_t>();
  std::int64_t total = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > std::numeric_limits<std::int64_t>::max() - total) return reject("total_overflow", "sizes", static_cast<std::int64_t>(i), std::to_string(sizes[i]), "with it the sum passes 2^63-1");
    total += sizes[i];
  }
  return std::nullopt;
}

GateResult legal(const TensorRefMap& inputs, const TensorRefMap& outputs) {
  const auto sizes = inputs.at("sizes").view<const std::int64_t, 1>();
  const auto P = inputs.at("chunks").scalar<std::int32_t>();
  for (const auto& [name, dtype, count] : {std::tuple{"chunk_of", Dtype::i32, sizes.size()}, std::tuple{"load", Dtype::i64, static_cast<std::int64_t>(P)}}) {
    const TensorRef* tensor = outputs.find(name);
    if (!tensor) return Mismatch{name, {}, "", "", 0, "output is missing"};
    if (tensor->dtype != dtype || tensor->shape != Shape{count}) return Mismatch{name, {}, to_string(tensor->shape), to_string(Shape{count}), 0, "shape or dtype differs"};
  }
  const auto chunk_of = outputs.at("chunk_of").view<const std::int32_t, 1>();
  std::vector<std::int64_t> load(static_cast<std::size_t>(P));
  for (std::int64_t i = 0; i < sizes.size(); ++i) {
    if (chunk_of[i] < 0 || chunk_of[i] >= P) return Mismatch{"chunk_of", {i}, std::to_string(chunk_of[i]), "", 0, "not one of the chunks 0 .. " + std::to_string(P - 1)};
    load[static_cast<std::size_t>(chunk_of[i])] += sizes[i];
  }
  const auto claimed = outputs.at("load").view<const std::int64_t, 1>();
  for (std::int32_t c = 0; c < P; ++c)
    if (claimed[c] != load[static_cast<std::size_t>(c)]) return Mismatch{"load", {c}, std::to_string(claimed[c]), std::to_string(load[static_cast<std::size_t>(c)]), 0, "not the bytes of the chunk's tensors"};
  return std::nullopt;
}

Gate gate() {
  Gate gate;
  gate.text = "a legal plan: every tensor in one chunk of [0, P), load[c] exactly the bytes of chunk c; the same plan on every run and for any thread count; at most 1 s an instance";
  gate.needs_expected = false;
  gate.check = [](const GateCall& call) -> GateResult {
    if (auto bad = legal(call.inputs, call.outputs)) return bad;
    for (const TensorMap& probe : call.probes) {
      const auto first = call.outputs.at("chunk_of").flat<const std::int32_t>(), again = probe.at("chunk_of").flat<std::int32_t>();
      const auto [a, b] = std::ranges::mismatch(first, again);
      if (a != first.end()) return Mismatch{"chunk_of", {a - first.begin()}, std::to_string(*a), std::to_string(*b), 0, "a second run on one thread planned otherwise"};
    }
    return std::nullopt;
  };
  gate.probes = [](const TensorRefMap& inputs) {
    Probe probe;
    for (const auto& [name, tensor] : inputs) probe.inputs.add(name, Tensor::copy_of(tensor));
    probe.threads = 1;
    std::vector<Probe> probes;
    probes.push_back(std::move(probe));
    return probes;
  };
  return gate;
}

/// Most loaded chunk; 1 where that is 0, so that the ratio of empty plans is 1.
double most_loaded(const TensorRefMap& inputs, const TensorRefMap& outputs) {
  const auto sizes = inputs.at("sizes").view<const std::int64_t, 1>();
  const auto chunk_of = outputs.at("chunk_of").view<const std::int32_t, 1>();
  std::vector<std::int64_t> load(static_cast<std::size_t>(inputs.at("chunks").scalar<std::int32_t>()));
  for (std::int64_t i = 0; i < sizes.size(); ++i)
    if (chunk_of[i] >= 0 && static_cast<std::size_t>(chunk_of[i]) < load.size()) load[static_cast<std::size_t>(chunk_of[i])] += sizes[i];
  return std::max(1.0, static_cast<double>(std::ranges::max(load)));
}

std::vector<Case> cases() {
  std::vector<Case> list;
  const auto add = [&](std::string name, std::string note, std::vector<std::int64_t> sizes, std::int32_t chunks) {
    list.push_back({std::move(name), std::move(note), [sizes = std::move(sizes), chunks](Random&) { return instance(sizes, chunks); }});
  };
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  add("no_tensors", "n = 0", {}, 3);
  add("fewer_tensors_than_chunks", "n < P", {5, 7}, 4);
  add("as_many_tensors_as_chunks", "n = P", {5, 7, 1, 9}, 4);
  add("one_chunk", "P = 1", {5, 7, 1, 9}, 1);
  add("one_tensor", "n = 1", {42}, 1);
  add("all_equal", "", std::vector<std::int64_t>(17, 64), 4);
  add("all_zero", "zero-size tensors go anywhere but are not dropped", std::vector<std::int64_t>(9, 0), 4);
  add("some_zero", "", {0, 3, 0, 5, 0, 0, 2}, 3);
  add("one_giant", "larger than all others together: the bound is that tensor", {1000, 1, 2, 3, 4, 5, 6, 7}, 3);
  add("near_2_63", "the sum is 2^63-1", {largest / 2, largest / 2, 1}, 2);
  add("past_2_53", "loads that f64 does not hold", {(std::int64_t{1} << 53) + 1, (std::int64_t{1} << 53) + 3, 1, 2, 3}, 2);
  add("past_2_32", "", {std::int64_t{5} << 32, (std::int64_t{3} << 32) + 1, (std::int64_t{4} << 32) + 7, 11}, 2);
  add("round_robin_is_best", "the ratio is 1", {4, 3, 2, 2, 3, 4}, 3);
  add("longest_first_is_not_best", "7 for longest first, 6 is possible", {3, 3, 2, 2, 2}, 2);
  add("duplicates", "", {8, 8, 8, 5, 5, 5, 5, 3, 3, 3, 3, 3}, 4);
  add("most_chunks", "P = 2^20", {3, 2, 1}, most_chunks);
  add("zero_chunks", "rejected", {1, 2}, 0);
  add("negative_chunks", "rejected", {1, 2}, -3);
  add("too_many_chunks", "rejected", {1, 2}, most_chunks + 1);
  add("negative_size", "the first is named", {1, -2, -3}, 2);
  add("chunks_before_sizes", "both wrong: the table's order decides", {-1}, 0);
  add("total_overflow", "2^63", {largest, 1}, 2);
  list.push_back({"cut_in_three", "every chunk can be filled exactly", [](Random& random) { return instance(cut_in_three(random, 16), 16); }});
  list.push_back({"missing_tensor", "", [](Random&) {
    TensorMap inputs = instance({1, 2}, 2);
    inputs.erase("chunks");
    return inputs;
  }});
  list.push_back({"unknown_tensor", "", [](Random&) {
    TensorMap inputs = instance({1, 2}, 2);
    inputs.add("extra", Tensor::scalar(std::int32_t{0}));
    return inputs;
  }});
  list.push_back({"wrong_dtype", "", [](Random&) {
    TensorMap inputs;
    inputs.add("sizes", Tensor::of({2}, std::vector<std::int32_t>{1, 2}));
    inputs.add("chunks", Tensor::scalar(std::int32_t{2}));
    return inputs;
  }});
  list.push_back({"wrong_rank", "", [](Random&) {
    TensorMap inputs;
    inputs.add("sizes", Tensor(Dtype::i64, {2, 2}));
    inputs.add("chunks", Tensor::scalar(std::int32_t{2}));
    return inputs;
  }});
  return list;
}

TensorMap random_case(Random& random) {
  const std::int64_t n = random.below(60);
  const auto P = static_cast<std::int32_t>(random.between(1, 12));
  const std::int64_t kinds = random.between(1, 8), scale = std::int64_t{1} << random.below(40);
  std::vector<std::int64_t> kind, sizes;
  for (std::int64_t k = 0; k < kinds; ++k) kind.push_back(random.below(scale + 1));
  for (std::int64_t i = 0; i < n; ++i) sizes.push_back(random.chance(0.5) ? kind[static_cast<std::size_t>(random.below(kinds))] : random.below(scale + 1));
  return instance(std::move(sizes), P);
}

Task make() {
  Task task;
  task.name = "diloco_comm_chunk_balance";
  task.group = "collectives";
  task.summary = "Tensors into P chunks of staggered synchronisation, the largest as small as possible";
  task.semantics = "chunk_of[i] in [0, P) for every tensor, load[c] = bytes of chunk c. The objective is the largest load; any legal plan passes.";
  task.contract.input("sizes", {Dtype::i64}, {"n"}, "bytes of each tensor (never split)", ">= 0, their sum below 2^63");
  task.contract.input("chunks", {Dtype::i32}, {}, "P, number of chunks; may exceed n", "1 .. 2^20");
  task.contract.output("chunk_of", {Dtype::i32}, {"n"}, "chunk of each tensor, in [0, P)");
  task.contract.output("load", {Dtype::i64}, {"chunks"}, "bytes of each chunk").rows = [](const TensorRefMap& inputs) -> std::int64_t {
    const auto P = inputs.at("chunks").scalar<std::int32_t>();
    return legal_chunks(P) ? P : 0;
  };
  task.contract.rule("bad_chunks", "P < 1 or P > 2^20", CheckedBy::runner, check_chunks);
  task.contract.rule("negative_size", "sizes[i] < 0 (first i reported)", CheckedBy::runner, check_negative);
  task.contract.rule("total_overflow", "the sum of sizes exceeds 2^63-1", CheckedBy::runner, check_total);
  const std::vector<std::string> names = {"sizes", "chunks", "chunk_of", "load"};
  task.variants = {
      {"reference", Kernel({bind(reference::balance, names)}), "longest first, each into the least loaded chunk"},
      {"baseline", Kernel({bind(baseline::balance, names)}), "round-robin"},
      {"cpu", Kernel({bind(cpu::balance, names)}), "exact triples, longest first, MULTIFIT, local search, until the lower bound is met"},
  };
  task.workloads = workloads();
  task.cases = cases();
  task.random_case = random_case;
  task.gate = gate();
  task.metric.text = "quality: largest load of the baseline / of the solution, geometric mean over the instances";
  task.metric.counts_time = false;
  task.metric.objective = most_loaded;
  task.gate.time_limits = {{"standard", 1, 2}};
  task.floor = [](const TensorRefMap& inputs) {
    const double n = static_cast<double>(inputs.at("sizes").size()), P = inputs.at("chunks").scalar<std::int32_t>();
    return Floor{12 * n + 8 * P, n};
  };
  task.floor_text = "12n + 8P bytes, n additions; objective: max(largest, ceil(total/P), s_P + s_{P+1})";
  task.multi_rank = multi_rank(task.contract);
  return task;
}

}  // namespace
}  // namespace diloco_comm_chunk_balance

namespace tasks {
const Task& diloco_comm_chunk_balance() {
  static const Task task = faibench::diloco_comm_chunk_balance::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
