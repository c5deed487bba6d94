// A task with every feature a contract knows: optional, in-place and ragged inputs, a conditional output and one of data-dependent length.
#pragma once
#include "task/task.h"

namespace faibench::testing_support {

/// Adds `bonus` (if given) to every value above `threshold`, keeps those, counts them per group, and adds the counts to `totals` in place.
/// A negative threshold is rejected by the runner, a NaN value by the variant.
inline Rejected keep_above(View<const float, 1> values, View<const std::int64_t, 1> offsets, std::optional<View<const float, 1>> bonus, float threshold,
                           View<std::int64_t, 1> totals, View<float, 1> kept, std::optional<View<float, 1>> used, Length& K) {
  for (std::int64_t i = 0; i < values.extent(0); ++i)
    if (values[i] != values[i]) return reject("nan_value", "values", i, "nan", "values are numbers");
  for (std::int64_t g = 0; g + 1 < offsets.extent(0); ++g) {
    for (std::int64_t i = offsets[g]; i < offsets[g + 1]; ++i) {
      if (!(values[i] > threshold)) continue;
      kept[K.value++] = values[i] + (bonus ? (*bonus)[g] : 0.0f);
      ++totals[g];
    }
    if (used) (*used)[g] = (*bonus)[g];
  }
  return std::nullopt;
}

inline Contract fake_contract() {
  Contract contract;
  contract.input("values", {Dtype::f32}, {"N"}, "what is filtered", "any, not NaN");
  contract.input("offsets", {Dtype::i64}, {"G+1"}, "groups of values").last_offset = Extent("N");
  contract.input("bonus", {Dtype::f32}, {"G"}, "added to a group's kept values").optional = true;
  contract.input("threshold", {Dtype::f32}, {}, "kept if above it", ">= 0");
  contract.input("totals", {Dtype::i64}, {"G"}, "running counts").in_place = true;
  contract.output("kept", {Dtype::f32}, {"N"}, "values above the threshold, in order").length = "K";
  TensorSpec& used = contract.output_like("used", "bonus", {"G"}, "the bonus of each group");
  used.condition = "bonus is given";
  used.exists = [](const TensorRefMap& inputs) { return inputs.find("bonus") != nullptr; };
  contract.rule("negative_threshold", "threshold < 0", CheckedBy::runner, [](const TensorRefMap& inputs) -> Rejected {
    const float threshold = inputs.at("threshold").scalar<float>();
    if (!(threshold < 0)) return std::nullopt;
    return reject("negative_threshold", "threshold", -1, std::to_string(threshold), "it must not be negative");
  });
  contract.rule("nan_value", "a value is NaN", CheckedBy::variant, [](const TensorRefMap& inputs) -> Rejected {
    const auto values = inputs.at("values").flat<const float>();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != values[i]) return reject("nan_value", "values", static_cast<std::int64_t>(i), "nan", "values are numbers");
    return std::nullopt;
  });
  return contract;
}

inline Kernel fake_kernel() {
  return Kernel({bind(keep_above, {"values", "offsets", "bonus", "threshold", "totals", "kept", "used", "K"})});
}

/// values {3, 1, 4, 1, 5} in groups of 2 and 3, threshold 2, totals {10, 20}.
inline TensorMap fake_inputs() {
  TensorMap inputs;
  inputs.add("values", Tensor::of<float>({5}, {3, 1, 4, 1, 5}));
  inputs.add("offsets", Tensor::of<std::int64_t>({3}, {0, 2, 5}));
  inputs.add("threshold", Tensor::scalar(2.0f));
  inputs.add("totals", Tensor::of<std::int64_t>({2}, {10, 20}));
  return inputs;
}

}  // namespace faibench::testing_support
