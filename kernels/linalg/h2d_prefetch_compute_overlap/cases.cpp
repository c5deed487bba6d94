// Fixed and random cases and the workloads of h2d_prefetch_compute_overlap.
#include "kernels/linalg/h2d_prefetch_compute_overlap/cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/linalg/h2d_prefetch_compute_overlap/gate.h"

namespace faibench::h2d_prefetch_compute_overlap {
namespace {

using Rows = std::vector<std::int64_t>;

/// Chunks of so many rows, values as in all workloads.
TensorMap chunks(Random& random, const Rows& rows, std::int64_t D, std::int32_t rounds) {
  const std::int64_t n = static_cast<std::int64_t>(rows.size()), H = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  TensorMap inputs;
  random.fill_normal(inputs.add("data", Tensor(Dtype::f32, {H, D})).flat<float>());
  const auto offsets = inputs.add("offsets", Tensor(Dtype::i64, {n + 1})).flat<std::int64_t>();
  std::partial_sum(rows.begin(), rows.end(), offsets.begin() + 1);
  random.fill_uniform(inputs.add("scale", Tensor(Dtype::f32, {n})).flat<float>(), 0.5f, 2.0f);
  random.fill_uniform(inputs.add("gain", Tensor(Dtype::f32, {D})).flat<float>(), -0.8f, 0.8f);
  random.fill_uniform(inputs.add("bias", Tensor(Dtype::f32, {D})).flat<float>(), -1.0f, 1.0f);
  inputs.add("rounds", Tensor::scalar(rounds));
  return inputs;
}

/// Lognormal sizes with sum H, each at least 1, but 2 % empty.
Rows uneven_rows(Random& random, std::int64_t n, std::int64_t H) {
  Rows rows(static_cast<std::size_t>(n), 0);
  std::vector<double> weights;
  double sum = 0;
  while (sum == 0) {
    weights.clear();
    for (std::int64_t i = 0; i < n; ++i) sum += weights.emplace_back(random.chance(0.02) ? 0.0 : stable_exp(0.7 * random.normal()));
  }
  std::int64_t left = H;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (weights[i] > 0) left -= rows[i] = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(weights[i] / sum * static_cast<double>(H))));
  *std::ranges::max_element(rows) += left;  // what rounding left over, or took too much
  return rows;
}

Case sized(const char* name, const char* note, Rows rows, std::int64_t D, std::int32_t rounds) {
  return {name, note, [=](Random& random) { return chunks(random, rows, D, rounds); }};
}

template <class Change>
Case changed(const char* name, const char* note, Rows rows, std::int64_t D, std::int32_t rounds, Change change) {
  return {name, note, [=](Random& random) {
            TensorMap inputs = chunks(random, rows, D, rounds);
            change(inputs);
            return inputs;
          }};
}

auto set(const char* name, std::vector<float> values) {  // its first elements
  return [=](TensorMap& in) { std::ranges::copy(values, in.at(name).flat<float>().begin()); };
}

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN(), largest = std::numeric_limits<float>::max();

