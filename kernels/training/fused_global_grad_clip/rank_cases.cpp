// Fixed cases of the multi-rank form: shards of all kinds, values that poison, and everything that ranks must reject alike.
#include <cmath>
#include <limits>

#include "kernels/training/fused_global_grad_clip/fused_global_grad_clip.h"
#include "kernels/training/fused_global_grad_clip/ranks.h"

namespace faibench::fused_global_grad_clip {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
constexpr double unbounded = std::numeric_limits<double>::infinity();

struct Setting {
  std::vector<std::int64_t> lengths;
  double max_norm = 1;
  bool error_if_nonfinite = false;
  float value = 0;                                       ///< of every element; 0: normal ones
  std::vector<std::pair<std::size_t, float>> at = {};    ///< other elements
  Dtype dtype = Dtype::f32;
};

MultiRank::RankCase valid(std::string name, std::string note, const Setting& setting) {
  return {std::move(name), std::move(note), [=](Random& random, int) {
            std::vector<std::int64_t> offsets = {0};
            for (const std::int64_t length : setting.lengths) offsets.push_back(offsets.back() + length);
            std::vector<float> values(static_cast<std::size_t>(offsets.back()), setting.value);
            if (setting.value == 0) random.fill_normal(values);
            for (const auto& [i, value] : setting.at) values.at(i) = value;
            Tensor grads(setting.dtype, {offsets.back()});
            for (std::size_t i = 0; i < values.size(); ++i) {
              if (setting.dtype == Dtype::f32) grads.flat<float>()[i] = values[i];
              else grads.flat<bf16>()[i] = to_bf16(values[i]);
            }
            return clip_input(std::move(grads), offsets, setting.max_norm, setting.error_if_nonfinite);
          }};
}

/// `spoil` is called where there is something to disagree with, on one rank: the last one.
MultiRank::RankCase differing(std::string name, std::string note, const Setting& setting, std::function<void(TensorMap& shard)> spoil) {
  MultiRank::RankCase made = valid(std::move(name), std::move(note), setting);
  made.damage = [spoil = std::move(spoil)](Random&, TensorMap& shard, int rank, int ranks) {
    if (ranks > 1 && rank == ranks - 1) spoil(shard);
  };
  made.code = [](int ranks) { return ranks > 1 ? "rank_mismatch" : ""; };
  return made;
}

/// One rank alone, the last or the first, breaks a rule.
MultiRank::RankCase broken(std::string name, std::string note, std::string code, bool last, std::function<void(TensorMap& shard)> spoil) {
  MultiRank::RankCase made = valid(std::move(name), std::move(note), {{3, 5, 2000}});
  made.damage = [last, spoil = std::move(spoil)](Random&, TensorMap& shard, int rank, int ranks) {
    if (rank == (last ? ranks - 1 : 0)) spoil(shard);
  };
  made.code = [code = std::move(code)](int) { return code; };
  return made;
}

/// The whole is what must be rejected: no rank's shard is changed.
MultiRank::RankCase nonfinite(std::string name, std::string note, const Setting& setting) {
  MultiRank::RankCase made = valid(std::move(name), std::move(note), setting);
  made.damage = [](Random&, TensorMap&, int, int) {};
  made.code = [](int) { return "nonfinite_norm"; };
  return made;
}

}  // namespace

