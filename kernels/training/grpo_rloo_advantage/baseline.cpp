// verl's loop form: scores, a hash map from group to the list of its scores, mean and deviation a group, a pass over rows that looks its group up again, a pass that writes.
#include <cmath>
#include <cstddef>
#include <unordered_map>
#include <vector>

#include "kernels/training/grpo_rloo_advantage/grpo_rloo_advantage.h"

namespace faibench::grpo_rloo_advantage::baseline {
namespace {

struct Statistics {
  double mean, std;
};

Statistics statistics_of(const std::vector<double>& scores) {
  const double n = static_cast<double>(scores.size());
  bool equal = std::isfinite(scores[0]);
  double sum = 0;
  for (const double s : scores) {
    equal = equal && s == scores[0];
    sum += s;
  }
  if (equal) return {scores[0], 0};  // exactly: no rounding noise to be divided by epsilon
  const double mean = sum / n;
  double squares = 0;
  for (const double s : scores) squares += (s - mean) * (s - mean);
  return {mean, std::sqrt(squares / (n - 1))};
}

}  // namespace

void estimate(View<const float, 2> token_level_rewards, View<const Bool8, 2> response_mask, View<const std::int64_t, 1> index, std::string_view estimator, double epsilon, bool norm_by_std,
              View<float, 2> advantages, View<float, 2> returns) {
  const std::int64_t B = token_level_rewards.extent(0), L = token_level_rewards.extent(1);
  const bool grpo = estimator == "grpo";

  std::vector<double> score(static_cast<std::size_t>(B));
  for (std::int64_t i = 0; i < B; ++i) {
    double sum = 0;
    for (std::int64_t t = 0; t < L; ++t) sum += token_level_rewards(i, t);
    score[static_cast<std::size_t>(i)] = sum;
  }

  std::unordered_map<std::int64_t, std::vector<double>> scores_of;
  for (std::int64_t i = 0; i < B; ++i) scores_of[index[i]].push_back(score[static_cast<std::size_t>(i)]);

  std::unordered_map<std::int64_t, Statistics> statistics;
  for (const auto& [group, scores] : scores_of) statistics[group] = scores.size() == 1 ? Statistics{0, 1} : statistics_of(scores);

  for (std::int64_t i = 0; i < B; ++i) {
    double& s = score[static_cast<std::size_t>(i)];
    const Statistics& group = statistics.at(index[i]);
    const double n = static_cast<double>(scores_of.at(index[i]).size());
    if (grpo) s = norm_by_std ? (s - group.mean) / (group.std + epsilon) : s - group.mean;
    else if (n > 1) s = (s - group.mean) * n / (n - 1);
  }

  for (std::int64_t i = 0; i < B; ++i)
    for (std::int64_t t = 0; t < L; ++t) advantages(i, t) = returns(i, t) = static_cast<float>(score[static_cast<std::size_t>(i)] * (response_mask(i, t) ? 1.0 : 0.0));
}

}  // namespace faibench::grpo_rloo_advantage::baseline