void add_shapes(std::vector<Case>& cases) {
  cases.push_back(sized("no_chunk", "n = 0, H = 0", {}, 7, 3));
  cases.push_back(sized("no_column", "D = 0", {2, 3}, 0, 3));
  cases.push_back(sized("no_row", "only empty chunks", {0, 0, 0}, 5, 3));
  cases.push_back(sized("one_element", "1 x 1", {1}, 1, 2));
  cases.push_back(sized("one_chunk", "", {20}, 24, 3));
  cases.push_back(sized("a_row_a_chunk", "every row has a factor of its own", Rows(37, 1), 19, 3));
  cases.push_back(sized("empty_chunks", "first, last and in a row", {0, 3, 0, 0, 0, 5, 1, 0}, 9, 3));
  cases.push_back(sized("one_holds_nearly_all", "", {1, 1, 300, 1, 0, 2}, 17, 2));
  cases.push_back(sized("one_column", "D = 1", {5, 0, 130, 7, 1, 1}, 1, 4));
  cases.push_back(sized("two_columns", "D = 2", {5, 130, 7}, 2, 4));
  cases.push_back(sized("columns_off_the_lanes", "D = 33: rows start at any alignment", {7, 2, 11}, 33, 3));
  cases.push_back(sized("columns_of_three", "chunk starts that are not 16-byte aligned", {1, 2, 3, 4, 5, 50}, 3, 3));
  cases.push_back(sized("wide", "D = 1000", {1, 0, 2}, 1000, 2));
  cases.push_back(sized("whole_vectors", "D = 64", {4, 4, 8}, 64, 3));
  cases.push_back(sized("one_round", "", {3, 4}, 30, 1));
  cases.push_back(sized("most_rounds", "rounds = 4096", {1, 2}, 5, 4096));
  cases.push_back({"several_pieces", "more than one copy on a GPU", [](Random& random) { return chunks(random, uneven_rows(random, 9, 2003), 100, 1); }});
  cases.push_back({"twenty_calls", "20 calls in a row with different data in the same buffers", [](Random& random) { return chunks(random, uneven_rows(random, 5, 1450), 100, 1); }});
  static_assert(1450 * 100 >= twenty_calls_from && 1450 * 100 <= twenty_calls_to);
}

void add_values(std::vector<Case>& cases) {
  cases.push_back(sized("no_rounds", "the scale alone: exact", {3, 0, 13}, 17, 0));
  cases.push_back(changed("no_rounds_and_special_values", "exact, with NaN, Inf, -0, subnormals and products at both ends of f32", {1, 2, 3}, 9, 0, [](TensorMap& in) {
    set("data", {nan, inf, -inf, 0.0f, -0.0f, 1e-45f, -1e-40f, largest, -largest, 3e38f, -1.2e-38f, 1e-39f, -0.0f, 0.0f})(in);
    set("scale", {1.0f, -2.0f, 0.3f})(in);
  }));
  cases.push_back(changed("scale_zero", "0 and -0 for a chunk", {2, 3, 2}, 21, 2, set("scale", {0.0f, -0.0f, 1.0f})));
  cases.push_back(changed("scale_negative", "", {2, 3, 2}, 21, 2, set("scale", {-1.5f, 0.5f, -0.7f})));
  cases.push_back(changed("equal_chunks_different_scale", "a swapped or stale parameter shows", Rows(6, 4), 16, 2, [](TensorMap& in) {
    const auto data = in.at("data").flat<float>();
    for (std::size_t k = 64; k < data.size(); ++k) data[k] = data[k - 64];
    set("scale", {1.0f, 1.25f, -1.0f, 2.0f, 0.5f, 1.75f})(in);
  }));
  cases.push_back(changed("nan_at_a_chunk_border", "stays in its element", {4, 4}, 20, 3, [](TensorMap& in) {
    in.at("data").flat<float>()[79] = nan;
    in.at("data").flat<float>()[81] = nan;
  }));
  cases.push_back(changed("nan_scale", "a chunk of NaN beside others", {2, 3, 2}, 21, 2, set("scale", {1.0f, nan, 1.0f})));
  cases.push_back(changed("nan_gain", "a column of NaN", {2, 3}, 21, 2, set("gain", {0.5f, nan})));
  cases.push_back(changed("infinite", "Inf in data with positive gain stays Inf, times a gain of 0 it is NaN", {2, 2}, 4, 2, [](TensorMap& in) {
    set("data", {inf, inf, 1.0f, -1.0f})(in);
    set("gain", {0.5f, 0.0f, 0.5f, 0.5f})(in);
  }));
  cases.push_back(changed("large_negative_z", "silu is 0 there, not NaN", {3}, 24, 1, [](TensorMap& in) {
    const auto bias = in.at("bias").flat<float>();
    for (std::size_t c = 0; c < bias.size(); ++c) bias[c] = -80.0f - static_cast<float>(c) / 2;
    bias[20] = -200, bias[21] = -1e6f, bias[22] = -1e30f, bias[23] = -largest;
  }));
  cases.push_back(changed("just_before_exp_overflows", "z from -86 to -90", {40}, 16, 1, [](TensorMap& in) {
    std::ranges::fill(in.at("gain").flat<float>(), 0.05f);
    const auto bias = in.at("bias").flat<float>();
    for (std::size_t c = 0; c < bias.size(); ++c) bias[c] = -86.0f - static_cast<float>(c) / 4;
  }));
  cases.push_back(changed("large_positive_z", "silu is z there", {3}, 8, 3, set("bias", {50.0f, 100.0f, 1e3f, 1e10f, 1e30f, 1e37f, 88.5f, 128.0f})));
  cases.push_back(changed("large_gain", "the bound grows with it", {5}, 12, 3, set("gain", {10.0f, -10.0f, 100.0f, -100.0f, 1e3f, -1e3f, 1e6f, 3.0f, -3.0f, 30.0f, -30.0f, 1.0f})));
  cases.push_back(changed("beyond_f32", "elements that leave the range of f32 are not compared", {4}, 6, 3, [](TensorMap& in) {
    set("gain", {1e30f, 1e20f, largest, 1.0f, -largest, 1e38f})(in);
    in.at("data").flat<float>()[9] = largest;
    set("scale", {2.0f})(in);
  }));
  cases.push_back(changed("tiny", "subnormals on the way", {4}, 8, 2, [](TensorMap& in) {
    for (float& v : in.at("data").flat<float>()) v *= 1e-39f;
    std::ranges::fill(in.at("bias").flat<float>(), 0.0f);
  }));
  cases.push_back(changed("subnormal_products_grow", "one f32 product loses half of 2^-149 there, which a large gain makes visible", {4}, 8, 1, [](TensorMap& in) {
    for (float& v : in.at("data").flat<float>()) v = std::copysign(1e-25f, v) * (1 + std::abs(v));
    set("scale", {1.1e-20f})(in);
    std::ranges::fill(in.at("gain").flat<float>(), 1e38f);
    std::ranges::fill(in.at("bias").flat<float>(), 0.0f);
  }));
  cases.push_back(changed("all_zero", "", {4, 1}, 18, 3, [](TensorMap& in) {
    for (const char* name : {"data", "gain", "bias"}) std::ranges::fill(in.at(name).flat<float>(), 0.0f);
  }));
}