std::vector<MultiRank::RankCase> rank_cases() {
  const std::vector<std::int64_t> mixed = {3000, 12, 0, 70'001, 1000, 1024};
  std::vector<MultiRank::RankCase> cases = {
      valid("no_tensors", "K = 0", {{}}),
      valid("no_elements", "empty tensors only", {{0, 0, 0}}),
      valid("one_element", "", {{1}, 0.001}),
      valid("replicas_only", "", {{5, 0, 1023, 1}, 2}),
      valid("chunks_only", "no multiples of the ranks", {{1024, 1025, 5003}, 2}),
      valid("at_the_border", "1023 elements are a replica, 1024 are cut", {{1023, 1024, 1023, 0, 7}, 2}),
      valid("mixed", "several segments a chunk", {mixed, 3}),
      valid("mixed_bf16", "", {mixed, 3, false, 0, {}, Dtype::bf16}),
      valid("many_tensors", "sums in several messages", {std::vector<std::int64_t>(300, 5), 2}),
      valid("many_bf16_replicas", "rounding must not depend on where a rank keeps them", {{1500, 900, 1601, 901, 17, 1023, 2003, 33}, 0.7, false, 0, {}, Dtype::bf16}),
      valid("counted_once", "T = 100; replicas counted P times would be clipped", {std::vector<std::int64_t>(10, 1000), 100.5, false, 1}),
      valid("not_clipped", "bits stay: -0, subnormals", {mixed, 1e4, false, 0, {{0, -0.0f}, {1, 1e-40f}, {3001, -3e-45f}}}),
      valid("own_norms_below", "each rank's own norm below the bound, the whole above", {{4096}, 63, false, 1}),
      valid("at_the_bound", "T = max_norm", {{1024}, 32, false, 1}),
      valid("zero_bound", "", {mixed, 0}),
      valid("no_bound", "", {mixed, unbounded}),
      valid("large", "squares past f32", {{2000, 33}, 1, false, 1e25f}),
      valid("small", "squares below f32", {{2000, 33}, 1e-29, false, 1e-30f}),
      valid("norm_past_f32_strict", "T finite, total_norm Inf", {{2000, 1}, 1, true, 3e38f}),
      valid("strict", "finite", {mixed, 1, true}),
      valid("inf", "in the last chunk and in a replica", {{3000, 50}, 1, false, 0, {{2999, -inf}, {3010, inf}}}),
      valid("inf_no_bound", "everything NaN", {{3000, 50}, unbounded, false, 0, {{0, inf}}}),
      valid("nan", "in one chunk: everything NaN on all ranks", {mixed, 1, false, 0, {{2999, -nan}}}),
      valid("nan_in_a_replica", "", {mixed, 1, false, 0, {{3001, nan}}}),
      valid("nan_and_inf_bf16", "", {mixed, 1, false, 0, {{0, nan}, {3002, inf}}, Dtype::bf16}),
      nonfinite("strict_nan", "seen by the last rank alone", {{3000, 50}, 1, true, 0, {{2999, nan}}}),
      nonfinite("strict_inf_in_a_replica", "", {{3000, 50}, 1, true, 0, {{3001, inf}}}),
      nonfinite("strict_both", "", {mixed, unbounded, true, 0, {{0, inf}, {73'020, nan}}}),
      broken("negative_bound", "on one rank", "bad_max_norm", true, [](TensorMap& shard) { shard.at("max_norm") = Tensor::scalar(-1.0); }),
      broken("nan_bound", "on one rank", "bad_max_norm", false, [](TensorMap& shard) { shard.at("max_norm") = Tensor::scalar(static_cast<double>(nan)); }),
      broken("negative_size", "on one rank", "bad_size", true, [](TensorMap& shard) { shard.at("sizes").flat<std::int64_t>()[1] = -5; }),
      broken("huge_size", "on one rank", "bad_size", false, [](TensorMap& shard) { shard.at("sizes").flat<std::int64_t>()[2] = std::numeric_limits<std::int64_t>::max(); }),
      broken("short_grads", "on one rank", "rank_mismatch", true, [](TensorMap& shard) { shard.at("grads") = Tensor(Dtype::f32, {7}); }),
      broken("no_sizes", "on one rank", "missing_tensor", true, [](TensorMap& shard) { shard.erase("sizes"); }),
      broken("sizes_of_i32", "on one rank", "wrong_dtype", true, [](TensorMap& shard) { shard.at("sizes") = Tensor(Dtype::i32, {3}); }),
      differing("other_bound", "", {mixed}, [](TensorMap& shard) { shard.at("max_norm") = Tensor::scalar(1 + 1e-15); }),
      differing("other_strictness", "", {mixed}, [](TensorMap& shard) { shard.at("error_if_nonfinite") = Tensor::boolean(true); }),
      differing("other_sizes", "two replicas change places", {{3, 5, 2000}}, [](TensorMap& shard) { std::swap(shard.at("sizes").flat<std::int64_t>()[0], shard.at("sizes").flat<std::int64_t>()[1]); }),
      differing("one_tensor_fewer", "an empty one", {{2000, 5, 0}}, [](TensorMap& shard) { shard.at("sizes") = Tensor::of({2}, std::vector<std::int64_t>{2000, 5}); }),
      differing("other_dtype", "", {{2000, 5}}, [](TensorMap& shard) { shard.at("grads") = Tensor(Dtype::bf16, shard.at("grads").shape()); }),
  };
  cases.push_back(differing("minus_zero_bound", "counts as 0 on the rank that has it", {mixed, 0}, [](TensorMap& shard) { shard.at("max_norm") = Tensor::scalar(-0.0); }));
  cases.back().code = [](int) { return ""; };
  return cases;
}

}  // namespace faibench::fused_global_grad_clip
