// Advantage of every response over its own group, by GRPO (z-score) or RLOO (leave-one-out): the one signature of all variants.
#pragma once
#include <string_view>

#include "tensor/half.h"
#include "tensor/view.h"

namespace faibench::grpo_rloo_advantage {

/// Scores rows by the sum of all their rewards (masked ones too, in f64, from t = 0 upwards), compares each with its group, and broadcasts the result over the mask.
///   token_level_rewards [B, L]  any value; NaN and infinities poison their own group, as IEEE arithmetic has it
///   response_mask [B, L]        tokens that get the advantage; others get 0, or NaN where the advantage is not finite
///   index [B]                   group of each row, any values in any order
///   estimator                   "grpo": (s - mean)/(std + epsilon), sample deviation; a group of one row has mean 0 and std 1. "rloo": s minus the mean of the others; alone, s
///   epsilon, norm_by_std        grpo only; without norm_by_std rows are centred alone
///   advantages, returns [B, L]  the same values twice
/// Equal finite scores give exactly 0 (0/0 with epsilon = 0). Checked before the call: estimator, and epsilon finite and >= 0.
/// Moves 13*B*L bytes. Thread-safe; outputs may not alias inputs or each other. Source: verl, core_algos.
namespace reference {
void estimate(View<const float, 2> token_level_rewards, View<const Bool8, 2> response_mask, View<const std::int64_t, 1> index, std::string_view estimator, double epsilon, bool norm_by_std,
              View<float, 2> advantages, View<float, 2> returns);
}
namespace baseline {
void estimate(View<const float, 2> token_level_rewards, View<const Bool8, 2> response_mask, View<const std::int64_t, 1> index, std::string_view estimator, double epsilon, bool norm_by_std,
              View<float, 2> advantages, View<float, 2> returns);
}
namespace cpu {
void estimate(View<const float, 2> token_level_rewards, View<const Bool8, 2> response_mask, View<const std::int64_t, 1> index, std::string_view estimator, double epsilon, bool norm_by_std,
              View<float, 2> advantages, View<float, 2> returns);
}

}  // namespace faibench::grpo_rloo_advantage
