// tp_allreduce_bias_fuse: contract, reference, cases, workloads, gate, floor, and the multi-rank form.
#include "task/task.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "collectives/tp_allreduce_bias_fuse/messages.h"
#include "collectives/tp_allreduce_bias_fuse/tp_allreduce_bias_fuse.h"
#include "schedule/traffic.h"

namespace faibench {
namespace tp_allreduce_bias_fuse {

template <class T>
void reference::reduce_partials(View<const T, 3> partials, View<const T, 1> bias, View<T, 2> out) {
  for (std::int64_t m = 0; m < out.extent(0); ++m)
    for (std::int64_t n = 0; n < out.extent(1); ++n) {
      double sum = 0;
      for (std::int64_t p = 0; p < partials.extent(0); ++p) sum += static_cast<double>(to_float(partials(p, m, n)));
      out(m, n) = round_to<T>(sum + static_cast<double>(to_float(bias(n))));
    }
}

namespace {

constexpr Dtype dtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};

/// Calls `f` with a value of the dtype's storage type, one of the three that the contract allows.
template <class F>
void visit_float(Dtype dtype, F f) {
  if (dtype == Dtype::f16) f(f16{});
  else if (dtype == Dtype::bf16) f(bf16{});
  else f(float{});
}

template <class T>
void convert(const float* values, std::int64_t count, T* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = round_to<T>(values[i]);
}

/// Blocks of whole rows of about 64 Ki elements, each from its own stream: a thread's numbers stay in its caches, and the bits do not depend on who makes them.
template <class T>
void fill_rows(const Random& random, const std::vector<float>& deviation, std::int64_t rows, T* out) {
  const auto N = static_cast<std::int64_t>(deviation.size());
  const std::int64_t block = std::max<std::int64_t>(1, (1 << 16) / std::max<std::int64_t>(N, 1)), blocks = (rows + block - 1) / block;
#pragma omp parallel for schedule(static) if (rows * N >= 1 << 17)
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = b * block, n = std::min(block, rows - first);
    std::vector<float> values(static_cast<std::size_t>(n * N));
    Random own = random.stream(static_cast<std::uint64_t>(b));
    own.fill_normal(values, 0, 0.05f);
    for (std::int64_t r = 0; r < n; ++r)
      for (std::int64_t c = 0; c < N; ++c) values[static_cast<std::size_t>(r * N + c)] *= deviation[static_cast<std::size_t>(c)];
    convert(values.data(), n * N, out + first * N);
  }
}

/// normal(0, 0.05), one channel of every 256 times 50 (the outlier channels of real activations, the same for all ranks and tokens); bias normal(0, 0.02).
TensorMap activations(Random& random, Dtype dtype, std::int64_t P, std::int64_t M, std::int64_t N) {
  std::vector<float> deviation(static_cast<std::size_t>(N), 1.0f), bias_values(static_cast<std::size_t>(N));
  for (std::int64_t first = 0; first < N; first += 256) {
    const std::int64_t channel = first + random.below(256);
    if (channel < N) deviation[static_cast<std::size_t>(channel)] = 50.0f;
  }
  random.fill_normal(bias_values, 0, 0.02f);
  TensorMap inputs;
  inputs.add("partials", Tensor(dtype, {P, M, N}));
  inputs.add("bias", Tensor(dtype, {N}));
  visit_float(dtype, [&]<class T>(T) {
    fill_rows(random.stream(0), deviation, P * M, inputs.at("partials").flat<T>().data());
    convert(bias_values.data(), N, inputs.at("bias").flat<T>().data());
  });
  return inputs;
}

Case sized(std::string name, std::string note, Dtype dtype, std::int64_t P, std::int64_t M, std::int64_t N) {
  return {std::move(name), std::move(note), [=](Random& random) { return activations(random, dtype, P, M, N); }};
}

/// `values` [P][N], one token; `bias` [N]; given in f64, rounded to each dtype.
Case exact_values(std::string name, std::string note, Dtype dtype, std::vector<std::vector<double>> values, std::vector<double> bias) {
  return {std::move(name), std::move(note), [=](Random&) {
            const auto P = static_cast<std::int64_t>(values.size()), N = static_cast<std::int64_t>(bias.size());
            TensorMap inputs;
            inputs.add("partials", Tensor(dtype, {P, 1, N}));
            inputs.add("bias", Tensor(dtype, {N}));
            Tensor &x = inputs.at("partials"), &b = inputs.at("bias");  // after both: add() moves what was there
            visit_float(dtype, [&]<class T>(T) {
              for (std::int64_t p = 0; p < P; ++p)
                for (std::int64_t n = 0; n < N; ++n) x.flat<T>()[static_cast<std::size_t>(p * N + n)] = round_to<T>(values[static_cast<std::size_t>(p)][static_cast<std::size_t>(n)]);
              for (std::int64_t n = 0; n < N; ++n) b.flat<T>()[static_cast<std::size_t>(n)] = round_to<T>(bias[static_cast<std::size_t>(n)]);
            });
            return inputs;
          }};
}

Case invalid(std::string name, std::string note, std::function<void(TensorMap&)> spoil) {
  return {std::move(name), std::move(note), [spoil](Random& random) {
            TensorMap inputs = activations(random, Dtype::bf16, 2, 3, 4);
            spoil(inputs);
            return inputs;
          }};
}

void add_shape_cases(std::vector<Case>& cases) {
  for (Dtype dtype : dtypes) {
    const std::string d = "_" + std::string(name_of(dtype));
    for (std::int64_t P : {1, 2, 3, 7, 8, 16}) cases.push_back(sized("P" + std::to_string(P) + d, "ranks", dtype, P, 5, 300));
    for (std::int64_t N : {1, 2, 31, 33, 63, 65, 127}) cases.push_back(sized("N" + std::to_string(N) + d, "not a vector multiple", dtype, 3, 7, N));
    cases.push_back(sized("decode" + d, "M = 1", dtype, 8, 1, 1000));
    cases.push_back(sized("no_tokens" + d, "M = 0", dtype, 4, 0, 33));
    cases.push_back(sized("no_features" + d, "N = 0", dtype, 4, 3, 0));
    cases.push_back(sized("several_threads" + d, "enough for every thread, a ragged end", dtype, 5, 401, 401));
  }
  cases.push_back(sized("past_the_caches_bf16", "large enough to be streamed, a ragged end", Dtype::bf16, 2, 1049, 2003));
}

void add_value_cases(std::vector<Case>& cases) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (Dtype dtype : dtypes) {
    const std::string d = "_" + std::string(name_of(dtype));
    //                                                                  NaN in a rank, NaN in the bias, Inf, -Inf, opposite, Inf against the bias, NaN beats Inf, zeros
    cases.push_back(exact_values("special_values" + d, "NaN and infinities in ranks and bias", dtype,
                                 {{nan, 1, inf, -inf, inf, inf, inf, -0.0, 2}, {1, 2, 3, 4, -inf, 1, nan, 0.0, inf}, {1, 2, 3, 4, 5, 6, 7, -0.0, inf}},
                                 {1, nan, 2, 3, 4, -inf, inf, -0.0, inf}));
    cases.push_back(exact_values("one_rank_special" + d, "P = 1 keeps what is not finite", dtype, {{nan, inf, -inf, 1, 0.0}}, {1, 1, 1, inf, -0.0}));
  }
  cases.push_back(exact_values("cancellation_f32", "1e4 - 1e4 + 1e-3", Dtype::f32, {{1e4, 1e-3, 3e7, 1}, {-1e4, 1e4, -3e7, 1e-8}, {1e-3, -1e4, 0.25, -1}}, {0, 0, 1e-4, 0}));
  cases.push_back(exact_values("f32_near_the_end", "S above 3.4e38 is not judged, just below is", Dtype::f32, {{3e38, 1.6e38, -3e38}, {3e38, 1.7e38, 3e38}, {-3e38, 1e30, 1}}, {-2e38, 0, 0}));
  cases.push_back(exact_values("f16_partial_overflow", "a partial sum past 65504 that comes back; totals past 65520", Dtype::f16,
                               {{60000, 60000, 65504, -65504, 65504}, {60000, 10000, 0, -32, 15.96875}, {-60000, 0, 0, 0, 0}}, {1, 0, 16, 0, 0}));
  cases.push_back(exact_values("f16_subnormals", "kept, not flushed", Dtype::f16,
                               {{0x1p-24, 0x1p-15, 0x3p-24, 0x1p-14, -0x1p-24}, {0, 0x1p-16, -0x1p-24, -0x1p-24, 0}}, {0, 0x1p-24, 0x1p-20, 0, 0}));
  cases.push_back(exact_values("f16_every_magnitude", "sums of two powers of two down to the smallest", Dtype::f16,
                               {{0x1p-10, 0x1p-11, 0x1p-12, 0x1p-13, 0x1p-14, 0x1p-15, 0x1p-20, 0x1p-23}, {0x1p-21, 0x1p-22, 0x1p-23, 0x1p-24, 0x1p-24, 0x1p-24, 0x1p-24, 0x1p-24}},
                               {0, 0, 0, 0, 0, 0, 0, 0}));
  cases.push_back(exact_values("bf16_ties", "halfway cases go to even, once", Dtype::bf16,
                               {{1, 1, 1.0078125, 1, 256, -1}, {0x1p-8, 0x1p-8, 0x1p-8, 0x1.01p-8, 1, -0x1p-8}}, {0, 0x1p-20, 0, 0, 0, 0}));
  cases.push_back(exact_values("bf16_tiny", "results below the normal range may be flushed", Dtype::bf16, {{0x1p-130, 0x1p-126, 0x1p-126}, {0x1p-133, -0x1p-127, 0x1p-126}}, {0, 0, 0}));
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  add_shape_cases(cases);
  add_value_cases(cases);
  cases.push_back(invalid("no_partials", "missing_tensor", [](TensorMap& in) { in.erase("partials"); }));
  cases.push_back(invalid("no_bias", "missing_tensor", [](TensorMap& in) { in.erase("bias"); }));
  cases.push_back(invalid("extra_tensor", "unknown_tensor", [](TensorMap& in) { in.add("scale", Tensor(Dtype::f32, {1})); }));
  cases.push_back(invalid("partials_of_f64", "wrong_dtype", [](TensorMap& in) { in.at("partials") = Tensor(Dtype::f64, {2, 3, 4}); }));
  cases.push_back(invalid("bias_of_another_dtype", "wrong_dtype", [](TensorMap& in) { in.at("bias") = Tensor(Dtype::f32, {4}); }));
  cases.push_back(invalid("partials_of_rank_2", "wrong_rank", [](TensorMap& in) { in.at("partials") = Tensor(Dtype::bf16, {6, 4}); }));
  cases.push_back(invalid("bias_of_rank_2", "wrong_rank", [](TensorMap& in) { in.at("bias") = Tensor(Dtype::bf16, {1, 4}); }));
  cases.push_back(invalid("short_bias", "dim_mismatch", [](TensorMap& in) { in.at("bias") = Tensor(Dtype::bf16, {3}); }));
  cases.push_back(invalid("no_ranks", "no_ranks", [](TensorMap& in) { in.at("partials") = Tensor(Dtype::bf16, {0, 3, 4}); }));
  cases.push_back(invalid("no_ranks_no_tokens", "no_ranks before anything is empty", [](TensorMap& in) { in.at("partials") = Tensor(Dtype::bf16, {0, 0, 4}); }));
  return cases;
}

