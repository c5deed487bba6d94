#include "kernels/linalg/lora_adapter_apply/inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace faibench::lora_adapter_apply {
namespace {

TensorMap zero_inputs(const Sizes& s, float scale) {
  TensorMap inputs;
  inputs.add("x", Tensor(Dtype::f32, {s.T, s.I}));
  inputs.add("W", Tensor(Dtype::f32, {s.O, s.I}));
  inputs.add("A", Tensor(Dtype::f32, {s.R, s.I}));
  inputs.add("B", Tensor(Dtype::f32, {s.O, s.R}));
  inputs.add("scale", Tensor::scalar(scale));
  return inputs;
}

void fill_integers(Random& random, std::span<float> out, std::int32_t most) {
  std::vector<std::int32_t> integers(out.size());
  random.fill_below(integers, 2 * most + 1);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(integers[i] - most);
}

}  // namespace

TensorMap uniform_inputs(Random& random, const Sizes& sizes, float scale) {
  TensorMap inputs = zero_inputs(sizes, scale);
  for (const char* name : {"x", "W", "A", "B"}) random.fill_uniform(inputs.at(name).flat<float>(), -1, 1);
  return inputs;
}

TensorMap layer_inputs(Random& random, const Sizes& sizes) {
  TensorMap inputs = zero_inputs(sizes, 2);
  const float fan_in = 1 / std::sqrt(static_cast<float>(std::max<std::int64_t>(sizes.I, 1)));
  random.fill_normal(inputs.at("x").flat<float>());
  random.fill_normal(inputs.at("W").flat<float>(), 0, fan_in);
  random.fill_normal(inputs.at("A").flat<float>(), 0, fan_in);
  random.fill_normal(inputs.at("B").flat<float>(), 0, 0.1f);
  return inputs;
}

TensorMap exact_inputs(Random& random, const Sizes& sizes) {
  TensorMap inputs = zero_inputs(sizes, 2);
  const std::int64_t most = std::min<std::int64_t>(4095, (std::int64_t{1} << 24) / std::max<std::int64_t>(1, sizes.I + 2 * sizes.R));
  fill_integers(random, inputs.at("x").flat<float>(), static_cast<std::int32_t>(most));
  fill_integers(random, inputs.at("W").flat<float>(), 1);
  fill_integers(random, inputs.at("B").flat<float>(), 1);
  const std::vector<std::int64_t> column = random.permutation(sizes.I);
  auto A = inputs.at("A").view<float, 2>();
  for (std::int64_t r = 0; r < sizes.R && sizes.I > 0; ++r) A(r, column[static_cast<std::size_t>(r % sizes.I)]) = random.chance(0.5) ? 1.0f : -1.0f;
  return inputs;
}

namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

using Change = void (*)(TensorMap&);

Case uniform(const char* name, const char* note, Sizes sizes, float scale = 2, Change change = nullptr) {
  return {name, note, [=](Random& random) {
            TensorMap inputs = uniform_inputs(random, sizes, scale);
            if (change) change(inputs);
            return inputs;
          }};
}
Case layer(const char* name, const char* note, Sizes sizes) {
  return {name, note, [=](Random& random) { return layer_inputs(random, sizes); }};
}
Case exact(const char* name, const char* note, Sizes sizes, Change change = nullptr) {
  return {name, note, [=](Random& random) {
            TensorMap inputs = exact_inputs(random, sizes);
            if (change) change(inputs);
            return inputs;
          }};
}
/// An invalid input, made from a valid one.
Case invalid(const char* name, const char* note, Change change, Sizes sizes = {4, 6, 5, 2}) { return uniform(name, note, sizes, 2, change); }

// W = -scale * B@A, so that y is the rounding errors of both.
void cancel(TensorMap& inputs) {
  auto W = inputs.at("W").view<float, 2>();
  const auto A = inputs.at("A").view<float, 2>(), B = inputs.at("B").view<float, 2>();
  const double scale = static_cast<double>(inputs.at("scale").ref().scalar<float>());
  for (std::int64_t o = 0; o < W.extent(0); ++o)
    for (std::int64_t i = 0; i < W.extent(1); ++i) {
      double sum = 0;
      for (std::int64_t r = 0; r < A.extent(0); ++r) sum += static_cast<double>(B(o, r)) * static_cast<double>(A(r, i));
      W(o, i) = static_cast<float>(-scale * sum);
    }
}

