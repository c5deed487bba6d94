#include "collectives/diloco_comm_chunk_balance/ranks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "collectives/diloco_comm_chunk_balance/diloco_comm_chunk_balance.h"
#include "schedule/schedule.h"
#include "schedule/traffic.h"

namespace faibench::diloco_comm_chunk_balance {
namespace {

std::int64_t elements_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t elements = 0;
  for (const std::int64_t size : sizes) elements += size / 4;
  return elements;
}
TensorMap input_without_deltas(const std::vector<std::int64_t>& sizes, std::int32_t chunks) {
  TensorMap inputs;
  inputs.add("sizes", Tensor::of({static_cast<std::int64_t>(sizes.size())}, sizes));
  inputs.add("chunks", Tensor::scalar(chunks));
  return inputs;
}
/// A rank's deltas are of a generator of its own, so that no rank need make another's.
TensorMap whole_input(const Random& random, const std::vector<std::int64_t>& sizes, std::int32_t chunks, int ranks) {
  TensorMap inputs = input_without_deltas(sizes, chunks);
  const std::int64_t elements = elements_of(sizes);
  const auto deltas = inputs.add("deltas", Tensor(Dtype::f32, {ranks, elements})).flat<float>();
  for (int rank = 0; rank < ranks; ++rank) random.stream(static_cast<std::uint64_t>(rank)).fill_normal(deltas.subspan(static_cast<std::size_t>(rank * elements), static_cast<std::size_t>(elements)));
  return inputs;
}
TensorMap own_input(const Random& random, const std::vector<std::int64_t>& sizes, std::int32_t chunks, int rank) {
  TensorMap inputs = input_without_deltas(sizes, chunks);
  random.stream(static_cast<std::uint64_t>(rank)).fill_normal(inputs.add("deltas", Tensor(Dtype::f32, {elements_of(sizes)})).flat<float>());
  return inputs;
}

/// The large model's list, every size divided by 4096 and rounded to a multiple of 4.
std::vector<std::int64_t> small_gpt_3(std::int64_t layers) {
  const std::int64_t h = 12288;
  std::vector<std::int64_t> sizes = {50257 * h, 2048 * h};
  for (std::int64_t l = 0; l < layers; ++l) sizes.insert(sizes.end(), {h, h, 3 * h * h, 3 * h, h * h, h, h, h, 4 * h * h, 4 * h, 4 * h * h, h});
  sizes.insert(sizes.end(), {h, h});
  for (std::int64_t& size : sizes) size = (2 * size / 4096 + 2) / 4 * 4;
  return sizes;
}

/// Rank 0's averages against sums in f64; all others' must be equal to them in every bit.
GateResult check_all_ranks(const TensorRefMap& whole, const std::vector<TensorMap>& outputs) {
  const TensorRef& deltas = whole.at("deltas");
  const std::int64_t R = deltas.shape[0], T = deltas.shape[1];
  const auto x = deltas.flat<const float>();
  for (std::size_t rank = 0; rank < outputs.size(); ++rank) {
    const Tensor* out = outputs[rank].find("averaged");
    if (!out) return Mismatch{"averaged", {}, "", "", 0, "output of rank " + std::to_string(rank) + " is missing"};
    if (auto bad = same_form("averaged", out->ref(), TensorRef{Dtype::f32, {T}, nullptr})) return bad;
    if (rank > 0 && T > 0 && std::memcmp(out->data(), outputs[0].at("averaged").data(), static_cast<std::size_t>(out->bytes())) != 0)
      return Mismatch{"averaged", {}, "", "", 0, "rank " + std::to_string(rank) + " and rank 0 differ in bits"};
  }
  if (outputs.empty()) return std::nullopt;
  const Tensor& out = outputs[0].at("averaged");
  const auto y = out.flat<float>();
  constexpr std::int64_t block = 1024;
  for (std::int64_t start = 0; start < T; start += block) {
    const std::int64_t end = std::min(T, start + block);
    double sum[block] = {}, size[block] = {};
    for (std::int64_t r = 0; r < R; ++r)
      for (std::int64_t i = start; i < end; ++i) {
        const double value = x[static_cast<std::size_t>(r * T + i)];
        sum[i - start] += value;
        size[i - start] += std::abs(value);
      }
    for (std::int64_t i = start; i < end; ++i) {
      const double mean = sum[i - start] / static_cast<double>(R), error = std::abs(static_cast<double>(y[static_cast<std::size_t>(i)]) - mean);
      const double allowed = static_cast<double>(R + 1) * 0x1p-24 * size[i - start] / static_cast<double>(R) + 0x1p-126;
      if (!(error <= allowed)) return Mismatch{"averaged", {i}, element_text(out.ref(), i), std::to_string(mean), error / allowed, "on rank 0"};
    }
  }
  return std::nullopt;
}

Rejected check_deltas(const TensorRefMap& inputs) {
  std::int64_t bytes = 0;
  const auto sizes = inputs.at("sizes").flat<const std::int64_t>();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] % 4 != 0) return reject("bad_size", "sizes", static_cast<std::int64_t>(i), std::to_string(sizes[i]), "f32 tensors have multiples of 4 bytes");
    bytes += sizes[i];
  }
  if (bytes == inputs.at("deltas").bytes()) return std::nullopt;
  return reject("bad_size", "deltas", -1, std::to_string(inputs.at("deltas").bytes()) + " bytes", "the sizes sum to " + std::to_string(bytes));
}

