// The multi-rank form: contract, shards, gate, workloads, scaling, cases.
#include "collectives/grad_signsgd_error_feedback/ranks.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "collectives/grad_signsgd_error_feedback/sparse.h"
#include "schedule/traffic.h"

namespace faibench::grad_signsgd_error_feedback {
namespace {

TensorMap shard(const TensorMap& whole, int rank, int) {
  TensorMap inputs;
  for (const char* name : {"grad", "error"}) {
    const TensorRef& all = whole.at(name).ref();
    inputs.add(name, Tensor::copy_of(TensorRef{Dtype::f32, {all.shape[1]}, all.data + 4 * all.shape[1] * rank}));
  }
  inputs.add("step", whole.at("step").clone());
  inputs.add("layout", whole.at("layout").clone());
  return inputs;
}

Mismatch on_rank(std::size_t rank, Mismatch bad) {
  bad.what = "rank " + std::to_string(rank) + ": " + bad.what;
  return bad;
}

/// A private payload must decode to the rank's update; that format 1 does is part of its own check. All ranks must use the same format.
GateResult check_decoded(const TensorMap& outputs, std::int64_t n) {
  const auto format = outputs.at("format").ref().scalar<std::int32_t>();
  if (format == sign_block::format) return std::nullopt;
  if (format != sparse::format) return Mismatch{"format", {}, std::to_string(format), "1 or 128", 0, "ranks have no decoder for it"};
  std::vector<float> update(static_cast<std::size_t>(n));
  sparse::expand(sparse::decode(outputs.at("payload").ref().flat<const std::uint8_t>(), n), update);
  const auto own = outputs.at("update").flat<float>();
  for (std::size_t i = 0; i < update.size(); ++i)
    if (std::bit_cast<std::uint32_t>(own[i]) != std::bit_cast<std::uint32_t>(update[i])) return Mismatch{"update", {static_cast<std::int64_t>(i)}, std::to_string(own[i]), std::to_string(update[i]), 0, "is not what payload decodes to"};
  return std::nullopt;
}

/// Each rank's own step by the one-process gate, then the average of all ranks' updates: exact, and equal in bits everywhere.
GateResult check_all_ranks(const TensorRefMap& whole, const std::vector<TensorMap>& outputs) {
  const TensorRef &grads = whole.at("grad"), &errors = whole.at("error");
  const std::int64_t ranks = grads.shape[0], n = grads.shape[1];
  if (static_cast<std::int64_t>(outputs.size()) != ranks) return Mismatch{"average", {}, "", "", 0, "outputs of " + std::to_string(outputs.size()) + " ranks of " + std::to_string(ranks)};
  const Tensor no_state(Dtype::u8, {0});
  std::vector<double> sum(static_cast<std::size_t>(n));
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    const struct { const char* name; TensorRef form; } wanted[] = {{"format", {Dtype::i32, {}, nullptr}},
                                                                   {"update", {Dtype::f32, {n}, nullptr}},
                                                                   {"average", {Dtype::f32, {n}, nullptr}},
                                                                   {"new_error", {Dtype::f32, {n}, nullptr}}};
    for (const auto& [name, form] : wanted) {
      const Tensor* out = outputs[r].find(name);
      if (!out) return on_rank(r, {name, {}, "", "", 0, "output is missing"});
      if (auto bad = same_form(name, out->ref(), form)) return on_rank(r, *bad);
    }
    const Tensor* payload = outputs[r].find("payload");
    if (!payload || payload->dtype() != Dtype::u8) return on_rank(r, {"payload", {}, "", "", 0, "output is missing"});
    if (auto bad = check_decoded(outputs[r], n)) return on_rank(r, *bad);
    TensorRefMap own = refs(outputs[r]);
    own.add("new_state", no_state.ref());
    const std::int64_t row = 4 * n * static_cast<std::int64_t>(r);
    if (auto bad = check_own({Dtype::f32, {n}, grads.data + row}, {Dtype::f32, {n}, errors.data + row}, own)) return on_rank(r, *bad);
    const auto update = outputs[r].at("update").flat<float>();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += update[i];
  }
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    const Tensor& out = outputs[r].at("average");
    const auto average = out.flat<float>();
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const auto wanted = static_cast<float>(sum[i] / static_cast<double>(ranks));
      if (!(average[i] == wanted)) return on_rank(r, {"average", {static_cast<std::int64_t>(i)}, std::to_string(average[i]), std::to_string(wanted), 0, "is not the mean of the updates in ascending rank"});
    }
    if (n > 0 && std::memcmp(out.data(), outputs[0].at("average").data(), static_cast<std::size_t>(out.bytes())) != 0) return on_rank(r, {"average", {}, "", "", 0, "differs in bits from rank 0's"});
  }
  return std::nullopt;
}

