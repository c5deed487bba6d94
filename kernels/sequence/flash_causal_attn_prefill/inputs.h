// Input sets of flash_causal_attn_prefill: the workloads' distribution, the fixed cases, random ones.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "task/task.h"

namespace faibench::flash_causal_attn_prefill {

struct Sizes {
  std::int64_t B = 1, Lq = 0, Lk = 0, H = 1, Hk = 1, D = 8;
  Dtype dtype = Dtype::f32;
  bool causal = true;
  std::optional<float> scale = {};  ///< D^-0.5 if empty
};

/// k, v ~ N(0,1); q[i] = k[t(i)] + N(0,1) with t(i) uniform over the keys that query i sees (q[i] ~ N(0,1) where it sees none).
TensorMap peaked_inputs(Random& random, const Sizes& sizes);
/// A small valid input: any dtype, either mask, any grouping, Lq and Lk apart.
TensorMap random_inputs(Random& random);
/// The fixed cases: edges, adversarial values, rejections.
std::vector<Case> cases();

}  // namespace faibench::flash_causal_attn_prefill
