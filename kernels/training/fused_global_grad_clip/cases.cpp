// The fixed cases of fused_global_grad_clip, and its random ones.
#include <cmath>
#include <limits>

#include "kernels/training/fused_global_grad_clip/fused_global_grad_clip.h"

namespace faibench::fused_global_grad_clip {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
constexpr double unbounded = std::numeric_limits<double>::infinity();

Tensor tensor_of(Dtype dtype, const std::vector<float>& values) {
  Tensor tensor(dtype, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == Dtype::f32) tensor.flat<float>()[i] = values[i];
    else tensor.flat<bf16>()[i] = to_bf16(values[i]);
  }
  return tensor;
}

std::vector<float> normals(Random& random, std::int64_t n, float sigma) {
  std::vector<float> values(static_cast<std::size_t>(n));
  random.fill_normal(values, 0, sigma);
  return values;
}

std::vector<std::int64_t> offsets_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> offsets = {0};
  for (std::int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

struct Setting {
  std::vector<std::int64_t> lengths;
  double max_norm = 1;
  float sigma = 1;
  bool error_if_nonfinite = false;
  std::function<void(std::vector<float>&)> change = {};
};

/// The same in both dtypes.
void add(std::vector<Case>& cases, const std::string& name, const std::string& note, const Setting& setting) {
  for (Dtype dtype : {Dtype::f32, Dtype::bf16})
    cases.push_back({name + "_" + std::string(name_of(dtype)), note, [=](Random& random) {
                       const auto offsets = offsets_of(setting.lengths);
                       std::vector<float> values = normals(random, offsets.back(), setting.sigma);
                       if (setting.change) setting.change(values);
                       return clip_input(tensor_of(dtype, values), offsets, setting.max_norm, setting.error_if_nonfinite);
                     }});
}

std::function<void(std::vector<float>&)> all(float value) {
  return [=](std::vector<float>& values) { values.assign(values.size(), value); };
}
std::function<void(std::vector<float>&)> at(std::vector<std::pair<std::size_t, float>> changes) {
  return [=](std::vector<float>& values) {
    for (const auto& [i, value] : changes) values.at(i) = value;
  };
}

void add_shapes(std::vector<Case>& cases) {
  add(cases, "no_tensors", "K = 0", {{}});
  add(cases, "no_elements", "G = 0, three empty tensors", {{0, 0, 0}});
  add(cases, "no_elements_strict", "an empty norm is finite", {{0, 0}, 0, 1, true});
  add(cases, "empty_front", "", {{0, 0, 70, 3}});
  add(cases, "empty_middle", "", {{70, 0, 0, 3}});
  add(cases, "empty_last", "", {{70, 3, 0, 0}});
  add(cases, "one_element", "", {{1}, 0.001});
  for (std::int64_t n : {2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 1025}) add(cases, "length_" + std::to_string(n), "not a vector multiple, tensors without alignment", {{n, 1, n, 3, n + 1}});
  add(cases, "many_tensors", "", {std::vector<std::int64_t>(500, 5), 2});
  add(cases, "several_threads", "a segment border within a tensor, ragged ends", {{33'333, 1, 240'001, 0, 12}, 3});
}

void add_bounds(std::vector<Case>& cases) {
  add(cases, "not_clipped", "bits stay: -0, subnormals", {{40, 60}, 1e4, 1, false, at({{0, -0.0f}, {1, 1e-40f}, {2, -3e-45f}, {50, 0.0f}})});
  add(cases, "not_clipped_strict", "", {{40, 60}, 1e4, 1, true});
  add(cases, "at_the_bound", "T = max_norm is a scaling by 1 - 1e-6/T", {{4, 12}, 4, 1, false, all(1)});
  add(cases, "at_a_small_bound", "T = max_norm = 1e-3: the 1e-6 counts", {{16}, 1e-3, 1, false, all(2.44140625e-4f)});
  add(cases, "just_above_the_bound", "c = 1 + 2e-5", {{16}, 4.000081, 1, false, all(1)});
  add(cases, "zero_norm", "T = 0", {{5, 0, 9}, 1, 0});
  add(cases, "zero_norm_zero_bound", "0 / 1e-6", {{5, 9}, 0, 0});
  add(cases, "tiny_norm_tiny_bound", "the 1e-6 dominates", {{20}, 1e-9, 1e-8f});
  add(cases, "zero_bound", "everything 0", {{20, 100}, 0});
  add(cases, "minus_zero_bound", "counts as 0", {{20, 100}, -0.0});
  add(cases, "no_bound", "max_norm = Inf measures only", {{20, 100}, unbounded});
  add(cases, "own_norms_below", "each tensor below the bound, all together above", {std::vector<std::int64_t>(10, 10), 5});
}

void add_values(std::vector<Case>& cases) {
  add(cases, "large", "squares past f32", {{100, 33}, 1, 1, false, all(1e25f)});
  add(cases, "small", "squares below f32", {{100, 33}, 1e-29, 1, false, all(1e-30f)});
  add(cases, "small_not_clipped", "", {{100, 33}, 1, 1, false, all(1e-30f)});
  add(cases, "subnormal", "", {{64, 33}, 1e-7, 1, false, all(1e-39f)});
  add(cases, "norm_past_f32", "T finite, total_norm Inf", {{40, 1}, 1, 1, false, all(3e38f)});
  add(cases, "norm_past_f32_strict", "does not count as infinite", {{40, 1}, 1, 1, true, all(3e38f)});
  add(cases, "norm_past_f32_not_clipped", "the factor uses T before it is rounded", {{40, 1}, 1e40, 1, true, all(3e38f)});
  add(cases, "factor_below_f32", "the product is finite, the factor no f32", {{40}, 1e-20, 1, false, all(1e30f)});
  add(cases, "one_large", "among 1e5 small ones", {{50'000, 50'000}, 1, 1e-6f, false, at({{77'777, 1e4f}})});
  add(cases, "inf", "finite elements become 0, infinite ones NaN", {{30, 40, 50}, 1, 1, false, at({{35, inf}, {36, -inf}})});
  add(cases, "inf_no_bound", "Inf / Inf: everything NaN", {{30, 40, 50}, unbounded, 1, false, at({{35, inf}})});
  add(cases, "inf_zero_bound", "c = 0", {{30, 40}, 0, 1, false, at({{35, -inf}})});
  add(cases, "nan", "every element of every tensor becomes NaN, other norms stay finite", {{30, 40, 50}, 1, 1, false, at({{35, nan}})});
  add(cases, "nan_no_bound", "", {{30, 40, 50}, unbounded, 1, false, at({{119, -nan}})});
  add(cases, "nan_large_bound", "no way around", {{30, 40, 50}, 1e300, 1, false, at({{0, nan}})});
  add(cases, "nan_and_inf", "", {{30, 40, 50}, 1, 1, false, at({{0, nan}, {100, inf}})});
}

void add_invalid(std::vector<Case>& cases) {
  add(cases, "negative_bound", "bad_max_norm", {{5, 5}, -1});
  add(cases, "nan_bound", "bad_max_norm", {{5, 5}, std::numeric_limits<double>::quiet_NaN()});
  add(cases, "minus_infinite_bound", "bad_max_norm", {{5, 5}, -unbounded});
  add(cases, "negative_bound_first", "before a norm that is not finite", {{5, 5}, -1e-300, 1, true, at({{3, nan}})});
  add(cases, "strict_nan", "nonfinite_norm: tensor 2", {{20, 0, 30, 10}, 1, 1, true, at({{20, nan}})});
  add(cases, "strict_inf", "nonfinite_norm: the last element", {{20, 30}, 1, 1, true, at({{49, -inf}})});
  add(cases, "strict_both", "nonfinite_norm", {{20, 30}, unbounded, 1, true, at({{0, inf}, {49, nan}})});
  add(cases, "strict_large", "nonfinite_norm after several segments", {{70'000, 70'001}, 1, 1, true, at({{140'000, nan}})});
  const auto invalid = [&](std::string name, std::string note, std::function<void(TensorMap&)> damage) {
    cases.push_back({std::move(name), std::move(note), [=](Random& random) {
                       TensorMap inputs = clip_input(tensor_of(Dtype::f32, normals(random, 10, 1)), {0, 4, 10}, 1, false);
                       damage(inputs);
                       return inputs;
                     }});
  };
  invalid("no_grads", "missing_tensor", [](TensorMap& in) { in.erase("grads"); });
  invalid("extra_tensor", "unknown_tensor", [](TensorMap& in) { in.add("norm_type", Tensor::scalar(2.0)); });
  invalid("grads_of_f64", "wrong_dtype", [](TensorMap& in) { in.at("grads") = Tensor(Dtype::f64, {10}); });
  invalid("bound_of_f32", "wrong_dtype", [](TensorMap& in) { in.at("max_norm") = Tensor::scalar(1.0f); });
  invalid("grads_of_rank_2", "wrong_rank", [](TensorMap& in) { in.at("grads") = Tensor(Dtype::f32, {2, 5}); });
  invalid("bound_of_rank_1", "wrong_rank", [](TensorMap& in) { in.at("max_norm") = Tensor(Dtype::f64, {1}); });
  for (const auto& [name, offsets] : std::vector<std::pair<std::string, std::vector<std::int64_t>>>{
           {"no_offsets", {}}, {"offsets_start", {1, 4, 10}}, {"offsets_fall", {0, 6, 4, 10}}, {"offsets_short", {0, 4, 9}}, {"offsets_long", {0, 4, 11}}})
    invalid(name, "bad_offsets", [offsets = offsets](TensorMap& in) { in.at("offsets") = Tensor::of({static_cast<std::int64_t>(offsets.size())}, offsets); });
}

}  // namespace

TensorMap clip_input(Tensor grads, std::vector<std::int64_t> offsets, double max_norm, bool error_if_nonfinite) {
  TensorMap inputs;
  inputs.add("grads", std::move(grads));
  inputs.add("offsets", Tensor::of({static_cast<std::int64_t>(offsets.size())}, offsets));
  inputs.add("max_norm", Tensor::scalar(max_norm));
  inputs.add("error_if_nonfinite", Tensor::boolean(error_if_nonfinite));
  return inputs;
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  add_shapes(cases);
  add_bounds(cases);
  add_values(cases);
  add_invalid(cases);
  return cases;
}

TensorMap random_input(Random& random) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t k = random.between(0, 12); k > 0; --k) lengths.push_back(random.chance(0.2) ? 0 : random.between(1, random.chance(0.1) ? 5000 : 100));
  const auto offsets = offsets_of(lengths);
  const float sigma = std::ldexp(1.0f, static_cast<int>(random.between(-120, 80)));
  std::vector<float> values = normals(random, offsets.back(), sigma);
  if (!values.empty() && random.chance(0.15)) values[static_cast<std::size_t>(random.below(offsets.back()))] = random.chance(0.5) ? nan : inf;
  double max_norm = random.chance(0.1) ? 0 : random.chance(0.1) ? unbounded : random.uniform(0, 30) * (random.chance(0.7) ? sigma : 1);
  return clip_input(tensor_of(random.chance(0.5) ? Dtype::f32 : Dtype::bf16, values), offsets, max_norm, false);
}

}  // namespace faibench::fused_global_grad_clip