MultiRank::Scaling scaling() {
  MultiRank::Scaling scaling;
  scaling.sizes = {4, 64, 1000, 16 << 10, 64 << 10, 100'000, 1 << 20, 4 << 20, 10'000'000, 16 << 20};
  scaling.inputs = [](Random& random, int ranks, std::int64_t bytes) { return whole_input(random, std::max<std::int64_t>(1, bytes / 4), ranks); };
  scaling.size_of = [](const TensorMap& whole, int ranks) { return whole.at("grad").bytes() / ranks; };
  scaling.size_text = "bytes of a rank's gradient, 4n, before compression";
  scaling.bus_formula = "(P-1)*516/16384";  // what a rank receives of each byte of gradient, whole blocks
  scaling.bus_factor = [](int ranks) { return (ranks - 1) * 516.0 / 16384; };
  scaling.schedule = [](std::int64_t bytes, const NodeMap& nodes) {
    const std::int64_t own = sign_block::bytes_of(std::max<std::int64_t>(1, bytes / 4));
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(nodes.ranks()), own);
    return std::shared_ptr<const Schedule>(all_gather_schedule(gather_algorithm(own, nodes.ranks()), counts, nodes, 1));
  };
  scaling.bound = [](std::int64_t bytes, int ranks) {
    return all_gather_bound(std::vector<std::int64_t>(static_cast<std::size_t>(ranks), sign_block::bytes_of(std::max<std::int64_t>(1, bytes / 4))));
  };
  return scaling;
}

}  // namespace

TensorMap whole_input(Random& random, std::int64_t n, int ranks, float error_scale) {
  TensorMap inputs;
  random.fill_normal(inputs.add("grad", Tensor(Dtype::f32, {ranks, n})).flat<float>());
  random.fill_normal(inputs.add("error", Tensor(Dtype::f32, {ranks, n})).flat<float>(), 0, error_scale);
  inputs.add("step", Tensor::scalar<std::int64_t>(7));
  inputs.add("layout", Tensor::of<std::int64_t>({2, 2}, {1, n / 3, 1, n - n / 3}));
  return inputs;
}

