// p2c_least_loaded_router: contract, reference, cases, workloads, gate, floor.
#include "task/task.h"

#include <algorithm>
#include <limits>

#include "kernels/serving/p2c_least_loaded_router/p2c_least_loaded_router.h"

namespace faibench {
namespace p2c_least_loaded_router {
namespace {

constexpr std::int64_t largest_load = std::int64_t{1} << 62;

Rejected check_replica_count(const TensorRefMap& inputs) {
  const auto R = inputs.at("num_replicas").scalar<std::int32_t>();
  if (R < 1) return reject("bad_replica_count", "num_replicas", -1, std::to_string(R), "there must be a replica");
  return std::nullopt;
}

Rejected check_load_size(const TensorRefMap& inputs) {
  const auto R = inputs.at("num_replicas").scalar<std::int32_t>();
  const std::int64_t L = inputs.at("initial_loads").shape[0];
  if (L != R) return reject("load_size_mismatch", "initial_loads", -1, to_string({L}), "its length must be num_replicas = " + std::to_string(R));
  return std::nullopt;
}

Rejected check_loads(const TensorRefMap& inputs) {
  const auto loads = inputs.at("initial_loads").flat<const std::int64_t>();
  for (std::size_t r = 0; r < loads.size(); ++r)
    if (loads[r] < 0 || loads[r] > largest_load) return reject("bad_load", "initial_loads", static_cast<std::int64_t>(r), std::to_string(loads[r]), "a load is at least 0 and at most 2^62");
  return std::nullopt;
}

Rejected check_candidates(const TensorRefMap& inputs) {
  const auto R = inputs.at("num_replicas").scalar<std::int32_t>();
  const auto candidates = inputs.at("candidates").flat<const std::int32_t>();
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i] < 0 || candidates[i] >= R)
      return reject("bad_candidate", "candidates", static_cast<std::int64_t>(i), std::to_string(candidates[i]), "a candidate is one of 0 .. " + std::to_string(R - 1));
  return std::nullopt;
}

}  // namespace

Rejected reference::route_p2c(std::int32_t num_replicas, View<const std::int32_t, 2> candidates, View<const std::int64_t, 1> initial_loads, View<std::int32_t, 1> assignment,
                              View<std::int64_t, 1> loads) {
  for (std::int64_t r = 0; r < num_replicas; ++r)
    if (initial_loads[r] < 0 || initial_loads[r] > largest_load) return reject("bad_load", "initial_loads", r, std::to_string(initial_loads[r]), "not in 0 .. 2^62");
  for (std::int64_t i = 0; i < candidates.extent(0); ++i)
    for (std::int64_t side = 0; side < 2; ++side)
      if (candidates(i, side) < 0 || candidates(i, side) >= num_replicas)
        return reject("bad_candidate", "candidates", 2 * i + side, std::to_string(candidates(i, side)), "no such replica, there are " + std::to_string(num_replicas));
  for (std::int64_t r = 0; r < num_replicas; ++r) loads[r] = initial_loads[r];
  for (std::int64_t i = 0; i < candidates.extent(0); ++i) {
    const std::int32_t a = candidates(i, 0), b = candidates(i, 1);
    const std::int32_t pick = loads[a] <= loads[b] ? a : b;
    assignment[i] = pick;
    loads[pick] += 1;
  }
  return std::nullopt;
}

namespace {

TensorMap input_set(std::int32_t R, std::int64_t N) {
  TensorMap inputs;
  inputs.add("num_replicas", Tensor::scalar(R));
  inputs.add("candidates", Tensor(Dtype::i32, {N, 2}));
  inputs.add("initial_loads", Tensor(Dtype::i64, {std::max(R, 0)}));
  return inputs;
}

/// R and the requests; loads all `load`.
TensorMap by_hand(std::int32_t R, const std::vector<std::int32_t>& pairs, std::vector<std::int64_t> loads) {
  TensorMap inputs;
  inputs.add("num_replicas", Tensor::scalar(R));
  inputs.add("candidates", Tensor::of({static_cast<std::int64_t>(pairs.size() / 2), 2}, pairs));
  const auto L = static_cast<std::int64_t>(loads.size());
  inputs.add("initial_loads", Tensor::of({L}, loads));
  return inputs;
}

void fill_loads(Random& random, TensorMap& inputs, std::int32_t below) {
  const auto loads = inputs.at("initial_loads").flat<std::int64_t>();
  std::vector<std::int32_t> values(loads.size());
  random.fill_below(values, below);
  std::copy(values.begin(), values.end(), loads.begin());
}

TensorMap uniform(Random& random, std::int32_t R, std::int64_t N, std::int32_t loads_below) {
  TensorMap inputs = input_set(R, N);
  random.fill_below(inputs.at("candidates").flat<std::int32_t>(), R);
  fill_loads(random, inputs, loads_below);
  return inputs;
}

/// Walker's alias table: a word picks one of R equal cells, the rest of it decides between the cell's own value and its alias.
struct AliasTable {
  struct Cell {
    std::uint32_t own_below;  ///< of 2^32
    std::int32_t own, alias;
  };
  std::vector<Cell> cells;