TensorMap random_case(Random& random) {
  const Dtype dtype = dtypes[random.below(3)];
  const std::int64_t P = random.between(1, 12), M = random.between(0, 20), N = random.between(0, 200);
  TensorMap inputs = activations(random, dtype, P, M, N);
  if (M * N == 0 || random.chance(0.5)) return inputs;
  const std::uint16_t odd16[] = {0x7c00, 0xfc00, 0x7e00, 0x7f80, 0xff80, 0x7fc0, 0x0001, 0x8001, 0x7bff, 0x8000};  // infinities, NaN, subnormals, large ones of both types
  for (std::int64_t k = random.between(1, 8); k > 0; --k) {
    const std::uint16_t bits = odd16[random.below(std::size(odd16))];
    Tensor& target = random.chance(0.8) ? inputs.at("partials") : inputs.at("bias");
    const std::int64_t i = random.below(target.size()) * size_of(dtype) + size_of(dtype) - 2;  // the upper half of an f32
    std::memcpy(target.data() + i, &bits, 2);
  }
  return inputs;
}

const char* const gate_text =
    "per element, with ref and S = sum |x_p| + |b| in f64: |out - ref| <= 1.01*u*|ref| + (P+1)*2^-24*S + t, u = 2^-24 (f32), 2^-11 (f16), 2^-8 (bf16), t = 2^-25 (f16), "
    "2^-126 (f32, bf16); NaN where and only where ref is NaN, an infinite addend gives the same Inf; f16 overflows where it must; finite addends with S > 3.4e38 are not judged; "
    "the same bits on every run and for any thread count";