void valid_cases(std::vector<Case>& all) {
  all.push_back(uniform("typical", "24 tokens, 48 to 40, rank 8", {24, 48, 40, 8}));
  all.push_back(layer("layer", "the distribution of the workloads", {37, 130, 77, 16}));
  all.push_back(uniform("rank_zero", "no adapter: y = x@W^T", {5, 17, 9, 0}));
  all.push_back(uniform("rank_one", "R = 1", {7, 33, 19, 1}));
  all.push_back(uniform("rank_above_both", "R larger than I and O", {6, 5, 7, 40}));
  all.push_back(uniform("one_token", "T = 1", {1, 100, 70, 4}));
  all.push_back(uniform("seven_tokens", "bound by reading W", {7, 90, 130, 8}));
  all.push_back(uniform("one_output", "O = 1", {40, 50, 1, 3}));
  all.push_back(uniform("one_input", "I = 1", {18, 1, 21, 2}));
  all.push_back(uniform("all_ones", "T = I = O = R = 1", {1, 1, 1, 1}));
  all.push_back(uniform("no_tokens", "T = 0", {0, 6, 5, 2}));
  all.push_back(uniform("no_outputs", "O = 0", {4, 6, 0, 2}));
  all.push_back(uniform("no_inputs", "I = 0: y is zero", {4, 0, 5, 2}));
  all.push_back(uniform("no_inputs_no_adapter", "I = R = 0: y is zero", {4, 0, 5, 0}));
  all.push_back(uniform("inner_not_a_multiple", "I + R = 33 + 7", {19, 33, 34, 7}));
  all.push_back(uniform("square", "R = I = O, unsymmetric data: swapped roles of A and B show", {15, 17, 17, 17}));
  all.push_back(uniform("ragged_tiles", "one more than 14, 32 and 64 in each dimension", {15, 65, 33, 5}));
  all.push_back(uniform("long_inner", "I + R = 1027 + 18", {5, 1027, 9, 18}));
  all.push_back(uniform("several_large_tiles", "one more than 2 x 128 outputs and tokens", {129, 20, 257, 3}));
  all.push_back(uniform("scale_zero", "y = x@W^T", {9, 20, 12, 4}, 0));
  all.push_back(uniform("scale_negative", "scale = -0.75", {9, 20, 12, 4}, -0.75f));
  all.push_back(uniform("scale_tiny", "the correction is below rounding", {9, 20, 12, 4}, 1e-30f));
  all.push_back(uniform("scale_large", "the correction is nearly all", {9, 20, 12, 4}, 1e30f));
  all.push_back(uniform("cancels", "W = -scale*B@A: y near zero, S large", {21, 40, 35, 6}, 2, cancel));
  all.push_back(uniform("nan_token", "NaN in one token, in a ragged last row", {33, 18, 35, 4}, 2, [](TensorMap& in) { in.at("x").view<float, 2>()(32, 17) = nan; }));
  all.push_back(uniform("inf_token", "Inf of both signs in two tokens", {33, 18, 35, 4}, 2, [](TensorMap& in) {
    in.at("x").view<float, 2>()(14, 0) = inf;
    in.at("x").view<float, 2>()(31, 5) = -inf;
  }));
  all.push_back(uniform("inf_in_w", "Inf in one row of W, NaN in another", {17, 18, 35, 4}, 2, [](TensorMap& in) {
    in.at("W").view<float, 2>()(34, 3) = inf;
    in.at("W").view<float, 2>()(0, 17) = nan;
  }));
  all.push_back(uniform("inf_token_no_adapter", "Inf stays Inf where there is no adapter", {6, 9, 20, 0}, 2, [](TensorMap& in) { in.at("x").view<float, 2>()(3, 4) = inf; }));
  all.push_back(uniform("inf_times_zero", "Inf in x meets zeros in A: NaN", {6, 9, 20, 2}, 2, [](TensorMap& in) {
    in.at("x").view<float, 2>()(3, 4) = inf;
    in.at("A").view<float, 2>()(1, 4) = 0;
  }));
  all.push_back(uniform("overflow", "elements of S >= 2^127 beside ordinary ones", {8, 12, 20, 3}, 2, [](TensorMap& in) {
    for (std::int64_t i = 0; i < 12; ++i) in.at("x").view<float, 2>()(2, i) = 1e30f, in.at("W").view<float, 2>()(5, i) = 1e20f;
  }));
  all.push_back(exact("exact_integers", "no form rounds", {33, 65, 70, 5}));
  all.push_back(exact("exact_rank_above_inputs", "several rows of A share a column", {9, 4, 11, 9}));
  all.push_back(exact("exact_small_correction", "a correction of one unit: dropped below some threshold it is wrong", {12, 64, 20, 3}, [](TensorMap& in) {
    for (float& b : in.at("B").flat<float>()) b = 0;
    in.at("B").view<float, 2>()(7, 1) = 1;
    in.at("scale") = Tensor::scalar(1.0f);
    for (std::int64_t t = 0; t < 12; ++t)
      for (std::int64_t i = 0; i < 64; ++i)
        if (in.at("A").view<float, 2>()(1, i) != 0) in.at("x").view<float, 2>()(t, i) = 1;
  }));
}