std::vector<MultiRank::RankCase> cases() {
  const auto fixed = [](std::string name, std::string note, std::vector<std::int64_t> sizes, std::int32_t chunks) {
    return MultiRank::RankCase{std::move(name), std::move(note), [=](Random& random, int ranks) { return whole_input(random, sizes, chunks, ranks); }};
  };
  auto other_sizes = fixed("other_sizes", "the last rank has another order of sizes", {4, 8, 12}, 2);
  other_sizes.damage = [](Random&, TensorMap& shard, int rank, int ranks) {
    if (rank == ranks - 1) std::swap(shard.at("sizes").flat<std::int64_t>()[0], shard.at("sizes").flat<std::int64_t>()[1]);
  };
  other_sizes.code = [](int ranks) { return ranks > 1 ? "rank_mismatch" : ""; };
  auto other_chunks = fixed("other_chunks", "rank 0 has another P", {4, 8, 12}, 2);
  other_chunks.damage = [](Random&, TensorMap& shard, int rank, int) {
    if (rank == 0) shard.at("chunks") = Tensor::scalar<std::int32_t>(3);
  };
  other_chunks.code = other_sizes.code;
  return {fixed("no_tensors", "n = 0", {}, 3), fixed("all_zero", "tensors without elements", {0, 0, 0}, 2), fixed("empty_chunks", "P > n", {4, 400, 0, 40}, 9),
          fixed("one_element", "fewer than ranks", {4}, 1), fixed("uneven", "no multiples of the ranks", {4, 12, 20, 4000, 70004, 300012, 28, 0, 4}, 3), std::move(other_sizes), std::move(other_chunks)};
}

/// A model of S bytes: eight equal tensors in four chunks, or one tensor where S is small.
std::vector<std::int64_t> scaling_sizes(std::int64_t bytes) {
  const std::int64_t elements = std::max<std::int64_t>(1, bytes / 4);
  if (elements < 64) return {4 * elements};
  std::vector<std::int64_t> sizes(8, 4 * (elements / 8));
  sizes.back() += 4 * (elements % 8);
  return sizes;
}
std::int32_t scaling_chunks(const std::vector<std::int64_t>& sizes) { return sizes.size() < 8 ? 1 : 4; }

