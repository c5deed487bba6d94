// grpo_rloo_advantage: contract, reference, gate, workloads, floor. The fixed cases are in cases.cpp.
#include "task/task.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/training/grpo_rloo_advantage/cases.h"
#include "kernels/training/grpo_rloo_advantage/grpo_rloo_advantage.h"

namespace faibench {
namespace grpo_rloo_advantage {
namespace {

// a_i of every row, straight from the contract's rules 1 to 4.
std::vector<double> row_advantages(View<const float, 2> rewards, View<const std::int64_t, 1> index, std::string_view estimator, double epsilon, bool norm_by_std) {
  std::vector<double> s(static_cast<std::size_t>(rewards.extent(0)), 0.0);
  std::map<std::int64_t, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < s.size(); ++i) {
    for (std::int64_t t = 0; t < rewards.extent(1); ++t) s[i] += static_cast<double>(rewards(static_cast<std::int64_t>(i), t));
    groups[index[static_cast<std::int64_t>(i)]].push_back(i);
  }
  std::vector<double> a(s.size());
  for (const auto& [group, rows] : groups) {
    const double n = static_cast<double>(rows.size());
    double mean = 0, std = 1;
    if (rows.size() > 1) {
      bool equal = true;
      for (const std::size_t i : rows) {
        mean += s[i];
        if (!std::isfinite(s[i]) || s[i] != s[rows[0]]) equal = false;
      }
      mean /= n;
      double squares = 0;
      for (const std::size_t i : rows) squares += (s[i] - mean) * (s[i] - mean);
      std = std::sqrt(squares / (n - 1));
      if (equal) {
        mean = s[rows[0]];
        std = 0;
      }
    }
    for (const std::size_t i : rows) {
      if (estimator == "rloo") a[i] = rows.size() == 1 ? s[i] : (s[i] - mean) * n / (n - 1);
      else a[i] = norm_by_std ? (s[i] - mean) / (std + epsilon) : s[i] - mean;
    }
  }
  return a;
}

}  // namespace

void reference::estimate(View<const float, 2> token_level_rewards, View<const Bool8, 2> response_mask, View<const std::int64_t, 1> index, std::string_view estimator, double epsilon,
                         bool norm_by_std, View<float, 2> advantages, View<float, 2> returns) {
  const std::vector<double> a = row_advantages(token_level_rewards, index, estimator, epsilon, norm_by_std);
  for (std::int64_t i = 0; i < advantages.extent(0); ++i)
    for (std::int64_t t = 0; t < advantages.extent(1); ++t) {
      advantages(i, t) = static_cast<float>(a[static_cast<std::size_t>(i)] * (response_mask(i, t) ? 1.0 : 0.0));
      returns(i, t) = advantages(i, t);
    }
}

namespace {

// The same before its last rounding, except that what f32 cannot hold is infinite (rule 5 rounds to f32).
TensorMap expected(const TensorRefMap& inputs) {
  const auto rewards = inputs.at("token_level_rewards").view<const float, 2>();
  const auto mask = inputs.at("response_mask").view<const Bool8, 2>();
  const auto estimator = inputs.at("estimator").flat<const std::uint8_t>();
  const std::vector<double> a = row_advantages(rewards, inputs.at("index").view<const std::int64_t, 1>(), {reinterpret_cast<const char*>(estimator.data()), estimator.size()},
                                               inputs.at("epsilon").scalar<double>(), static_cast<bool>(inputs.at("norm_by_std").scalar<Bool8>()));
  TensorMap outputs;
  Tensor advantages(Dtype::f64, {rewards.extent(0), rewards.extent(1)});
  const auto out = advantages.view<double, 2>();
  for (std::int64_t i = 0; i < out.extent(0); ++i)
    for (std::int64_t t = 0; t < out.extent(1); ++t) {
      const double exact = a[static_cast<std::size_t>(i)] * (mask(i, t) ? 1.0 : 0.0);
      out(i, t) = std::isinf(static_cast<float>(exact)) ? static_cast<double>(static_cast<float>(exact)) : exact;
    }
  Tensor returns = advantages.clone();
  outputs.add("advantages", std::move(advantages));
  outputs.add("returns", std::move(returns));
  return outputs;
}

// ---- rejections

std::string quoted(std::span<const std::uint8_t> text) {
  std::string out = "'";
  for (const std::uint8_t c : text.first(std::min<std::size_t>(text.size(), 32))) out += c >= 0x20 && c < 0x7f ? static_cast<char>(c) : '?';
  return out + (text.size() > 32 ? "...'" : "'");
}

Rejected bad_estimator(const TensorRefMap& inputs) {
  const auto bytes = inputs.at("estimator").flat<const std::uint8_t>();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text == "grpo" || text == "rloo") return std::nullopt;
  return reject("bad_estimator", "estimator", -1, quoted(bytes), "neither 'grpo' nor 'rloo'");
}

Rejected bad_epsilon(const TensorRefMap& inputs) {
  const double epsilon = inputs.at("epsilon").scalar<double>();
  if (std::isfinite(epsilon) && epsilon >= 0) return std::nullopt;
  return reject("bad_epsilon", "epsilon", -1, std::to_string(epsilon), "not a finite number >= 0");
}

// ---- workloads

// `prompts` groups of 8 responses in shuffled rows; of one group in fifty all rows but one go to other groups.
void fill_index(Random& random, std::int64_t prompts, std::span<std::int64_t> index) {
  const std::int64_t reduced = prompts / 50;
  std::vector<std::int64_t> id(static_cast<std::size_t>(prompts));
  for (std::int64_t& i : id) i = static_cast<std::int64_t>(random.u64());
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::int64_t prompt = static_cast<std::int64_t>(i) / 8;
    const bool moved = prompt < reduced && i % 8 != 0;
    index[i] = id[static_cast<std::size_t>(moved ? reduced + random.below(prompts - reduced) : prompt)];
  }
  random.shuffle(index);
}

