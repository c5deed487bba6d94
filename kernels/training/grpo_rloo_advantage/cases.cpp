// Fixed and random cases of grpo_rloo_advantage.
#include "kernels/training/grpo_rloo_advantage/cases.h"

#include <cstdint>
#include <limits>

namespace faibench::grpo_rloo_advantage {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

struct Setting {
  const char* estimator = "grpo";
  double epsilon = 1e-6;
  bool norm_by_std = true;
};

// [B, L] rewards; mask bytes may be empty: all set.
TensorMap rollout(const Setting& setting, std::int64_t L, const std::vector<float>& rewards, const std::vector<std::int64_t>& index, std::vector<std::uint8_t> mask = {}) {
  const std::int64_t B = static_cast<std::int64_t>(index.size());
  std::vector<Bool8> mask_bytes(rewards.size(), Bool8{1});
  for (std::size_t i = 0; i < mask.size(); ++i) mask_bytes[i] = Bool8{mask[i]};
  TensorMap inputs;
  inputs.add("token_level_rewards", Tensor::of<float>({B, L}, rewards));
  inputs.add("response_mask", Tensor::of<Bool8>({B, L}, mask_bytes));
  inputs.add("index", Tensor::of<std::int64_t>({B}, index));
  inputs.add("estimator", Tensor::text(setting.estimator));
  inputs.add("epsilon", Tensor::scalar(setting.epsilon));
  inputs.add("norm_by_std", Tensor::boolean(setting.norm_by_std));
  return inputs;
}

// Normal rewards, a random mask, groups drawn from `groups` ids.
TensorMap random_rollout(Random& random, const Setting& setting, std::int64_t B, std::int64_t L, std::int64_t groups) {
  std::vector<float> rewards(static_cast<std::size_t>(B * L));
  random.fill_normal(rewards);
  std::vector<std::uint8_t> mask(rewards.size());
  for (std::uint8_t& m : mask) m = random.chance(0.6) ? 1 : 0;
  std::vector<std::int64_t> id(static_cast<std::size_t>(groups)), index(static_cast<std::size_t>(B));
  for (std::int64_t& i : id) i = static_cast<std::int64_t>(random.u64());
  for (std::int64_t& i : index) i = id[static_cast<std::size_t>(random.below(groups))];
  return rollout(setting, L, rewards, index, mask);
}

// The same input under grpo with norm, grpo that only centres, and rloo.
template <class Make>
void add_for_all(std::vector<Case>& cases, const std::string& name, const char* note, Make make) {
  const std::pair<const char*, Setting> settings[] = {{"grpo", {"grpo", 1e-6, true}}, {"centred", {"grpo", 1e-6, false}}, {"rloo", {"rloo", 1e-6, true}}};
  for (const auto& [suffix, setting] : settings) {
    const Setting chosen = setting;
    cases.push_back({name + "_" + suffix, note, [=](Random& random) { return make(random, chosen); }});
  }
}

void add_groupings(std::vector<Case>& cases) {
  add_for_all(cases, "one_group", "all rows one group", [](Random& random, const Setting& s) { return random_rollout(random, s, 37, 21, 1); });
  add_for_all(cases, "own_groups", "every row its own group", [](Random& random, const Setting& s) {
    TensorMap inputs = random_rollout(random, s, 19, 33, 1);
    std::int64_t next = -9;
    for (std::int64_t& i : inputs.at("index").flat<std::int64_t>()) i = next++;
    return inputs;
  });
  add_for_all(cases, "interleaved", "rows of a group among others' rows", [](Random& random, const Setting& s) { return random_rollout(random, s, 50, 17, 7); });
  add_for_all(cases, "pairs_and_extreme_ids", "a group of two; negative and huge ids", [](Random&, const Setting& s) {
    return rollout(s, 2, {1, 2, -3, 0.5f, 4, 4, 0.25f, 0, 9, -9.5f}, {INT64_MAX, INT64_MIN, -1, INT64_MAX, INT64_MIN});
  });
  add_for_all(cases, "ids_that_share_low_bits", "ids that differ in their high bits only", [](Random& random, const Setting& s) {
    TensorMap inputs = random_rollout(random, s, 64, 5, 1);
    std::int64_t k = 0;
    for (std::int64_t& i : inputs.at("index").flat<std::int64_t>()) i = (k++ % 9) << 56;
    return inputs;
  });
  add_for_all(cases, "long_rows", "several tiles and a rest of tokens and rows", [](Random& random, const Setting& s) { return random_rollout(random, s, 35, 1003, 6); });
}

void add_shapes(std::vector<Case>& cases) {
  add_for_all(cases, "no_rows", "B = 0", [](Random&, const Setting& s) { return rollout(s, 5, {}, {}); });
  add_for_all(cases, "no_tokens", "L = 0", [](Random&, const Setting& s) { return rollout(s, 0, {}, {1, 1, 2}); });
  add_for_all(cases, "one_token", "L = 1", [](Random& random, const Setting& s) { return random_rollout(random, s, 40, 1, 5); });
  add_for_all(cases, "one_row", "B = 1", [](Random& random, const Setting& s) { return random_rollout(random, s, 1, 70, 1); });
}

void add_scores(std::vector<Case>& cases) {
  add_for_all(cases, "equal_tenths", "0.1 three times: exactly 0", [](Random&, const Setting& s) { return rollout(s, 1, {0.1f, 0.1f, 0.1f}, {4, 4, 4}); });
  add_for_all(cases, "equal_large", "1000.1 seven times: exactly 0", [](Random&, const Setting& s) { return rollout(s, 1, std::vector<float>(7, 1000.1f), std::vector<std::int64_t>(7, 4)); });
  add_for_all(cases, "equal_by_other_tokens", "equal scores from different rewards", [](Random&, const Setting& s) {
    return rollout(s, 3, {0.5f, 0.25f, 0, 0, 0, 0.75f, 1, -0.25f, 0}, {4, 4, 4});
  });
  add_for_all(cases, "order_of_summation", "rewards far below the last bit of the score are lost in order, in every row alike", [](Random&, const Setting& s) {
    std::vector<float> rewards(4 * 600, 0x1p-54f);
    for (std::size_t i = 0; i < 4; ++i) rewards[i * 600] = 1;
    rewards[600 + 7] = rewards[2 * 600 + 9] = 0;
    Setting sharp = s;
    sharp.epsilon = 1e-30;
    return rollout(sharp, 600, rewards, {1, 1, 1, 1});
  });
  add_for_all(cases, "masked_rewards_count", "rewards on masked positions; a row with an all-zero mask shapes its group", [](Random&, const Setting& s) {
    return rollout(s, 3, {1, 0, 0, 0, 2, 5, 0, 0, 3, 1, 1, 1}, {1, 1, 1, 1}, {0, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1});
  });
  add_for_all(cases, "cancelling_rewards", "rewards that cancel within a row", [](Random&, const Setting& s) {
    return rollout(s, 4, {1e8f, 1, -1e8f, 0, 3e20f, -3e20f, 2, 0, 1e30f, 1, -1e30f, 1}, {1, 1, 1});
  });
  add_for_all(cases, "large_common_offset", "1e6 plus small differences", [](Random& random, const Setting& s) {
    TensorMap inputs = random_rollout(random, s, 32, 9, 4);
    auto rewards = inputs.at("token_level_rewards").flat<float>();
    for (float& r : rewards) r *= 1e-3f;
    for (std::size_t i = 0; i < 32; ++i) rewards[i * 9 + i % 9] = 1e6f;
    return inputs;
  });
  add_for_all(cases, "beyond_f32", "an advantage that f32 cannot hold is infinite", [](Random&, const Setting& s) { return rollout(s, 2, {3e38f, 3e38f, -3e38f, -3e38f}, {1, 2}, {1, 0, 1, 1}); });
  add_for_all(cases, "subnormal_rewards", "denormals are not flushed", [](Random&, const Setting& s) {
    Setting sharp = s;
    sharp.epsilon = 0;
    return rollout(sharp, 2, {1e-45f, 0, 0, 3e-45f, 1e-44f, 1e-45f}, {1, 1, 1});
  });
  add_for_all(cases, "mask_bytes_beyond_one", "any byte but 0 reads as true", [](Random&, const Setting& s) {
    std::vector<std::uint8_t> mask(40);
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = static_cast<std::uint8_t>(i % 3 == 0 ? 0 : i % 3 == 1 ? 0x80 : 2);
    return rollout(s, 20, [] { std::vector<float> r(40, 0.5f); r[3] = 7; return r; }(), {1, 1}, mask);
  });
}

void add_epsilons(std::vector<Case>& cases) {
  const auto with = [&](const char* name, const char* note, Setting setting) {
    cases.push_back({name, note, [=](Random& random) { return random_rollout(random, setting, 24, 9, 5); }});
  };
  with("epsilon_zero", "allowed", {"grpo", 0, true});
  with("epsilon_one", "damps", {"grpo", 1, true});
  with("epsilon_negative_zero", "-0 is >= 0", {"grpo", -0.0, true});
  with("epsilon_unused_by_rloo", "rloo ignores epsilon and norm_by_std", {"rloo", 5, false});
  cases.push_back({"epsilon_zero_equal_scores", "0/0 = NaN beside a clean group", [](Random&) { return rollout({"grpo", 0, true}, 2, {1, 0, 0, 1, 2, 3, 4, 0}, {1, 1, 2, 2}, {1, 0, 0, 1, 1, 0, 1, 1}); }});
  cases.push_back({"epsilon_zero_equal_scores_centred", "0, not NaN", [](Random&) { return rollout({"grpo", 0, false}, 2, {1, 0, 0, 1, 2, 3, 4, 0}, {1, 1, 2, 2}); }});
}

void add_not_finite(std::vector<Case>& cases) {
  const auto poisoned = [](float bad, std::size_t at) {
    return [=](Random& random, const Setting& s) {  // groups 0 and 1 beside each other in 6 rows of 20 tokens, single rows 2 and 3
      TensorMap inputs = random_rollout(random, s, 8, 20, 1);
      auto index = inputs.at("index").flat<std::int64_t>();
      const std::int64_t ids[] = {0, 1, 0, 1, 0, 1, 2, 3};
      std::copy(std::begin(ids), std::end(ids), index.begin());
      inputs.at("token_level_rewards").flat<float>()[at] = bad;
      return inputs;
    };
  };
  add_for_all(cases, "nan_in_one_group", "never another group", poisoned(nan, 2 * 20 + 3));
  add_for_all(cases, "inf_in_one_group", "finite rows of its group too", poisoned(inf, 2 * 20 + 19));
  add_for_all(cases, "minus_inf_in_one_group", "finite rows of its group too", poisoned(-inf, 0));
  add_for_all(cases, "inf_alone", "n = 1 with Inf: a = Inf, masked tokens NaN", poisoned(inf, 6 * 20 + 5));
  add_for_all(cases, "nan_alone", "n = 1 with NaN", poisoned(nan, 7 * 20));
  add_for_all(cases, "inf_minus_inf", "Inf and -Inf in one row", [=](Random& random, const Setting& s) {
    TensorMap inputs = poisoned(inf, 3)(random, s);
    inputs.at("token_level_rewards").flat<float>()[5] = -inf;
    return inputs;
  });
  add_for_all(cases, "all_inf", "equal scores, but not finite ones", [](Random&, const Setting& s) { return rollout(s, 2, {inf, 0, 1, inf, 3, 4}, {1, 1, 2}, {1, 0, 1, 0, 1, 0}); });
  add_for_all(cases, "nan_at_a_masked_token", "the mask takes no part in the sum", [=](Random& random, const Setting& s) {
    TensorMap inputs = poisoned(nan, 45)(random, s);
    inputs.at("response_mask").flat<Bool8>()[45] = Bool8{0};
    return inputs;
  });
}

void add_rejections(std::vector<Case>& cases) {
  const auto changed = [&](const char* name, const char* note, auto change) {
    cases.push_back({name, note, [=](Random&) {
                       TensorMap inputs = rollout({}, 2, {1, 2, 3, 4}, {0, 0});
                       change(inputs);
                       return inputs;
                     }});
  };
  const auto replace = [](const char* name, auto make) {
    return [=](TensorMap& in) {
      in.erase(name);
      in.add(name, make());
    };
  };
  for (const char* text : {"GRPO", "", "grp", "grpo ", "rlo", "gae", "grpo\n"}) {
    const std::string name = "estimator_" + std::to_string(cases.size());
    changed(name.c_str(), "bad_estimator", replace("estimator", [=] { return Tensor::text(text); }));
    cases.back().name = name;
  }
  changed("estimator_with_a_zero_byte", "bad_estimator: five bytes", replace("estimator", [] { return Tensor::text(std::string_view("grpo\0", 5)); }));
  for (const double epsilon : {-1e-300, -1.0, static_cast<double>(nan), static_cast<double>(inf), -static_cast<double>(inf)})
    for (const char* estimator : {"grpo", "rloo"}) {
      const std::string name = "epsilon_rejected_" + std::to_string(cases.size());
      changed(name.c_str(), "bad_epsilon, for rloo too", [=](TensorMap& in) {
        in.erase("epsilon");
        in.erase("estimator");
        in.add("epsilon", Tensor::scalar(epsilon));
        in.add("estimator", Tensor::text(estimator));
      });
    }
  changed("estimator_before_epsilon", "bad_estimator comes before bad_epsilon", [](TensorMap& in) {
    in.erase("epsilon");
    in.erase("estimator");
    in.add("epsilon", Tensor::scalar(-1.0));
    in.add("estimator", Tensor::text("ppo"));
  });
  cases.push_back({"no_tokens_bad_epsilon", "L = 0 still checks everything", [](Random&) { return rollout({"rloo", -1, true}, 0, {}, {1, 2}); }});
  cases.push_back({"no_rows_bad_estimator", "B = 0 still checks everything", [](Random&) { return rollout({"none", 0, true}, 3, {}, {}); }});
  changed("no_mask", "missing_tensor", [](TensorMap& in) { in.erase("response_mask"); });
  changed("no_epsilon", "missing_tensor, for rloo too", [](TensorMap& in) {
    in.erase("epsilon");
    in.erase("estimator");
    in.add("estimator", Tensor::text("rloo"));
  });
  changed("extra_tensor", "unknown_tensor", [](TensorMap& in) { in.add("values", Tensor(Dtype::f32, {2, 2})); });
  changed("rewards_are_f64", "wrong_dtype", replace("token_level_rewards", [] { return Tensor(Dtype::f64, {2, 2}); }));
  changed("mask_is_u8", "wrong_dtype", replace("response_mask", [] { return Tensor(Dtype::u8, {2, 2}); }));
  changed("epsilon_is_f32", "wrong_dtype", replace("epsilon", [] { return Tensor::scalar(1e-6f); }));
  changed("index_is_matrix", "wrong_rank", replace("index", [] { return Tensor(Dtype::i64, {2, 1}); }));
  changed("index_is_shorter", "dim_mismatch", replace("index", [] { return Tensor(Dtype::i64, {1}); }));
  changed("mask_is_wider", "dim_mismatch", replace("response_mask", [] { return Tensor(Dtype::bool_, {2, 3}); }));
}

}  // namespace

std::vector<Case> cases() {
  std::vector<Case> all;
  add_groupings(all);
  add_shapes(all);
  add_scores(all);
  add_epsilons(all);
  add_not_finite(all);
  add_rejections(all);
  return all;
}

TensorMap random_case(Random& random) {
  Setting setting;
  setting.estimator = random.chance(0.5) ? "grpo" : "rloo";
  setting.epsilon = random.chance(0.3) ? 0.0 : random.chance(0.5) ? 1e-6 : random.uniform();
  setting.norm_by_std = random.chance(0.7);
  const std::int64_t B = random.below(60), L = random.below(90);
  TensorMap inputs = random_rollout(random, setting, B, L, 1 + random.below(B + 1));
  const auto rewards = inputs.at("token_level_rewards").flat<float>();
  const double zeros = random.chance(0.5) ? 0.97 : 0.0;
  for (float& reward : rewards)
    if (random.chance(zeros)) reward = 0;
  if (!rewards.empty() && random.chance(0.3)) {
    const float bad[] = {nan, inf, -inf};
    for (int k = 0; k < 3; ++k) rewards[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(rewards.size())))] = bad[random.below(3)];
  }
  return inputs;
}

}  // namespace faibench::grpo_rloo_advantage