  explicit AliasTable(const std::vector<double>& weights, const std::vector<std::int64_t>& values) : cells(weights.size()) {
    const std::size_t R = weights.size();
    double total = 0;
    for (double w : weights) total += w;
    std::vector<double> rest(R);
    std::vector<std::size_t> small, large;
    for (std::size_t i = 0; i < R; ++i) {
      rest[i] = weights[i] / total * static_cast<double>(R);
      (rest[i] < 1 ? small : large).push_back(i);
      cells[i] = {std::numeric_limits<std::uint32_t>::max(), static_cast<std::int32_t>(values[i]), static_cast<std::int32_t>(values[i])};
    }
    while (!small.empty() && !large.empty()) {
      const std::size_t s = small.back(), l = large.back();
      small.pop_back();
      cells[s].own_below = static_cast<std::uint32_t>(rest[s] * 4294967296.0);
      cells[s].alias = static_cast<std::int32_t>(values[l]);
      rest[l] -= 1 - rest[s];
      if (rest[l] < 1) {
        large.pop_back();
        small.push_back(l);
      }
    }
  }
  [[nodiscard]] std::int32_t operator()(std::uint32_t word) const {
    const std::uint64_t product = std::uint64_t{word} * cells.size();
    const Cell& cell = cells[product >> 32];
    return static_cast<std::uint32_t>(product) < cell.own_below ? cell.own : cell.alias;
  }
};

/// Replica ranks by Zipf's law: the k-th of a random order is drawn in proportion to k^-exponent.
TensorMap zipf(Random& random, std::int32_t R, std::int64_t N, double exponent, std::int32_t loads_below) {
  TensorMap inputs = input_set(R, N);
  std::vector<double> weights;
  for (std::int32_t k = 1; k <= R; ++k) weights.push_back(stable_exp(-exponent * stable_log(k)));
  const AliasTable table(weights, random.permutation(R));
  const auto candidates = inputs.at("candidates").flat<std::int32_t>();
  random.fill_bits({reinterpret_cast<std::uint32_t*>(candidates.data()), candidates.size()});
#pragma omp parallel for schedule(static) if (candidates.size() > (1 << 18))
  for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i] = table(static_cast<std::uint32_t>(candidates[i]));
  fill_loads(random, inputs, loads_below);
  return inputs;
}

/// `count` requests for the pairs of `cycle`, over and over.
TensorMap repeated(std::int32_t R, const std::vector<std::int32_t>& cycle, std::int64_t count, std::vector<std::int64_t> loads) {
  std::vector<std::int32_t> pairs;
  for (std::int64_t i = 0; i < count; ++i)
    for (std::size_t side = 0; side < 2; ++side) pairs.push_back(cycle[static_cast<std::size_t>(i) * 2 % cycle.size() + side]);
  return by_hand(R, pairs, std::move(loads));
}

/// Uniform requests over loads that lie `gap` apart, replica by replica.
TensorMap apart(Random& random, std::int32_t R, std::int64_t N, std::int64_t gap) {
  TensorMap inputs = uniform(random, R, N, 3);
  const auto loads = inputs.at("initial_loads").flat<std::int64_t>();
  for (std::size_t r = 0; r < loads.size(); ++r) loads[r] += static_cast<std::int64_t>(r) * gap;
  return inputs;
}

TensorMap damaged(Random& random, std::int32_t R, std::int64_t N, std::int64_t at, std::int32_t value) {
  TensorMap inputs = uniform(random, R, N, 32);
  inputs.at("candidates").flat<std::int32_t>()[static_cast<std::size_t>(at)] = value;
  return inputs;
}