Gate gate() {
  Gate gate;
  gate.text = gate_text;
  gate.needs_expected = false;
  gate.check = [](const GateCall& call) -> GateResult {
    const TensorRef* out = call.outputs.find("out");
    if (!out) return Mismatch{"out", {}, "", "", 0, "output is missing"};
    if (auto bad = check_out(call.inputs, *out)) return bad;
    for (const TensorMap& probe : call.probes)
      if (auto bad = check_same_bits(*out, probe.at("out").ref(), "a second run on one thread gave other bits (got) than the first (wanted)")) return bad;
    return std::nullopt;
  };
  gate.probes = [](const TensorRefMap& inputs) {  // one run more on the same inputs, and one thread: unequal bits mean either of the two
    Probe probe;
    for (const auto& [name, tensor] : inputs) probe.inputs.add(name, Tensor::copy_of(tensor));
    probe.threads = 1;
    std::vector<Probe> probes;
    probes.push_back(std::move(probe));
    return probes;
  };
  return gate;
}

Contract shard_contract() {
  Contract contract;
  contract.input("partial", {Dtype::f32, Dtype::f16, Dtype::bf16}, {"M", "N"}, "this rank's partial result for M tokens, N features", "any values");
  contract.input_like("bias", "partial", {"N"}, "the whole bias, the same on all ranks", "any values");
  contract.output_like("out", "partial", {"M", "N"}, "sum over all ranks, plus bias, rounded once; the whole of it on every rank");
  // No rank can see this in its own shard: the variants compare notes before they move data.
  contract.rule("rank_mismatch", "M, N, dtype, or the bytes of bias differ between ranks (all ranks report it)", CheckedBy::variant, [](const TensorRefMap&) { return Rejected(); });
  return contract;
}