void add_rejections(std::vector<Case>& cases) {
  const Rows rows = {2, 0, 3};
  const auto wrong = [&](const char* name, const char* note, auto change) { cases.push_back(changed(name, note, rows, 4, 2, change)); };
  const auto offset = [](std::size_t i, std::int64_t value) { return [=](TensorMap& in) { in.at("offsets").flat<std::int64_t>()[i] = value; }; };
  const auto rounds = [](std::int32_t value) { return [=](TensorMap& in) { in.at("rounds").flat<std::int32_t>()[0] = value; }; };
  const auto replace = [](const char* name, Tensor (*make)()) {
    return [=](TensorMap& in) {
      in.erase(name);
      in.add(name, make());
    };
  };
  wrong("rounds_negative", "bad_rounds", rounds(-1));
  wrong("rounds_lowest", "bad_rounds", rounds(std::numeric_limits<std::int32_t>::min()));
  wrong("rounds_4097", "bad_rounds", rounds(4097));
  wrong("offsets_start_late", "bad_offsets", offset(0, 1));
  wrong("offsets_start_negative", "bad_offsets", offset(0, -1));
  wrong("offsets_decrease", "bad_offsets", offset(2, 1));
  wrong("offsets_end_early", "bad_offsets", offset(3, 4));
  wrong("offsets_end_late", "bad_offsets", offset(3, 6));
  wrong("offsets_leap_over_the_end", "bad_offsets: back at H, but not without a decrease", offset(2, std::numeric_limits<std::int64_t>::max()));
  wrong("offsets_before_rounds", "bad_offsets comes before bad_rounds", [](TensorMap& in) {
    in.at("offsets").flat<std::int64_t>()[0] = 1;
    in.at("rounds").flat<std::int32_t>()[0] = -1;
  });
  cases.push_back(changed("rows_without_a_chunk", "bad_offsets: n = 0 and H = 2", {2}, 4, 2, [](TensorMap& in) {
    in.erase("offsets");
    in.add("offsets", Tensor(Dtype::i64, {1}));
    in.erase("scale");
    in.add("scale", Tensor(Dtype::f32, {0}));
  }));
  wrong("no_bias", "missing_tensor", [](TensorMap& in) { in.erase("bias"); });
  wrong("extra_tensor", "unknown_tensor", [](TensorMap& in) { in.add("stream", Tensor::scalar<std::int32_t>(0)); });
  wrong("data_is_f64", "wrong_dtype", replace("data", [] { return Tensor(Dtype::f64, {5, 4}); }));
  wrong("rounds_is_i64", "wrong_dtype", replace("rounds", [] { return Tensor::scalar<std::int64_t>(2); }));
  wrong("data_is_vector", "wrong_rank", replace("data", [] { return Tensor(Dtype::f32, {20}); }));
  wrong("rounds_is_vector", "wrong_rank", replace("rounds", [] { return Tensor(Dtype::i32, {1}); }));
  wrong("offsets_are_shorter", "dim_mismatch", replace("offsets", [] { return Tensor::of<std::int64_t>({3}, {0, 2, 5}); }));
  wrong("offsets_are_empty", "dim_mismatch", replace("offsets", [] { return Tensor(Dtype::i64, {0}); }));
  wrong("gain_is_longer", "dim_mismatch", replace("gain", [] { return Tensor(Dtype::f32, {5}); }));
  wrong("bias_is_shorter", "dim_mismatch", replace("bias", [] { return Tensor(Dtype::f32, {3}); }));
}

}  // namespace