TensorMap damaged_load(Random& random, std::int64_t load) {
  TensorMap inputs = uniform(random, 9, 20, 32);
  inputs.at("initial_loads").flat<std::int64_t>()[7] = load;
  return inputs;
}

std::vector<Case> valid_cases() {
  std::vector<Case> cases = {
      {"ties_go_to_the_first", "all loads 0; ties at the start and after updates", [](Random& random) { return uniform(random, 16, 1000, 1); }},
      {"both_candidates_are_one", "a == b grows by one", [](Random&) { return repeated(3, {2, 2}, 37, {0, 0, 5}); }},
      {"both_are_one_among_others", "a == b between requests that need its load", [](Random&) { return repeated(3, {1, 1, 1, 2, 2, 1, 0, 1, 0, 0}, 200, {1, 0, 1}); }},
      {"one_replica", "R = 1", [](Random& random) { return uniform(random, 1, 100, 10); }},
      {"two_replicas", "every request depends on the last", [](Random& random) { return uniform(random, 2, 3000, 5); }},
      {"unused_replicas", "replicas that never occur keep their load", [](Random&) { return repeated(40, {3, 4, 4, 3, 17, 3}, 100, std::vector<std::int64_t>(40, 1234567890123)); }},
      {"loads_far_apart", "2^62 against 0", [](Random&) { return repeated(3, {0, 1, 1, 2, 2, 0, 0, 2}, 500, {largest_load, 0, largest_load}); }},
      {"all_loads_largest", "2^62 everywhere, growing past it", [](Random& random) {
         TensorMap inputs = uniform(random, 5, 300, 2);
         for (std::int64_t& load : inputs.at("initial_loads").flat<std::int64_t>()) load = largest_load;
         return inputs;
       }},
      {"differences_above_32_bits", "loads equal in the low 32 bits", [](Random& random) { return apart(random, 12, 1000, std::int64_t{1} << 32); }},
      {"differences_near_31_bits", "signed 32-bit differences wrap", [](Random& random) { return apart(random, 3, 1000, (std::int64_t{1} << 31) - 2); }},
      {"differences_near_32_bits", "unsigned 32-bit differences wrap", [](Random& random) { return apart(random, 3, 1000, (std::int64_t{1} << 32) - 2); }},
      {"differences_near_16_bits", "16-bit differences wrap", [](Random& random) { return apart(random, 4, 5000, 32767); }},
      {"differences_of_a_block", "gaps that close within a few hundred requests", [](Random& random) { return apart(random, 40, 9000, 150); }},
      {"same_pair_repeated", "first, second, first, ...", [](Random&) { return repeated(2, {1, 0}, 99, {7, 7}); }},
      {"reversed_pairs", "(a,b) then (b,a)", [](Random&) { return repeated(4, {1, 2, 2, 1}, 99, {0, 0, 0, 0}); }},
      {"no_requests", "N = 0", [](Random& random) { return uniform(random, 70, 0, 1000); }},
      {"one_request", "N = 1", [](Random& random) { return uniform(random, 70, 1, 3); }},
      {"many_replicas", "R = 200,000, loads beyond L2", [](Random& random) { return uniform(random, 200000, 3001, 4); }},
      {"replicas_63", "just below a vector of bytes", [](Random& random) { return zipf(random, 63, 20011, 1.1, 32); }},
      {"replicas_64", "hot replicas", [](Random& random) { return zipf(random, 64, 40001, 1.1, 32); }},
      {"replicas_65", "just above", [](Random& random) { return zipf(random, 65, 20011, 1.1, 32); }},
      {"steep_zipf", "one replica in most requests", [](Random& random) { return zipf(random, 30, 20000, 2.5, 2); }},
      {"balanced_64", "no replica ever far from another", [](Random& random) { return uniform(random, 64, 20000, 2); }},
      {"balanced_then_hot", "a late change of the distribution", [](Random& random) {
         TensorMap inputs = uniform(random, 64, 30000, 32);
         const TensorMap hot = zipf(random, 64, 15000, 1.5, 32);
         std::ranges::copy(hot.at("candidates").flat<std::int32_t>(), inputs.at("candidates").flat<std::int32_t>().begin() + 30000);
         return inputs;
       }},
  };
  for (std::int64_t N : {65536, 70001, 150000}) {  // enough for more than one thread
    cases.push_back({"hot_replicas_" + std::to_string(N), "R = 64, long", [N](Random& random) { return zipf(random, 64, N, 1.1, 32); }});
    cases.push_back({"balanced_" + std::to_string(N), "R = 700, long", [N](Random& random) { return uniform(random, 700, N, 32); }});
  }
  for (std::int64_t N : {2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 511, 513, 4095, 4097})
    cases.push_back({"requests_" + std::to_string(N), "around the sizes of vectors and blocks", [N](Random& random) { return uniform(random, 11, N, 4); }});
  return cases;
}