TensorMap shard(const TensorMap& whole, int rank, int /*ranks*/) {
  const TensorRef& partials = whole.at("partials").ref();
  TensorRef own{partials.dtype, {partials.shape[1], partials.shape[2]}, nullptr};
  own.data = partials.data + own.bytes() * rank;
  TensorMap inputs;
  inputs.add("partial", Tensor::copy_of(own));
  inputs.add("bias", whole.at("bias").clone());
  return inputs;
}

GateResult check_all_ranks(const TensorRefMap& whole, const std::vector<TensorMap>& outputs_by_rank) {
  for (std::size_t rank = 0; rank < outputs_by_rank.size(); ++rank) {
    const Tensor* out = outputs_by_rank[rank].find("out");
    if (!out) return Mismatch{"out", {}, "", "", 0, "output of rank " + std::to_string(rank) + " is missing"};
    // Bits equal to rank 0's are as right as those.
    GateResult bad = rank == 0 ? check_out(whole, out->ref()) : check_same_bits(outputs_by_rank[0].at("out").ref(), out->ref(), "rank " + std::to_string(rank) + " (got) and rank 0 (wanted) differ in bits");
    if (bad) return bad;
  }
  return std::nullopt;
}

MultiRank::RankCase rank_case(std::string name, std::string note, Dtype dtype, std::int64_t M, std::int64_t N) {
  return {std::move(name), std::move(note), [=](Random& random, int ranks) { return activations(random, dtype, ranks, M, N); }};
}