void invalid_cases(std::vector<Case>& all) {
  all.push_back(invalid("missing_b", "no B", [](TensorMap& in) { in.erase("B"); }));
  all.push_back(invalid("unknown_tensor", "an alpha nobody knows", [](TensorMap& in) { in.add("alpha", Tensor::scalar(1.0f)); }));
  all.push_back(invalid("x_is_f64", "another dtype", [](TensorMap& in) { in.at("x") = Tensor(Dtype::f64, {4, 6}); }));
  all.push_back(invalid("a_is_vector", "another rank", [](TensorMap& in) { in.at("A") = Tensor(Dtype::f32, {12}); }));
  all.push_back(invalid("scale_is_vector", "another rank", [](TensorMap& in) { in.at("scale") = Tensor(Dtype::f32, {1}); }));
  all.push_back(invalid("w_inputs_differ", "I of W", [](TensorMap& in) { in.at("W") = Tensor(Dtype::f32, {5, 7}); }));
  all.push_back(invalid("a_inputs_differ", "I of A", [](TensorMap& in) { in.at("A") = Tensor(Dtype::f32, {2, 5}); }));
  all.push_back(invalid("ranks_differ", "R of B", [](TensorMap& in) { in.at("B") = Tensor(Dtype::f32, {5, 3}); }));
  all.push_back(invalid("outputs_differ", "O of B", [](TensorMap& in) { in.at("B") = Tensor(Dtype::f32, {6, 2}); }));
  all.push_back(invalid("scale_nan", "bad_scale", [](TensorMap& in) { in.at("scale") = Tensor::scalar(nan); }));
  all.push_back(invalid("scale_infinite", "bad_scale before bad_adapter", [](TensorMap& in) {
    in.at("scale") = Tensor::scalar(-inf);
    in.at("A").flat<float>()[0] = nan;
  }));
  all.push_back(invalid("nan_in_a", "bad_adapter", [](TensorMap& in) { in.at("A").flat<float>()[7] = nan; }));
  all.push_back(invalid("inf_in_b", "bad_adapter", [](TensorMap& in) { in.at("B").flat<float>()[9] = -inf; }));
  all.push_back(invalid("bad_in_both", "A is named before B", [](TensorMap& in) {
    in.at("A").flat<float>()[11] = inf;
    in.at("B").flat<float>()[0] = nan;
  }));
  all.push_back(invalid("bad_with_scale_zero", "a bad adapter is bad where it is not used, too", [](TensorMap& in) {
    in.at("scale") = Tensor::scalar(0.0f);
    in.at("B").flat<float>()[3] = nan;
  }));
  all.push_back(invalid("bad_without_tokens", "T = 0, A bad", [](TensorMap& in) { in.at("A").flat<float>()[2] = nan; }, {0, 6, 5, 2}));
  all.push_back(invalid("bad_without_inputs", "I = 0, B bad", [](TensorMap& in) { in.at("B").flat<float>()[9] = nan; }, {4, 0, 5, 2}));
  all.push_back(invalid("bad_far_inside", "the last element of a longer A", [](TensorMap& in) { in.at("A").flat<float>().back() = nan; }, {3, 301, 4, 9}));
}

}  // namespace

std::vector<Case> cases() {
  std::vector<Case> all;
  valid_cases(all);
  invalid_cases(all);
  return all;
}

}  // namespace faibench::lora_adapter_apply