std::vector<Case> invalid_cases() {
  return {
      {"no_replicas", "R = 0", [](Random&) { return by_hand(0, {}, {}); }},
      {"negative_replicas", "R = -1, and the other tensors wrong, too", [](Random&) { return by_hand(-1, {0, 9}, {-5}); }},
      {"too_few_loads", "L < R", [](Random&) { return by_hand(3, {0, 2}, {1, 1}); }},
      {"too_many_loads", "L > R; before the bad load and the bad candidate", [](Random&) { return by_hand(3, {0, 7}, {1, -1, 1, 1}); }},
      {"negative_load", "before any candidate is looked at", [](Random& random) { return damaged_load(random, -1); }},
      {"load_too_large", "2^62 + 1", [](Random& random) { return damaged_load(random, largest_load + 1); }},
      {"load_smallest", "-2^63", [](Random& random) { return damaged_load(random, std::numeric_limits<std::int64_t>::min()); }},
      {"bad_load_before_bad_candidate", "both are there", [](Random&) { return by_hand(3, {0, 5}, {0, -2, 0}); }},
      {"first_candidate_high", "R itself, in the first request", [](Random& random) { return damaged(random, 9, 100, 0, 9); }},
      {"last_candidate_high", "R itself, in the last request", [](Random& random) { return damaged(random, 9, 5003, 10005, 9); }},
      {"bad_candidate_first_of_many", "before everything else", [](Random& random) { return damaged(random, 64, 120000, 1, 64); }},
      {"bad_candidate_in_the_middle_of_many", "where two threads would meet", [](Random& random) { return damaged(random, 64, 120000, 110000, -5); }},
      {"bad_candidate_last_of_many", "after everything else", [](Random& random) { return damaged(random, 64, 120000, 239999, 64); }},
      {"candidate_negative", "-1", [](Random& random) { return damaged(random, 9, 1000, 777, -1); }},
      {"candidate_smallest", "-2^31", [](Random& random) { return damaged(random, 9, 1000, 778, std::numeric_limits<std::int32_t>::min()); }},
      {"candidate_largest", "2^31 - 1", [](Random& random) { return damaged(random, 64, 1000, 1999, std::numeric_limits<std::int32_t>::max()); }},
      {"candidate_right_in_its_low_byte", "256 of 64 replicas", [](Random& random) { return damaged(random, 64, 1000, 900, 256); }},
      {"candidate_right_in_its_low_half", "65536 of 4096 replicas", [](Random& random) { return damaged(random, 4096, 1000, 901, 65536); }},
      {"missing_candidates", "an input short", [](Random& random) { TensorMap in = uniform(random, 3, 5, 2); in.erase("candidates"); return in; }},
      {"unknown_tensor", "an input the contract does not know", [](Random& random) { TensorMap in = uniform(random, 3, 5, 2); in.add("weights", Tensor(Dtype::f32, {3})); return in; }},
      {"loads_are_i32", "another dtype", [](Random& random) { TensorMap in = uniform(random, 3, 5, 2); in.at("initial_loads") = Tensor(Dtype::i32, {3}); return in; }},
      {"replica_count_is_a_vector", "another rank", [](Random& random) { TensorMap in = uniform(random, 3, 5, 2); in.at("num_replicas") = Tensor(Dtype::i32, {1}); return in; }},
      {"three_candidates", "second dimension 3", [](Random& random) { TensorMap in = uniform(random, 3, 5, 2); in.at("candidates") = Tensor(Dtype::i32, {5, 3}); return in; }},
  };
}