std::vector<MultiRank::RankCase> rank_cases() {
  const auto fixed = [](std::string name, std::string note, std::int64_t n, float error_scale = 1) {
    return MultiRank::RankCase{std::move(name), std::move(note), [=](Random& random, int ranks) { return whole_input(random, n, ranks, error_scale); }};
  };
  const auto changed = [](std::string name, std::string note, std::int64_t n, std::function<void(TensorMap&)> change) {
    return MultiRank::RankCase{std::move(name), std::move(note), [=](Random& random, int ranks) {
                                 TensorMap whole = whole_input(random, n, ranks);
                                 change(whole);
                                 return whole;
                               }};
  };
  // `spoil` changes the shards of rank `at` (-1: the last); `code` on any number of ranks, or only from two on.
  const auto broken = [&](std::string name, std::string note, std::string code, int at, bool needs_two, std::function<void(TensorMap&)> spoil) {
    MultiRank::RankCase made = fixed(std::move(name), std::move(note), 5000);
    made.damage = [=](Random&, TensorMap& shard, int rank, int ranks) {
      if (rank == (at < 0 ? ranks - 1 : at) && (ranks > 1 || !needs_two)) spoil(shard);
    };
    made.code = [=](int ranks) { return ranks > 1 || !needs_two ? code : std::string(); };
    return made;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const auto set = [](const char* name, std::size_t i, float value) { return [=](TensorMap& shard) { shard.at(name).flat<float>()[i] = value; }; };
  std::vector<MultiRank::RankCase> cases = {
      fixed("n0", "empty payloads", 0), fixed("n1", "one element", 1), fixed("n7", "less than a byte of signs", 7), fixed("n4095", "", 4095), fixed("n4096", "", 4096), fixed("n4097", "", 4097),
      fixed("n10001", "no multiple of the block", 10001), fixed("several_segments", "the last one short", 4096 * 130 + 5), fixed("error_larger_than_grad", "", 9000, 1000),
      changed("all_zero_block", "scale 0, update +0", 8200, [](TensorMap& whole) {
        for (const char* name : {"grad", "error"}) std::fill_n(whole.at(name).flat<float>().begin(), 4096, 0.0f);
      }),
      changed("cancelled", "grad = -error on all ranks: c = 0", 4100, [](TensorMap& whole) {
        for (std::size_t i = 0; i < whole.at("grad").flat<float>().size(); ++i) whole.at("grad").flat<float>()[i] = -whole.at("error").flat<float>()[i];
      }),
      changed("minus_zero", "-0 is not negative", 4100, [](TensorMap& whole) {
        for (const char* name : {"grad", "error"}) std::ranges::fill(whole.at(name).flat<float>(), -0.0f);
      }),
      broken("nan_on_the_last_rank", "", "nonfinite_grad", -1, false, set("grad", 4999, nan)),
      broken("nan_on_rank_0", "", "nonfinite_grad", 0, false, set("grad", 0, -nan)),
      broken("inf_in_an_error", "", "nonfinite_error", -1, false, set("error", 4097, inf)),
      broken("overflow", "", "error_overflow", 0, false, [](TensorMap& shard) {
        for (const char* name : {"grad", "error"}) shard.at(name).flat<float>()[17] = 3e38f;
      }),
      broken("negative_step", "on one rank: not only another one", "bad_step", -1, false, [](TensorMap& shard) { shard.at("step") = Tensor::scalar(std::numeric_limits<std::int64_t>::min()); }),
      broken("layout_too_small", "", "bad_layout", -1, false, [](TensorMap& shard) { shard.at("layout").flat<std::int64_t>()[3] -= 1; }),
      broken("negative_rows", "", "bad_layout", 0, false, [](TensorMap& shard) { shard.at("layout").flat<std::int64_t>()[0] = -1; }),
      broken("other_step", "", "rank_mismatch", -1, true, [](TensorMap& shard) { shard.at("step") = Tensor::scalar<std::int64_t>(8); }),
      broken("other_layout", "one matrix instead of two vectors", "rank_mismatch", 0, true, [](TensorMap& shard) { shard.at("layout") = Tensor::of<std::int64_t>({1, 2}, {50, 100}); }),
      broken("other_n", "", "rank_mismatch", -1, true, [](TensorMap& shard) {
        for (const char* name : {"grad", "error"}) shard.at(name) = Tensor(Dtype::f32, {4096});
        shard.at("layout") = Tensor::of<std::int64_t>({1, 2}, {1, 4096});
      }),
  };
  // Two ranks at fault: the lowest one's code, though the other's comes first in the table.
  MultiRank::RankCase both = fixed("lowest_rank_wins", "rank 0 has an infinite error, the last rank a NaN in its gradient and another step", 5000);
  both.damage = [=](Random&, TensorMap& shard, int rank, int ranks) {
    if (rank == 0) shard.at("error").flat<float>()[3] = inf;
    else if (rank == ranks - 1) {
      shard.at("grad").flat<float>()[2] = nan;
      shard.at("step") = Tensor::scalar<std::int64_t>(9);
    }
  };
  both.code = [](int) { return "nonfinite_error"; };
  cases.push_back(std::move(both));
  return cases;
}

MultiRank multi_rank() {
  MultiRank form;
  form.contract.input("grad", {Dtype::f32}, {"n"}, "this rank's gradient bucket", "finite");
  form.contract.input("error", {Dtype::f32}, {"n"}, "this rank's error carried from the step before", "finite");
  form.contract.input("step", {Dtype::i64}, {}, "step number, the same on all ranks", ">= 0");
  form.contract.input("layout", {Dtype::i64}, {"L", "2"}, "rows, cols of each matrix, the same on all ranks", "products sum to n");
  form.contract.output("format", {Dtype::i32}, {}, "wire format of payload, the same on all ranks: 1 or 128");
  form.contract.output("payload", {Dtype::u8}, {"4*n+64"}, "what this rank puts on the wire").length = "B";
  form.contract.output("update", {Dtype::f32}, {"n"}, "decoded payload of this rank");
  form.contract.output("average", {Dtype::f32}, {"n"}, "mean of all ranks' updates, equal in every bit on all ranks");
  form.contract.output("new_error", {Dtype::f32}, {"n"}, "this rank's error for the next step");
  // One rank alone can break each of them: the variants agree on the code, so that none leaves the others in a collective.
  form.contract.rule("bad_layout", "on some rank a negative entry, or products do not sum to n; all ranks report the lowest rank's code", CheckedBy::variant, check_layout);
  form.contract.rule("bad_step", "step < 0 on some rank", CheckedBy::variant, check_step);
  form.contract.rule("nonfinite_grad", "NaN or Inf in grad of some rank", CheckedBy::variant, check_grad);
  form.contract.rule("nonfinite_error", "NaN or Inf in error of some rank", CheckedBy::variant, check_error);
  form.contract.rule("error_overflow", "grad + error of some rank is not finite in f32", CheckedBy::variant, check_sum);
  form.contract.rule("rank_mismatch", "n, step, layout or format differ between ranks", CheckedBy::variant, [](const TensorRefMap&) { return Rejected(); });  // no rank can see it alone
  form.variants = {{"mpi_baseline", run_mpi_baseline, "format 1 in passes over the whole bucket, one blocking all-gather"},
                   {"mpi", run_mpi, "segments of whole blocks compressed while others travel; direct all-gathers, logarithmic where payloads are small"},
                   {"mpi_sparse", run_mpi_sparse, "format 128: 3 in 1000 elements; lengths, then payloads 30 times shorter than format 1's"},
                   {"nccl", run_mpi, "the same over NCCL", false, true}};
  form.workloads = {
      {"smoke", "n = 10000", [](Random& random, int ranks) { return whole_input(random, 10000, ranks); }},
      {"below_a_block", "n = 3001", [](Random& random, int ranks) { return whole_input(random, 3001, ranks); }},
      {"standard", "n = 2^22, a bucket of 16 MiB", [](Random& random, int ranks) { return whole_input(random, std::int64_t{1} << 22, ranks); }},
  };
  form.cases = rank_cases();
  form.identical = {"average"};
  form.scaling = scaling();
  form.shard = shard;
  form.gate = check_all_ranks;
  form.wire_floor = [](const TensorMap& whole, int ranks) {
    const std::int64_t n = whole.at("grad").shape()[1];
    return Floor{static_cast<double>((ranks - 1) * sign_block::bytes_of(n)), static_cast<double>(n)};
  };
  return form;
}

}  // namespace faibench::grad_signsgd_error_feedback