TensorMap rollout(Random& random, std::int64_t prompts, std::int64_t L) {
  const std::int64_t B = 8 * prompts;
  TensorMap inputs;
  const auto rewards = inputs.add("token_level_rewards", Tensor(Dtype::f32, {B, L})).view<float, 2>();
  const auto mask = inputs.add("response_mask", Tensor(Dtype::bool_, {B, L})).view<Bool8, 2>();
  fill_index(random, prompts, inputs.add("index", Tensor(Dtype::i64, {B})).flat<std::int64_t>());
  inputs.add("estimator", Tensor::text("grpo"));
  inputs.add("epsilon", Tensor::scalar(1e-6));
  inputs.add("norm_by_std", Tensor::boolean(true));
  const Random rows = random.stream(1);
#pragma omp parallel for schedule(dynamic, 64) if (B * L >= 1 << 16)
  for (std::int64_t i = 0; i < B; ++i) {
    Random row = rows.stream(static_cast<std::uint64_t>(i));
    const double median = static_cast<double>(L) / 4;
    const std::int64_t length = std::clamp<std::int64_t>(static_cast<std::int64_t>(median * stable_exp(0.6 * row.normal())), 1, L);
    const float outcome = row.chance(0.3) ? 1.0f : 0.0f;
    const std::span<float> response(&rewards(i, 0), static_cast<std::size_t>(length));
    row.fill_normal(response);
    for (float& reward : response) reward = -1e-3f * std::abs(reward);
    response.back() = outcome;
    for (std::int64_t t = 0; t < length; ++t) mask(i, t) = Bool8{1};
  }
  return inputs;
}

Task make() {
  Task task;
  task.name = "grpo_rloo_advantage";
  task.group = "training";
  task.summary = "Advantage of every sampled response over its own group, by GRPO (z-score) or RLOO (leave-one-out)";
  task.semantics =
      "s = sum of a row's rewards over all tokens, in f64. Rows of equal index are a group of n. grpo: a = (s - mean)/(std + epsilon) with the sample deviation (n = 1: mean 0, std 1), or "
      "s - mean without norm_by_std; equal finite scores have std exactly 0. rloo: a = (s - mean) * n/(n - 1), or s where n = 1. advantages = returns = a * mask.";
  task.contract.input("token_level_rewards", {Dtype::f32}, {"B", "L"}, "reward per token", "any");
  task.contract.input("response_mask", {Dtype::bool_}, {"B", "L"}, "1 at tokens of the response that are trained on");
  task.contract.input("index", {Dtype::i64}, {"B"}, "group of each row", "any value, any order");
  task.contract.input("estimator", {Dtype::u8}, {"n"}, "the text grpo or rloo");
  task.contract.input("epsilon", {Dtype::f64}, {}, "added to the standard deviation; grpo only", "finite, >= 0");
  task.contract.input("norm_by_std", {Dtype::bool_}, {}, "grpo only: 1 divides by the standard deviation, 0 only centres");
  task.contract.output("advantages", {Dtype::f32}, {"B", "L"}, "a_i at the tokens of the mask, 0 elsewhere (NaN where a_i is not finite)");
  task.contract.output("returns", {Dtype::f32}, {"B", "L"}, "the same values as advantages");
  task.contract.rule("bad_estimator", "estimator is neither `grpo` nor `rloo` (exact bytes, lower case, not empty)", CheckedBy::runner, bad_estimator);
  task.contract.rule("bad_epsilon", "epsilon negative, NaN or infinite (for rloo too)", CheckedBy::runner, bad_epsilon);
  const std::vector<std::string> names = {"token_level_rewards", "response_mask", "index", "estimator", "epsilon", "norm_by_std", "advantages", "returns"};
  task.variants = {
      {"reference", Kernel({bind(reference::estimate, names)}), "the contract's rules, group by group"},
      {"baseline", Kernel({bind(baseline::estimate, names)}), "verl's loop form: score pass, hash map of score lists, look-up pass, write pass"},
      {"cpu", Kernel({bind(cpu::estimate, names)}), "a SIMD lane a row for the sums, one hash pass, masked streaming stores, rows over threads"},
  };
  task.workloads = {
      {"smoke", "B=64, L=32, groups of 8, grpo with norm; values as in standard", {[](Random& random) { return rollout(random, 8, 32); }}, 1e-5},
      {"standard",
       "B=16384 (2048 prompts x 8), L=4096, grpo with norm; outcome reward 0/1 (30 % ones) at the last response token, KL terms -1e-3 * |normal| on the response's others; response lengths "
       "log-normal, median L/4; rows shuffled; 2 % of the groups reduced to one row (their others joined other groups)",
       {[](Random& random) { return rollout(random, 2048, 4096); }},
       0.2},
  };
  task.cases = cases();
  task.random_case = random_case;
  task.gate = close_gate({{"", Dtype::f32, 1e-5, 1e-6}});
  task.gate.text = "advantages, returns: close(1e-5, 1e-6); an infinite reference asks for the same infinity, NaN for NaN";
  task.expected = expected;
  task.metric.text = "none (the gate alone)";
  task.floor = [](const TensorRefMap& inputs) {
    const double elements = static_cast<double>(inputs.at("token_level_rewards").size());
    return Floor{13 * elements, elements};
  };
  task.floor_text = "4*B*L bytes read (rewards) + B*L (mask) + 8*B*L written; B*L additions";
  return task;
}

}  // namespace
}  // namespace grpo_rloo_advantage

namespace tasks {
const Task& grpo_rloo_advantage() {
  static const Task task = faibench::grpo_rloo_advantage::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