MultiRank::Scaling scaling() {
  MultiRank::Scaling scaling;
  scaling.sizes = {4, 64, 1000, 4 << 10, 64 << 10, 100'000, 1 << 20, 4 << 20, 10'000'000, 16 << 20};
  scaling.inputs = [](Random& random, int ranks, std::int64_t bytes) {
    const std::vector<std::int64_t> sizes = scaling_sizes(bytes);
    return whole_input(random, sizes, scaling_chunks(sizes), ranks);
  };
  scaling.size_of = [](const TensorMap& whole, int ranks) { return whole.at("deltas").bytes() / ranks; };
  scaling.size_text = "bytes of all deltas of a rank, f32";
  scaling.bus_formula = "2(P-1)/P";
  scaling.bus_factor = [](int ranks) { return 2.0 * (ranks - 1) / ranks; };
  scaling.schedule = [](std::int64_t bytes, const NodeMap& nodes) {
    const std::vector<std::int64_t> sizes = scaling_sizes(bytes);
    const std::int32_t chunks = scaling_chunks(sizes);
    std::vector<std::int32_t> chunk_of(sizes.size());
    std::vector<std::int64_t> load(static_cast<std::size_t>(chunks));
    const auto n = static_cast<std::int64_t>(sizes.size());
    cpu::balance({sizes.data(), {n}}, chunks, {chunk_of.data(), {n}}, {load.data(), {chunks}});
    std::vector<std::shared_ptr<const Schedule>> parts;
    for (const std::int64_t chunk : load) parts.push_back(chunk_schedule(chunk / 4, nodes));
    return sequence_schedule(std::move(parts));
  };
  scaling.bound = [](std::int64_t bytes, int ranks) { return all_reduce_bound(4 * std::max<std::int64_t>(1, bytes / 4), ranks); };
  return scaling;
}

}  // namespace

MultiRank multi_rank(const Contract& rules) {
  MultiRank form;
  form.contract.input("sizes", {Dtype::i64}, {"n"}, "bytes of each tensor, the same on all ranks", "multiples of 4, >= 0");
  form.contract.input("chunks", {Dtype::i32}, {}, "number of chunks P, the same on all ranks", "1 .. 2^20");
  form.contract.input("deltas", {Dtype::f32}, {"T"}, "this rank's tensors, end to end", "T = sum of sizes / 4");
  form.contract.output("averaged", {Dtype::f32}, {"T"}, "sum over ranks times 1/R");
  for (const Rule& rule : rules.rules()) form.contract.rule(rule.code, rule.condition, rule.checked_by, rule.check);
  form.contract.rule("bad_size", "a size is no multiple of 4, or the sizes do not sum to the bytes of deltas", CheckedBy::runner, check_deltas);
  form.variants = {{"mpi_baseline", run_mpi_baseline, "chunk by chunk: pack, blocking all-reduce, unpack"},
                   {"mpi", run_mpi, "all-reduces in ascending rank, packing one chunk while others travel", false, false, report_step},
                   {"nccl", run_mpi, "the same over NCCL", false, true, report_step}};
  const auto workload = [](std::string name, std::string description, std::int64_t layers, std::int32_t chunks) {
    return MultiRank::RankWorkload{std::move(name), std::move(description), [=](Random& random, int ranks) { return whole_input(random, small_gpt_3(layers), chunks, ranks); },
                                   [=](Random& random, int rank, int) { return own_input(random, small_gpt_3(layers), chunks, rank); }};
  };
  form.workloads = {workload("smoke", "two layers of GPT-3 175B, sizes divided by 4096, P = 4", 2, 4), workload("standard", "GPT-3 175B, sizes divided by 4096, P = 12", 96, 12)};
  form.cases = cases();
  form.identical = {"averaged"};
  form.scaling = scaling();
  form.shard = [](const TensorMap& whole, int rank, int) {
    TensorMap inputs;
    inputs.add("sizes", whole.at("sizes").clone());
    inputs.add("chunks", whole.at("chunks").clone());
    const TensorRef& deltas = whole.at("deltas").ref();
    TensorRef own{Dtype::f32, {deltas.shape[1]}, deltas.data + 4 * deltas.shape[1] * rank};
    inputs.add("deltas", Tensor::copy_of(own));
    return inputs;
  };
  form.gate = check_all_ranks;
  form.wire_floor = [](const TensorMap& whole, int ranks) {
    const auto elements = static_cast<double>(whole.at("deltas").shape()[1]);
    return Floor{2.0 * (ranks - 1) / ranks * 4 * elements, elements};
  };
  return form;
}

}  // namespace faibench::diloco_comm_chunk_balance