std::vector<Case> cases() {
  std::vector<Case> all;
  add_shapes(all);
  add_values(all);
  add_rejections(all);
  return all;
}

TensorMap random_case(Random& random) {
  Rows rows(static_cast<std::size_t>(random.below(9)));
  for (std::int64_t& count : rows) count = random.chance(0.25) ? 0 : random.between(1, random.chance(0.2) ? 40 : 6);
  const std::int64_t D = random.chance(0.1) ? random.below(3) : random.between(1, 90);
  TensorMap inputs = chunks(random, rows, D, static_cast<std::int32_t>(random.chance(0.2) ? 0 : random.between(1, 9)));
  for (float& s : inputs.at("scale").flat<float>())
    if (random.chance(0.2)) s = -s;
  if (random.chance(0.3))
    for (float& g : inputs.at("gain").flat<float>()) g *= 8;
  return inputs;
}

std::vector<Workload> workloads() {
  const auto workload = [](std::string name, std::string description, std::int64_t n, std::int64_t H, std::int64_t D, std::int32_t rounds, double seconds) {
    description += "; chunk rows lognormal(sigma 0.7), 2 % empty; data normal(0,1), scale uniform [0.5,2), gain uniform [-0.8,0.8), bias uniform [-1,1)";
    return Workload{std::move(name), std::move(description), {[=](Random& random) { return chunks(random, uneven_rows(random, n, H), D, rounds); }}, seconds};
  };
  return {
      workload("smoke", "n = 7, H = 200, D = 33, rounds = 3", 7, 200, 33, 3, 1e-4),
      workload("standard", "n = 64, H = 4096, D = 1024, rounds = 32", 64, 4096, 1024, 32, 0.5),
      workload("gpu", "n = 64, H = 262144, D = 1024, rounds = 96", 64, 262144, 1024, 96, 100),
      workload("gpu_rounds_8", "n = 64, H = 262144, D = 1024, rounds = 8; reported, not scored", 64, 262144, 1024, 8, 10),
      workload("gpu_rounds_256", "n = 64, H = 262144, D = 1024, rounds = 256; reported, not scored", 64, 262144, 1024, 256, 260),
  };
}

}  // namespace faibench::h2d_prefetch_compute_overlap