TensorMap random_input(Random& random) {
  const std::int32_t sizes[] = {1, 2, 3, 5, 16, 33, 64, 65, 100, 256, 1000};
  const std::int32_t R = sizes[random.below(std::ssize(sizes))];
  const std::int64_t N = random.chance(0.5) ? random.below(200) : random.below(6000);
  const auto loads_below = static_cast<std::int32_t>(random.chance(0.3) ? 1 : random.chance(0.5) ? 32 : 2000);
  TensorMap inputs = random.chance(0.5) ? uniform(random, R, N, loads_below) : zipf(random, R, N, random.uniform(0.5, 2.5), loads_below);
  if (random.chance(0.2))
    for (std::int64_t& load : inputs.at("initial_loads").flat<std::int64_t>()) load += random.below(3) << random.between(20, 60);
  return inputs;
}

Task make() {
  Task task;
  task.name = "p2c_least_loaded_router";
  task.group = "serving";
  task.summary = "Routes a batch of requests by the power of two choices: the less loaded of two candidates takes each";
  task.semantics =
      "loads starts as initial_loads. For i = 0 .. N-1, strictly in order: a = candidates[i,0], b = candidates[i,1]; pick = loads[a] <= loads[b] ? a : b; "
      "assignment[i] = pick; loads[pick] += 1. A tie goes to the first candidate; a == b grows by one; each decision sees all earlier updates.";
  task.contract.input("num_replicas", {Dtype::i32}, {}, "R", ">= 1");
  task.contract.input("candidates", {Dtype::i32}, {"N", "2"}, "first and second candidate of each request, in arrival order", "0 .. R-1");
  task.contract.input("initial_loads", {Dtype::i64}, {"L"}, "outstanding requests of each replica before the batch; L must be R", "0 .. 2^62");
  task.contract.output("assignment", {Dtype::i32}, {"N"}, "replica that each request goes to");
  task.contract.output("loads", {Dtype::i64}, {"L"}, "loads after the whole batch");
  task.contract.rule("bad_replica_count", "num_replicas < 1", CheckedBy::runner, check_replica_count);
  task.contract.rule("load_size_mismatch", "L != num_replicas", CheckedBy::runner, check_load_size);
  task.contract.rule("bad_load", "some initial load < 0 or > 2^62", CheckedBy::variant, check_loads);
  task.contract.rule("bad_candidate", "some candidate < 0 or >= num_replicas", CheckedBy::variant, check_candidates);
  const std::vector<std::string> names = {"num_replicas", "candidates", "initial_loads", "assignment", "loads"};
  task.variants = {
      {"reference", Kernel({bind(reference::route_p2c, names)}), "the rule, one request after another"},
      {"baseline", Kernel({bind(baseline::route_p2c, names)}), "validation first, then an if for each request"},
      {"cpu", Kernel({bind(cpu::route_p2c, names)}), "no branch and no store address waits for a decision; hot replicas decided a vector at a time"},
  };
  const Generator standard_uniform = [](Random& random) { return uniform(random, 4096, 25'000'000, 32); };
  const Generator standard_zipf = [](Random& random) { return zipf(random, 64, 25'000'000, 1.1, 32); };
  task.workloads = {
      {"smoke", "R = 16, N = 10,000, candidates uniform, initial loads 0..31", {[](Random& random) { return uniform(random, 16, 10000, 32); }}, 6e-5},
      {"standard",
       "the sum of two calls with N = 25,000,000 and initial loads uniform in 0..31: R = 4096, candidates uniform and independent; R = 64, candidates Zipf(1.1) over a random order of the replicas",
       {standard_uniform, standard_zipf},
       0.3},
  };
  task.cases = valid_cases();
  for (Case& c : invalid_cases()) task.cases.push_back(std::move(c));
  task.random_case = random_input;
  task.gate = exact_gate();
  task.gate.text = "exact: every element of assignment and loads";
  task.floor = [](const TensorRefMap& inputs) {
    const auto N = static_cast<double>(inputs.at("candidates").shape[0]), L = static_cast<double>(inputs.at("initial_loads").shape[0]);
    return Floor{12 * N + 16 * L, 0};
  };
  task.floor_text = "8*N bytes of candidates read + 4*N of assignment written + 16*L of loads; the order of the decisions costs more";
  return task;
}

}  // namespace
}  // namespace p2c_least_loaded_router

namespace tasks {
const Task& p2c_least_loaded_router() {
  static const Task task = faibench::p2c_least_loaded_router::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
