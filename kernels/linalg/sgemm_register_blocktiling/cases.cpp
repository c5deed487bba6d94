// Inputs of sgemm_register_blocktiling and its fixed cases.
#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "kernels/linalg/sgemm_register_blocktiling/inputs.h"

namespace faibench::sgemm_register_blocktiling {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

Tensor uniform(Random& random, Shape shape) {
  Tensor tensor(Dtype::f32, std::move(shape));
  random.fill_uniform(tensor.flat<float>(), -1, 1);
  return tensor;
}

Tensor integers(Random& random, Shape shape, std::int32_t most) {
  Tensor tensor(Dtype::f32, std::move(shape));
  std::vector<std::int32_t> values(static_cast<std::size_t>(tensor.size()));
  random.fill_below(values, 2 * most + 1);
  std::ranges::transform(values, tensor.flat<float>().begin(), [most](std::int32_t x) { return static_cast<float>(x - most); });
  return tensor;
}

void fill(TensorMap& inputs, const char* name, float value) { std::ranges::fill(inputs.at(name).flat<float>(), value); }
void set(TensorMap& inputs, const char* name, float value) { inputs.at(name) = Tensor::scalar(value); }
float& at(TensorMap& inputs, const char* name, std::int64_t i, std::int64_t j) {
  return inputs.at(name).flat<float>()[static_cast<std::size_t>(i * inputs.at(name).shape()[1] + j)];
}

/// Uniform values, then changed.
Case changed(std::string name, std::string note, const Sizes& sizes, std::function<void(TensorMap&)> change) {
  return {std::move(name), std::move(note), [sizes, change = std::move(change)](Random& random) {
            TensorMap inputs = uniform_inputs(random, sizes);
            change(inputs);
            return inputs;
          }};
}

Case uniform_case(std::string name, std::string note, const Sizes& sizes) {
  return changed(std::move(name), std::move(note), sizes, [](TensorMap&) {});
}

Case scaled(std::string name, std::string note, float alpha, float beta) {
  return changed(std::move(name), std::move(note), {21, 37, 19}, [=](TensorMap& inputs) {
    set(inputs, "alpha", alpha);
    set(inputs, "beta", beta);
  });
}

void add_sizes(std::vector<Case>& cases) {
  cases.push_back(uniform_case("one_element", "1 x 1 x 1", {1, 1, 1}));
  cases.push_back(uniform_case("one_row", "M = 1: bound by reading B", {1, 331, 259}));
  cases.push_back(uniform_case("one_column", "N = 1", {143, 1, 65}));
  cases.push_back(uniform_case("one_step", "K = 1: an outer product", {37, 45, 1}));
  cases.push_back(uniform_case("seven_rows", "few rows, several blocks of columns", {7, 270, 61}));
  for (const std::int64_t M : {1, 2, 4, 7})
    cases.push_back(uniform_case(std::to_string(M) + "_of_few_rows", "rows of B start at 16 bytes, several parts of K, the last one short", {M, 132, 520 + M}));
  cases.push_back(uniform_case("below_every_tile", "3 x 5 x 2", {3, 5, 2}));
  cases.push_back(uniform_case("whole_tiles", "128 x 128 x 32", {128, 128, 32}));
  cases.push_back(uniform_case("one_past_whole_tiles", "129 x 129 x 33", {129, 129, 33}));
  cases.push_back(uniform_case("ragged_tiles_of_whole_fours", "132 x 260 x 36: several large tiles, every row starts at 16 bytes", {132, 260, 36}));
  cases.push_back(uniform_case("one_short_of_whole_tiles", "127 x 127 x 31", {127, 127, 31}));
  cases.push_back(uniform_case("one_past_a_register_tile", "29 x 65 x 17", {29, 65, 17}));
  cases.push_back(uniform_case("long_sum", "K = 1027: past several blocks of k", {15, 17, 1027}));
  cases.push_back(uniform_case("rows_unaligned", "N and K odd: no row but the first starts at 16 bytes", {66, 67, 69}));
  cases.push_back(uniform_case("no_steps", "K = 0: D = beta*C, every element written", {19, 35, 0}));
  cases.push_back(changed("no_steps_no_addend", "K = 0 and beta = 0: zeros", {19, 35, 0}, [](TensorMap& in) { set(in, "beta", 0); fill(in, "C", nan); }));
  cases.push_back(changed("no_steps_alpha_nan", "K = 0: the product is not formed, whatever alpha", {5, 6, 0}, [](TensorMap& in) { set(in, "alpha", nan); }));
  cases.push_back(uniform_case("no_rows", "M = 0", {0, 5, 7}));
  cases.push_back(uniform_case("no_columns", "N = 0", {5, 0, 7}));
  cases.push_back(uniform_case("nothing", "M = N = K = 0", {0, 0, 0}));
}

void add_values(std::vector<Case>& cases) {
  for (const auto& [name, beta] : {std::pair{"beta_zero_c_nan", 0.0f}, {"beta_minus_zero_c_nan", -0.0f}})
    cases.push_back(changed(name, "C is not read: its NaN and Inf stay out", {33, 40, 21}, [beta = beta](TensorMap& in) {
      set(in, "beta", beta);
      fill(in, "C", nan);
      at(in, "C", 3, 4) = inf;
    }));
  for (const auto& [name, alpha] : {std::pair{"alpha_zero_a_b_nan", 0.0f}, {"alpha_minus_zero_a_b_nan", -0.0f}})
    cases.push_back(changed(name, "A and B are not read: D = beta*C", {33, 40, 21}, [alpha = alpha](TensorMap& in) {
      set(in, "alpha", alpha);
      fill(in, "A", nan);
      fill(in, "B", inf);
    }));
  cases.push_back(changed("both_zero_all_nan", "nothing is read: zeros", {33, 40, 21}, [](TensorMap& in) {
    for (const char* name : {"A", "B", "C"}) fill(in, name, nan);
    for (const char* name : {"alpha", "beta"}) set(in, name, 0);
  }));
  cases.push_back(changed("alpha_zero_beta_rounds", "D = beta*C, one rounding", {9, 70, 5}, [](TensorMap& in) { set(in, "alpha", 0); set(in, "beta", 0.1f); }));
  cases.push_back(scaled("plain_product", "alpha 1, beta 0", 1, 0));
  cases.push_back(scaled("accumulate", "alpha 1, beta 1", 1, 1));
  cases.push_back(scaled("subtract", "alpha -1, beta 1", -1, 1));
  cases.push_back(scaled("large_scales", "alpha 1e20, beta -3e19", 1e20f, -3e19f));
  cases.push_back(scaled("small_scales", "alpha 1e-30, beta 1e-35", 1e-30f, 1e-35f));
  cases.push_back(scaled("alpha_nan", "NaN everywhere", nan, -0.5f));
  cases.push_back(scaled("beta_nan", "NaN everywhere", 1.25f, nan));
  cases.push_back(changed("alpha_inf", "every sum is far from 0: Inf of its sign", {18, 34, 20}, [](TensorMap& in) {
    set(in, "alpha", -inf);
    for (float& x : in.at("A").flat<float>()) x = 1 + std::abs(x);
    for (std::int64_t k = 0; k < 20; ++k)
      for (std::int64_t j = 0; j < 34; ++j) at(in, "B", k, j) = (j % 2 ? 1.0f : -1.0f) * (1 + std::abs(at(in, "B", k, j)));
  }));
  cases.push_back(changed("beta_inf", "Inf of C's sign, NaN where C is 0", {18, 34, 20}, [](TensorMap& in) {
    set(in, "beta", inf);
    at(in, "C", 17, 33) = 0;
    at(in, "C", 0, 5) = -0.0f;
  }));
  cases.push_back(changed("c_special", "NaN and Inf in C reach their element alone", {18, 34, 20}, [](TensorMap& in) {
    at(in, "C", 17, 33) = nan;
    at(in, "C", 0, 0) = inf;
    at(in, "C", 5, 32) = -inf;
  }));
  // The last row and column lie at a ragged edge of every tile: padding of one operand meets Inf of the other there.
  for (const auto& [M, N, K] : {std::array<std::int64_t, 3>{29, 33, 17}, {131, 67, 35}, {7, 129, 19}, {1, 65, 5}}) {
    const Sizes sizes{M, N, K};
    const std::string shape = "_" + std::to_string(M) + "x" + std::to_string(N) + "x" + std::to_string(K);
    cases.push_back(changed("inf_in_the_last_row" + shape, "the other rows stay finite", sizes, [sizes](TensorMap& in) { at(in, "A", sizes.M - 1, sizes.K - 1) = inf; }));
    cases.push_back(changed("inf_in_the_last_column" + shape, "the other columns stay finite", sizes, [sizes](TensorMap& in) { at(in, "B", sizes.K - 1, sizes.N - 1) = -inf; }));
    cases.push_back(changed("nan_in_the_middle" + shape, "one row of A and one column of B", sizes, [sizes](TensorMap& in) {
      at(in, "A", sizes.M / 2, 0) = nan;
      at(in, "B", sizes.K / 2, sizes.N / 2) = nan;
    }));
  }
  cases.push_back(changed("zero_times_inf", "NaN, and Inf of either sign beside it", {20, 33, 24}, [](TensorMap& in) {
    for (std::int64_t i = 0; i < 20; i += 2) at(in, "A", i, 7) = 0;
    at(in, "B", 7, 32) = inf;
  }));
  cases.push_back(changed("inf_minus_inf", "two Inf of opposite sign in one row", {20, 33, 24}, [](TensorMap& in) {
    at(in, "A", 3, 0) = inf;
    at(in, "A", 3, 23) = -inf;
    for (std::int64_t j = 0; j < 33; ++j) at(in, "B", 0, j) = at(in, "B", 23, j) = 1;
  }));
  cases.push_back(changed("cancelling_rows", "terms of 1e4 that cancel to about 1: the tolerance scales with S", {24, 40, 200}, [](TensorMap& in) {
    for (std::int64_t i = 0; i < 24; ++i)
      for (std::int64_t k = 0; k + 1 < 200; k += 2) at(in, "A", i, k + 1) = -(at(in, "A", i, k) *= 1e4f) + 0.01f;
    for (std::int64_t k = 0; k + 1 < 200; k += 2)
      for (std::int64_t j = 0; j < 40; ++j) at(in, "B", k + 1, j) = at(in, "B", k, j);
  }));
  cases.push_back(changed("near_overflow", "sums of 1e37: finite in any order", {14, 33, 30}, [](TensorMap& in) { for (float& x : in.at("A").flat<float>()) x *= 1e37f; }));
  cases.push_back(changed("subnormal_results", "results below 2^-126 may be flushed", {14, 33, 30}, [](TensorMap& in) {
    for (float& x : in.at("A").flat<float>()) x *= 1e-39f;
    for (float& x : in.at("C").flat<float>()) x *= 1e-39f;
  }));
  for (const auto& [M, N, K] : {std::array<std::int64_t, 3>{33, 17, 64}, {65, 97, 130}, {2, 3, 4097}, {1, 40, 300}})
    cases.push_back({"exact_" + std::to_string(M) + "x" + std::to_string(N) + "x" + std::to_string(K), "integers of 12 bits: f32 loses nothing, TF32 and f16 do",
                     [sizes = Sizes{M, N, K}](Random& random) { return exact_inputs(random, sizes); }});
  cases.push_back({"exact_identity", "A is the identity with 2^24 - 1 on its diagonal: a transposed or shifted B shows", [](Random& random) {
                     TensorMap inputs = exact_inputs(random, {48, 33, 48});
                     fill(inputs, "A", 0);
                     for (std::int64_t i = 0; i < 48; ++i) at(inputs, "A", i, i) = static_cast<float>((1 << 24) - 17 - i);
                     return inputs;
                   }});
}

// ---- rejections ----

/// A valid input, changed.
Case broken(std::string name, std::string note, std::function<void(TensorMap&)> change) { return changed(std::move(name), std::move(note), {6, 5, 4}, std::move(change)); }

std::function<void(TensorMap&)> replace(std::string name, Dtype dtype, Shape shape) {
  return [=](TensorMap& inputs) { inputs.at(name) = Tensor(dtype, shape); };
}

void add_rejections(std::vector<Case>& cases) {
  for (const char* name : {"A", "B", "C", "alpha", "beta"})
    cases.push_back(broken(std::string("missing_") + name, "missing_tensor", [name](TensorMap& inputs) { inputs.erase(name); }));
  cases.push_back(broken("missing_c_though_beta_is_0", "missing_tensor: C is always present", [](TensorMap& inputs) {
    set(inputs, "beta", 0);
    inputs.erase("C");
  }));
  cases.push_back(broken("unknown_bias", "unknown_tensor", [](TensorMap& inputs) { inputs.add("bias", Tensor(Dtype::f32, {5})); }));
  cases.push_back(broken("a_is_f16", "wrong_dtype", replace("A", Dtype::f16, {6, 4})));
  cases.push_back(broken("b_is_f64", "wrong_dtype", replace("B", Dtype::f64, {4, 5})));
  cases.push_back(broken("c_is_bf16", "wrong_dtype", replace("C", Dtype::bf16, {6, 5})));
  cases.push_back(broken("alpha_is_f64", "wrong_dtype", replace("alpha", Dtype::f64, {})));
  cases.push_back(broken("a_is_a_vector", "wrong_rank", replace("A", Dtype::f32, {24})));
  cases.push_back(broken("b_of_rank_3", "wrong_rank", replace("B", Dtype::f32, {1, 4, 5})));
  cases.push_back(broken("beta_is_a_vector", "wrong_rank", replace("beta", Dtype::f32, {1})));
  cases.push_back(broken("k_of_b_differs", "dim_mismatch: K", replace("B", Dtype::f32, {3, 5})));
  cases.push_back(broken("b_is_transposed", "dim_mismatch: K", replace("B", Dtype::f32, {5, 4})));
  cases.push_back(broken("m_of_c_differs", "dim_mismatch: M", replace("C", Dtype::f32, {7, 5})));
  cases.push_back(broken("n_of_c_differs", "dim_mismatch: N", replace("C", Dtype::f32, {6, 4})));
  cases.push_back({"mismatch_though_empty", "dim_mismatch with M = 0", [](Random& random) {
                     TensorMap inputs = uniform_inputs(random, {0, 5, 4});
                     inputs.at("B") = Tensor(Dtype::f32, {3, 5});
                     return inputs;
                   }});
}

}  // namespace