/// `damage` is done to the last rank's shard; alone there is nobody to differ from.
MultiRank::RankCase mismatch(std::string name, std::string note, Dtype dtype, std::function<void(TensorMap&)> damage) {
  MultiRank::RankCase spoiled = rank_case(std::move(name), std::move(note), dtype, 5, 40);
  spoiled.damage = [damage](Random&, TensorMap& shard, int rank, int ranks) {
    if (rank + 1 == ranks) damage(shard);
  };
  spoiled.code = [](int ranks) { return ranks > 1 ? "rank_mismatch" : ""; };
  return spoiled;
}

Tensor without_last(const Tensor& tensor, std::size_t dim) {
  Shape shape = tensor.shape();
  --shape[dim];
  Tensor less(tensor.dtype(), shape);
  std::memcpy(less.data(), tensor.data(), static_cast<std::size_t>(less.bytes()));
  return less;
}

std::vector<MultiRank::RankCase> rank_cases() {
  std::vector<MultiRank::RankCase> cases;
  for (Dtype dtype : dtypes) {
    const std::string d = "_" + std::string(name_of(dtype));
    cases.push_back(rank_case("one_element" + d, "fewer elements than ranks: empty pieces", dtype, 1, 1));
    cases.push_back(rank_case("three_elements" + d, "fewer elements than most numbers of ranks", dtype, 3, 1));
    cases.push_back(rank_case("ragged" + d, "rows that no vector divides, pieces that start in mid-row", dtype, 7, 31));
    cases.push_back(rank_case("decode" + d, "one token", dtype, 1, 1031));
    cases.push_back(rank_case("past_64_KiB" + d, "pieces go to their owners", dtype, 37, 1001));
  }
  cases.push_back(rank_case("no_tokens", "M = 0", Dtype::bf16, 0, 33));
  cases.push_back(rank_case("no_features", "N = 0", Dtype::f32, 3, 0));
  cases.push_back({"special_values", "NaN and infinities of one rank, opposite ones of two, NaN in the bias", [](Random& random, int ranks) {
                     TensorMap whole = activations(random, Dtype::f32, ranks, 3, 50);
                     const auto x = whole.at("partials").flat<float>();
                     const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
                     const std::size_t last = x.size() - 150;
                     x[0] = x[last + 3] = inf;
                     x[last] = x[2] = -inf;
                     x[last + 1] = nan;
                     whole.at("bias").flat<float>()[7] = nan;
                     return whole;
                   }});
  cases.push_back({"f16_partial_overflow", "a partial sum past 65504 that comes back, where there are ranks for it", [](Random& random, int ranks) {
                     TensorMap whole = activations(random, Dtype::f16, ranks, 2, 20);
                     const auto x = whole.at("partials").flat<f16>();
                     for (int rank = 0; rank < ranks; ++rank) x[static_cast<std::size_t>(rank) * 40] = round_to<f16>(rank % 3 == 2 ? -60000.0f : rank / 3 == 0 ? 60000.0f : 30000.0f);
                     return whole;
                   }});
  cases.push_back(mismatch("other_M", "the last rank has a token less", Dtype::bf16, [](TensorMap& shard) { shard.at("partial") = without_last(shard.at("partial"), 0); }));
  cases.push_back(mismatch("other_N", "the last rank has a feature less", Dtype::f16, [](TensorMap& shard) {
    shard.at("partial") = without_last(shard.at("partial"), 1);
    shard.at("bias") = without_last(shard.at("bias"), 0);
  }));
  cases.push_back(mismatch("no_tokens_on_one", "the last rank has none at all", Dtype::f32, [](TensorMap& shard) { shard.at("partial") = Tensor(Dtype::f32, {0, 40}); }));
  cases.push_back(mismatch("other_dtype", "the last rank has f16 of the same bytes", Dtype::bf16, [](TensorMap& shard) {
    for (auto& [name, tensor] : shard) {
      Tensor other(Dtype::f16, tensor.shape());
      std::memcpy(other.data(), tensor.data(), static_cast<std::size_t>(tensor.bytes()));
      tensor = std::move(other);
    }
  }));
  cases.push_back(mismatch("other_bias", "one bit of the last rank's bias", Dtype::f32, [](TensorMap& shard) { shard.at("bias").data()[shard.at("bias").bytes() - 1] ^= std::byte{0x80}; }));
  return cases;
}

