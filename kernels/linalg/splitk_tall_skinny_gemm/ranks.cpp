// The multi-rank form: contract, shards, gate, workloads, scaling. The cases are in rank_cases.cpp.
#include "kernels/linalg/splitk_tall_skinny_gemm/ranks.h"

#include <cstring>

#include "kernels/linalg/splitk_tall_skinny_gemm/gate.h"
#include "schedule/traffic.h"

namespace faibench::splitk_tall_skinny_gemm {
namespace {

TensorMap shard(const TensorMap& whole, int rank, int ranks) {
  const auto A = whole.at("A").view<const float, 2>(), B = whole.at("B").view<const float, 2>();
  const std::int64_t M = A.extent(0), N = B.extent(1), K = A.extent(1);
  const Terms terms = terms_of(K, rank, ranks);
  TensorMap inputs;
  const auto own_A = inputs.add("A", Tensor(Dtype::f32, {M, terms.count})).view<float, 2>();
  for (std::int64_t i = 0; i < M; ++i) std::copy_n(A.data() + i * K + terms.first, terms.count, own_A.data() + i * terms.count);
  const auto own_B = inputs.add("B", Tensor(Dtype::f32, {terms.count, N})).view<float, 2>();
  std::copy_n(B.data() + terms.first * N, terms.count * N, own_B.data());
  return inputs;
}

/// The one-process gate for all terms; ranks must end with equal bits.
GateResult check_all_ranks(const TensorRefMap& whole, const std::vector<TensorMap>& outputs) {
  if (outputs.empty()) return Mismatch{"C", {}, "", "", 0, "no rank gave an output"};
  const TensorRef form{Dtype::f32, {whole.at("A").shape[0], whole.at("B").shape[1]}, nullptr};
  for (std::size_t rank = 0; rank < outputs.size(); ++rank) {
    const Tensor* C = outputs[rank].find("C");
    if (!C) return Mismatch{"C", {}, "", "", 0, "output of rank " + std::to_string(rank) + " is missing"};
    if (auto bad = same_form("C", C->ref(), form)) return bad;
    if (C->bytes() > 0 && std::memcmp(C->data(), outputs[0].at("C").data(), static_cast<std::size_t>(C->bytes())) != 0)
      return Mismatch{"C", {}, "", "", 0, "rank " + std::to_string(rank) + " and rank 0 differ in bits"};
  }
  static const Gate one_process = gate();
  return one_process.check({whole, refs(outputs[0]), {}, {}});
}

MultiRank::RankWorkload workload(std::string name, std::string description, std::int64_t M, std::int64_t N, std::int64_t K) {
  return {std::move(name), std::move(description), [=](Random& random, int) { return uniform(random, M, N, K); }};
}

/// One row, S/4 columns and 16 terms a rank: the all-reduce is what is studied.
MultiRank::Scaling scaling() {
  MultiRank::Scaling scaling;
  scaling.sizes = {4, 28, 64, 1000, 1024, 4 << 10, 16 << 10, 64 << 10};
  scaling.inputs = [](Random& random, int ranks, std::int64_t bytes) { return uniform(random, 1, std::max<std::int64_t>(1, bytes / 4), std::int64_t{16} * ranks); };
  scaling.size_of = [](const TensorMap& whole, int) { return 4 * whole.at("A").shape()[0] * whole.at("B").shape()[1]; };
  scaling.size_text = "bytes of C, which all ranks need (one row; 16 terms a rank)";
  scaling.bus_formula = "2(P-1)/P";
  scaling.bus_factor = [](int ranks) { return 2.0 * (ranks - 1) / ranks; };
  scaling.schedule = [](std::int64_t bytes, const NodeMap& nodes) { return std::shared_ptr<const Schedule>(product_schedule(std::max<std::int64_t>(1, bytes / 4), nodes)); };
  scaling.bound = [](std::int64_t bytes, int ranks) { return all_reduce_bound(bytes, ranks); };
  return scaling;
}

}  // namespace

MultiRank multi_rank() {
  MultiRank form;
  form.contract.input("A", {Dtype::f32}, {"M", "K"}, "the columns of the left factor that belong to this rank's terms: K/P of all, the first K%P ranks one more", "any f32");
  form.contract.input("B", {Dtype::f32}, {"K", "N"}, "the rows of the right factor of the same terms", "any f32");
  form.contract.output("C", {Dtype::f32}, {"M", "N"}, "the product over the terms of all ranks; equal in every bit on all ranks");
  form.contract.rule("rank_mismatch", "M or N differ between ranks; all ranks report it", CheckedBy::variant, [](const TensorRefMap&) { return Rejected(); });  // no rank can see it alone
  form.variants = {{"mpi_baseline", run_mpi_baseline, "the product in f64, rounded, then an f32 all-reduce"},
                   {"mpi", run_mpi, "the fast product, unrounded, summed in f64 by a schedule of our own"},
                   {"nccl", run_mpi, "the same over NCCL", false, true}};
  form.workloads = {workload("smoke", "5 x 7 over 20011 terms, uniform [-1,1)", 5, 7, 20011),
                    workload("standard", "16 x 16 over 262144 terms (a quarter of the one-process size: every rank makes the whole), uniform [-1,1)", 16, 16, 1 << 18)};
  form.cases = rank_cases();
  form.identical = {"C"};
  form.scaling = scaling();
  form.shard = shard;
  form.gate = check_all_ranks;
  form.wire_floor = [](const TensorMap& whole, int ranks) {
    const auto outputs = static_cast<double>(whole.at("A").shape()[0] * whole.at("B").shape()[1]);
    return Floor{2.0 * (ranks - 1) / ranks * 4 * outputs, outputs};
  };
  return form;
}

}  // namespace faibench::splitk_tall_skinny_gemm