TensorMap uniform_inputs(Random& random, const Sizes& s) {
  TensorMap inputs;
  inputs.add("A", uniform(random, {s.M, s.K}));
  inputs.add("B", uniform(random, {s.K, s.N}));
  inputs.add("C", uniform(random, {s.M, s.N}));
  inputs.add("alpha", Tensor::scalar(1.25f));
  inputs.add("beta", Tensor::scalar(-0.5f));
  return inputs;
}

TensorMap exact_inputs(Random& random, const Sizes& s) {
  const std::int64_t most = std::min<std::int64_t>(4095, ((std::int64_t{1} << 24) - 16) / std::max<std::int64_t>(s.K, 1));
  TensorMap inputs;
  inputs.add("A", integers(random, {s.M, s.K}, static_cast<std::int32_t>(most)));
  inputs.add("B", integers(random, {s.K, s.N}, 1));
  inputs.add("C", integers(random, {s.M, s.N}, 8));
  inputs.add("alpha", Tensor::scalar(1.0f));
  inputs.add("beta", Tensor::scalar(-2.0f));
  return inputs;
}

TensorMap random_inputs(Random& random) {
  const auto extent = [&](std::int64_t most) { return random.chance(0.04) ? 0 : random.chance(0.1) ? 1 : random.between(1, most); };
  const Sizes sizes{extent(60), extent(90), random.chance(0.2) ? random.between(250, 530) : extent(70)};
  if (random.chance(0.3)) return exact_inputs(random, sizes);
  TensorMap inputs = uniform_inputs(random, sizes);
  const float scales[] = {0, -0.0f, 1, -1, 1.25f, -0.5f};
  for (const char* name : {"alpha", "beta"}) set(inputs, name, random.chance(0.7) ? scales[random.below(6)] : static_cast<float>(random.uniform(-3, 3)));
  const float special[] = {inf, -inf, nan};
  for (const char* name : {"A", "B", "C"})
    if (auto values = inputs.at(name).flat<float>(); !values.empty() && random.chance(0.2)) {
      const auto at = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(values.size())));
      values[at] = special[random.below(3)];
    }
  return inputs;
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  add_sizes(cases);
  add_values(cases);
  add_rejections(cases);
  return cases;
}

}  // namespace faibench::sgemm_register_blocktiling
