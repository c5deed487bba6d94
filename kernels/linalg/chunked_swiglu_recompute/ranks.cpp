// A token needs nothing of another: with all weights on every rank no message is sent, and the ranks may have different numbers of chunks, or none.
#include "kernels/linalg/chunked_swiglu_recompute/ranks.h"

#include <cstring>

#include "kernels/linalg/chunked_swiglu_recompute/chunked_swiglu_recompute.h"
#include "kernels/linalg/chunked_swiglu_recompute/inputs.h"

namespace faibench::chunked_swiglu_recompute {
namespace {

using Function = void (*)(Matrix, Matrix, Matrix, Matrix, Matrix, std::int64_t, Result, Result);

template <Function function>
Rejected run(MultiRank::Call& call) {
  const TensorRefMap& in = call.arguments.inputs;
  const auto matrix = [&](const char* name) { return in.at(name).view<const float, 2>(); };
  function(matrix("x"), matrix("w_gate"), matrix("w_up"), matrix("w_down"), matrix("dy"), in.at("chunk_size").scalar<std::int64_t>(), call.arguments.outputs.at("y").view<float, 2>(),
           call.arguments.outputs.at("dx").view<float, 2>());
  return std::nullopt;
}

/// Tokens [first, end) of a rank: contiguous, and as even as can be; with fewer tokens than ranks some have none.
struct Range {
  std::int64_t first, end;
};
Range tokens_of(std::int64_t T, int rank, int ranks) { return {T * rank / ranks, T * (rank + 1) / ranks}; }

Tensor rows_of(const Tensor& whole, Range range) {
  Tensor own(whole.dtype(), {range.end - range.first, whole.shape()[1]});
  const std::int64_t row = whole.shape()[1] * size_of(whole.dtype());
  if (own.bytes() > 0) std::memcpy(own.data(), whole.data() + range.first * row, static_cast<std::size_t>(own.bytes()));
  return own;
}

TensorMap shard(const TensorMap& whole, int rank, int ranks) {
  const Range range = tokens_of(whole.at("x").shape()[0], rank, ranks);
  TensorMap own;
  for (const auto& [name, tensor] : whole) own.add(name, name == "x" || name == "dy" ? rows_of(tensor, range) : tensor.clone());
  return own;
}

MultiRank::RankWorkload workload(std::string name, std::string description, Sizes sizes) {
  return {std::move(name), std::move(description), [sizes](Random& random, int) { return layer_inputs(random, sizes); }};
}

MultiRank::RankCase valid(std::string name, std::string note, std::function<Sizes(int ranks)> sizes) {
  return {std::move(name), std::move(note), [sizes = std::move(sizes)](Random& random, int ranks) { return layer_inputs(random, sizes(ranks)); }};
}

/// One rank alone breaks a rule: the last one.
MultiRank::RankCase broken(std::string name, std::string note, std::string code, std::function<void(TensorMap& shard)> spoil) {
  MultiRank::RankCase made = valid(std::move(name), std::move(note), [](int) { return Sizes{9, 6, 8, 2}; });
  made.damage = [spoil = std::move(spoil)](Random&, TensorMap& own, int rank, int ranks) {
    if (rank == ranks - 1) spoil(own);
  };
  made.code = [code = std::move(code)](int) { return code; };
  return made;
}

std::vector<MultiRank::RankCase> rank_cases() {
  return {
      valid("typical", "several chunks a rank", [](int) { return Sizes{61, 24, 40, 4}; }),
      valid("one_token_a_rank", "", [](int ranks) { return Sizes{ranks, 10, 14, 3}; }),
      valid("fewer_tokens_than_ranks", "one rank has none", [](int ranks) { return Sizes{ranks - 1, 10, 14, 3}; }),
      valid("no_tokens", "T = 0", [](int) { return Sizes{0, 10, 14, 3}; }),
      valid("different_chunk_counts", "one rank has a chunk more than another", [](int ranks) { return Sizes{5 * ranks - 1, 10, 14, 4}; }),
      valid("chunk_larger_than_all", "", [](int) { return Sizes{17, 10, 14, std::int64_t{1} << 40}; }),
      valid("no_hidden", "F = 0: zeros", [](int) { return Sizes{7, 5, 0, 2}; }),
      broken("bad_chunk", "on one rank", "bad_chunk_size", [](TensorMap& own) { own.at("chunk_size") = Tensor::scalar(std::int64_t{0}); }),
      broken("no_weights", "on one rank", "missing_tensor", [](TensorMap& own) { own.erase("w_up"); }),
      broken("dy_is_short", "on one rank", "dim_mismatch", [](TensorMap& own) { own.at("dy") = Tensor(Dtype::f32, {own.at("dy").shape()[0] + 1, 6}); }),
  };
}

/// Rows of all ranks under each other must pass the gate of the whole.
GateResult check_all_ranks(const Gate& gate, const TensorRefMap& whole, const TensorMap& expected, const std::vector<TensorMap>& outputs) {
  const Shape& shape = whole.at("x").shape;
  TensorMap all;
  for (const char* name : {"y", "dx"}) {
    Tensor& joined = all.add(name, Tensor(Dtype::f32, shape));
    for (std::size_t rank = 0; rank < outputs.size(); ++rank) {
      const Tensor* own = outputs[rank].find(name);
      if (!own) return Mismatch{name, {}, "", "", 0, "output of rank " + std::to_string(rank) + " is missing"};
      const Range range = tokens_of(shape[0], static_cast<int>(rank), static_cast<int>(outputs.size()));
      if (auto bad = same_form(name, own->ref(), {Dtype::f32, {range.end - range.first, shape[1]}, nullptr})) return bad;
      if (own->bytes() > 0) std::memcpy(joined.data() + range.first * shape[1] * 4, own->data(), static_cast<std::size_t>(own->bytes()));
    }
  }
  return gate.check({whole, refs(all), refs(expected), {}});
}

}  // namespace

MultiRank multi_rank(const Task& task) {
  MultiRank form;
  form.contract = task.contract;
  form.variants = {{"mpi_baseline", run<baseline::gated_mlp_fwd_bwd>, "the baseline on the own tokens"}, {"mpi", run<cpu::gated_mlp_fwd_bwd>, "the cpu variant on the own tokens; no message is sent"}};
  form.workloads = {workload("smoke", "T, D, F, chunk = 61, 24, 40, 8; x, dy normal(0,1), weights normal/sqrt(fan-in)", {61, 24, 40, 8}),
                    workload("standard", "T, D, F, chunk = 512, 256, 688, 64; the same", {512, 256, 688, 64})};
  form.cases = rank_cases();
  form.shard = shard;
  form.gate = [gate = task.gate, expected = task.expected](const TensorRefMap& whole, const std::vector<TensorMap>& outputs) { return check_all_ranks(gate, whole, expected(whole), outputs); };
  form.wire_floor = [](const TensorMap&, int) { return Floor{}; };
  return form;
}

}  // namespace faibench::chunked_swiglu_recompute