/// S = M*N*size of an element, bf16; rows of 4096 features and what is left of one.
MultiRank::Scaling scaling() {
  constexpr std::int64_t size = 2, features = 4096;
  const auto elements = [](std::int64_t bytes) { return std::max<std::int64_t>(1, bytes / size); };
  const auto rows = [](std::int64_t L) { return L <= features ? 1 : L / features; };
  MultiRank::Scaling scaling;
  scaling.sizes = {2, 8, 64, 1000, 4 << 10, 16 << 10, 64 << 10, 100'000, 256 << 10, 1 << 20, 4 << 20, 10'000'000, 16 << 20, 64 << 20};
  scaling.inputs = [=](Random& random, int ranks, std::int64_t bytes) {
    const std::int64_t L = elements(bytes), M = rows(L);
    return activations(random, Dtype::bf16, ranks, M, L / M);
  };
  scaling.size_of = [](const TensorMap& whole, int ranks) { return whole.at("partials").bytes() / ranks; };
  scaling.size_text = "bytes of out: M*N elements of bf16";
  scaling.bus_formula = "2(P-1)/P";
  scaling.bus_factor = [](int ranks) { return 2.0 * (ranks - 1) / ranks; };
  scaling.schedule = [=](std::int64_t bytes, const NodeMap& nodes) { return std::shared_ptr<const Schedule>(message_schedule(elements(bytes), size, nodes, false)); };
  scaling.bound = [](std::int64_t bytes, int ranks) { return all_reduce_bound(bytes, ranks); };
  return scaling;
}

MultiRank multi_rank() {
  MultiRank form;
  form.contract = shard_contract();
  form.variants = {
      {"mpi_baseline", run_mpi_baseline, "cast to f32, all-reduce, bias, cast"},
      {"mpi", run_mpi, "in a node, partials are read straight from the peers' memory and added chunk by chunk in rank order; else elements travel as they are, each rank sums its piece, then all gather"},
      {"mpi_registered", run_mpi_registered, "partials and outputs in shared memory: each piece is added from all partials into all outputs at once, between two barriers", true},
      {"mpi_deterministic", run_mpi_deterministic, "as mpi, in ascending rank over any number of nodes"},
      {"nccl", run_messages, "direct reduce-scatter and all-gather of the elements as they are, over NCCL", false, true},
  };
  form.cases = rank_cases();
  form.identical = {"out"};
  form.scaling = scaling();
  const auto workload = [](std::string name, std::string description, Dtype dtype, std::int64_t M, std::int64_t N) {
    return MultiRank::RankWorkload{std::move(name), std::move(description), [=](Random& random, int ranks) { return activations(random, dtype, ranks, M, N); }};
  };
  form.workloads = {
      workload("smoke", "bf16, M=8, N=96", Dtype::bf16, 8, 96),
      workload("standard", "bf16, M=1024, N=8192 on every rank", Dtype::bf16, 1024, 8192),
      workload("decode", "bf16, M=64, N=8192 on every rank", Dtype::bf16, 64, 8192),
      workload("decode_1", "bf16, M=1, N=8192 on every rank", Dtype::bf16, 1, 8192),
  };
  form.shard = shard;
  form.gate = check_all_ranks;
  form.wire_floor = [](const TensorMap& whole, int ranks) {
    const Tensor& partials = whole.at("partials");
    const double share = static_cast<double>(partials.bytes()) / ranks;  // L*s
    return Floor{2.0 * (ranks - 1) / ranks * share, static_cast<double>(partials.size()) / ranks};
  };
  return form;
}

Task make() {
  Task task;
  task.name = "tp_allreduce_bias_fuse";
  task.group = "collectives";
  task.summary = "Sum of tensor-parallel partial results plus bias, in one pass";
  task.semantics = "out[m, n] = round(sum over p of partials[p, m, n] + bias[n]): accumulated in f32 or wider, rounded once to nearest even, the same bits on every run.";
  task.contract.input("partials", {Dtype::f32, Dtype::f16, Dtype::bf16}, {"P", "M", "N"}, "partial result of rank p for M tokens, N features", "P >= 1, any values");
  task.contract.input_like("bias", "partials", {"N"}, "added once per token", "any values");
  task.contract.output_like("out", "partials", {"M", "N"}, "sum over ranks, plus bias, rounded once");
  task.contract.rule("no_ranks", "P = 0", CheckedBy::runner, [](const TensorRefMap& inputs) -> Rejected {
    if (inputs.at("partials").shape[0] > 0) return std::nullopt;
    return reject("no_ranks", "partials", -1, to_string(inputs.at("partials").shape), "there must be at least one rank");
  });
  const std::vector<std::string> names = {"partials", "bias", "out"};
  task.variants = {
      {"reference", Kernel({bind(reference::reduce_partials<float>, names), bind(reference::reduce_partials<f16>, names), bind(reference::reduce_partials<bf16>, names)}),
       "one element after another in f64"},
      {"baseline", Kernel({bind(baseline::reduce_partials<float>, names), bind(baseline::reduce_partials<f16>, names), bind(baseline::reduce_partials<bf16>, names)}),
       "one operation a line, each into a new buffer"},
      {"cpu", Kernel({bind(cpu::reduce_partials<float>, names), bind(cpu::reduce_partials<f16>, names), bind(cpu::reduce_partials<bf16>, names)}),
       "one pass over P streams side by side, f32 in registers, streamed stores"},
      on_device("cuda_baseline", "one kernel an operation, f32 intermediates in device memory"),
      on_device("cuda", "16 bytes of every rank a thread, added in registers, stored once"),
  };
  const auto part = [](Dtype dtype, std::int64_t P, std::int64_t M, std::int64_t N) { return Generator([=](Random& random) { return activations(random, dtype, P, M, N); }); };
  const std::string values = "; normal(0, 0.05), one channel in 256 times 50; bias normal(0, 0.02)";
  task.workloads = {
      {"smoke", "P=4, M=8, N=96, each dtype" + values, {part(Dtype::f32, 4, 8, 96), part(Dtype::f16, 4, 8, 96), part(Dtype::bf16, 4, 8, 96)}, 2e-5},
      {"standard", "bf16, P=8, M=1024, N=8192 (a 1024-token prefill chunk of a 70B model at TP 8)" + values, {part(Dtype::bf16, 8, 1024, 8192)}, 0.5},
      {"gpu", "bf16, P=8, M=16384, N=8192" + values, {part(Dtype::bf16, 8, 16384, 8192)}, 8},
  };
  task.cases = cases();
  task.random_case = random_case;
  task.gate = gate();
  task.floor = [](const TensorRefMap& inputs) {
    const TensorRef& partials = inputs.at("partials");
    const double P = static_cast<double>(partials.shape[0]), ML = P > 0 ? static_cast<double>(partials.bytes()) / P : 0;
    return Floor{(P + 1) * ML + static_cast<double>(inputs.at("bias").bytes()), static_cast<double>(partials.size())};
  };
  task.floor_text = "((P+1)*M*N + N) * size of an element, P*M*N additions";
  task.multi_rank = multi_rank();
  return task;
}

}  // namespace
}  // namespace tp_allreduce_bias_fuse

namespace tasks {
const Task& tp_allreduce_bias_fuse() {
  static const Task task = faibench::tp_allreduce_bias_fuse::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
