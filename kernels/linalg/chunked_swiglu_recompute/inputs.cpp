#include "kernels/linalg/chunked_swiglu_recompute/inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace faibench::chunked_swiglu_recompute {

TensorMap layer_inputs(Random& random, const Sizes& s) {
  TensorMap inputs;
  const auto add = [&](const char* name, Shape shape, std::int64_t fan_in) {
    random.fill_normal(inputs.add(name, Tensor(Dtype::f32, std::move(shape))).flat<float>(), 0, 1 / std::sqrt(static_cast<float>(std::max<std::int64_t>(fan_in, 1))));
  };
  add("x", {s.T, s.D}, 1);
  add("w_gate", {s.F, s.D}, s.D);
  add("w_up", {s.F, s.D}, s.D);
  add("w_down", {s.D, s.F}, s.F);
  add("dy", {s.T, s.D}, 1);
  inputs.add("chunk_size", Tensor::scalar(s.chunk_size));
  return inputs;
}

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();

using Change = void (*)(TensorMap&);

Case valid(const char* name, const char* note, Sizes sizes, Change change = nullptr) {
  return {name, note, [=](Random& random) {
            TensorMap inputs = layer_inputs(random, sizes);
            if (change) change(inputs);
            return inputs;
          }};
}
/// An invalid input, made from a valid one.
Case invalid(const char* name, const char* note, Change change, Sizes sizes = {5, 6, 8, 2}) { return valid(name, note, sizes, change); }

void scale_row(TensorMap& inputs, const char* name, std::int64_t row, float factor) {
  auto m = inputs.at(name).view<float, 2>();
  for (std::int64_t c = 0; c < m.extent(1); ++c) m(row, c) *= factor;
}

/// Row `row` of w_gate becomes such that token 0's g there is exactly `g` or as near as f32 has it.
void set_gate(TensorMap& inputs, std::int64_t row, float g) {
  const auto x = inputs.at("x").view<float, 2>();
  auto w = inputs.at("w_gate").view<float, 2>();
  double squares = 0;
  for (std::int64_t c = 0; c < x.extent(1); ++c) squares += static_cast<double>(x(0, c)) * static_cast<double>(x(0, c));
  for (std::int64_t c = 0; c < x.extent(1); ++c) w(row, c) = static_cast<float>(static_cast<double>(g) * static_cast<double>(x(0, c)) / squares);
}

void valid_cases(std::vector<Case>& all) {
  all.push_back(valid("typical", "T a multiple of the chunk", {32, 24, 40, 8}));
  all.push_back(valid("short_last_chunk", "T = 29, chunks of 8", {29, 12, 20, 8}));
  all.push_back(valid("chunk_of_one", "a chunk a token", {9, 12, 17, 1}));
  all.push_back(valid("chunk_t_minus_1", "the last chunk has one token", {13, 10, 14, 12}));
  all.push_back(valid("chunk_t", "one chunk", {13, 10, 14, 13}));
  all.push_back(valid("chunk_t_plus_1", "one chunk", {13, 10, 14, 14}));
  all.push_back(valid("chunk_huge", "2^40: nothing may be allocated or multiplied by it", {5, 8, 12, std::int64_t{1} << 40}));
  all.push_back(valid("chunk_largest", "2^63 - 1", {5, 8, 12, std::numeric_limits<std::int64_t>::max()}));
  all.push_back(valid("rounded_up_chunks", "T = 9 in chunks of 4: 5 chunks of 2 would leave an empty one", {9, 7, 11, 4}));
  all.push_back(valid("one_token", "T = 1", {1, 24, 40, 3}));
  all.push_back(valid("no_tokens", "T = 0: empty outputs", {0, 6, 8, 2}));
  all.push_back(valid("no_width", "D = 0: empty rows", {4, 0, 8, 2}));
  all.push_back(valid("no_hidden", "F = 0: zeros", {4, 6, 0, 2}));
  all.push_back(valid("nothing", "T = D = F = 0", {0, 0, 0, 1}));
  all.push_back(valid("width_one", "D = 1", {6, 1, 9, 4}));
  all.push_back(valid("hidden_one", "F = 1", {6, 9, 1, 4}));
  all.push_back(valid("wider_than_hidden", "D > F, weights not square", {11, 37, 6, 4}));
  all.push_back(valid("ragged_tiles", "one more than 14, 32 and 64", {15, 33, 65, 7}));
  all.push_back(valid("several_large_tiles", "one more than 128 tokens and hidden units", {129, 9, 131, 50}));
  all.push_back(valid("row_magnitudes", "1e-3 beside 1e3 in one chunk", {12, 16, 24, 6}, [](TensorMap& in) {
    for (std::int64_t t = 0; t < 12; ++t) {
      scale_row(in, "x", t, t % 2 == 0 ? 1e-3f : 1e3f);
      scale_row(in, "dy", t, t % 3 == 0 ? 1e3f : 1e-3f);
    }
  }));
  all.push_back(valid("saturated_gates", "g = 200, -200, 80, -80, -100, 1000, 0.5 beside ordinary ones", {6, 16, 24, 4}, [](TensorMap& in) {
    const float gates[] = {200, -200, 80, -80, -100, 1000, 0.5f};
    for (std::int64_t f = 0; f < 7; ++f) set_gate(in, 3 * f, gates[f]);
  }));
  all.push_back(valid("everything_saturated", "|g| of hundreds everywhere", {8, 16, 24, 4}, [](TensorMap& in) {
    for (float& w : in.at("w_gate").flat<float>()) w *= 300;
  }));
  all.push_back(valid("gate_zero", "g = 0 exactly: the derivative is u/2", {7, 16, 24, 4}, [](TensorMap& in) {
    for (std::int64_t f = 0; f < 24; f += 2) scale_row(in, "w_gate", f, 0);
  }));
  all.push_back(valid("up_zero", "u = 0: h is zero, du is not", {7, 16, 24, 4}, [](TensorMap& in) {
    for (std::int64_t f = 0; f < 24; f += 2) scale_row(in, "w_up", f, 0);
  }));
  all.push_back(valid("x_zero", "a token of zeros", {7, 16, 24, 4}, [](TensorMap& in) { scale_row(in, "x", 4, 0); }));
  all.push_back(valid("dy_zero", "dx is zero, y is all there", {7, 16, 24, 4}, [](TensorMap& in) {
    for (float& v : in.at("dy").flat<float>()) v = 0;
  }));
  all.push_back(valid("nan_tokens", "NaN in x on both sides of a chunk's border, and in dy: dx alone", {17, 16, 24, 4}, [](TensorMap& in) {
    in.at("x").view<float, 2>()(3, 0) = nan;
    in.at("x").view<float, 2>()(4, 15) = nan;
    in.at("x").view<float, 2>()(16, 7) = nan;
    in.at("dy").view<float, 2>()(8, 3) = nan;
    in.at("dy").view<float, 2>()(11, 15) = nan;
  }));
  all.push_back(valid("inf_in_dy", "an infinite gradient stays in its token's dx", {9, 16, 24, 4}, [](TensorMap& in) { in.at("dy").view<float, 2>()(5, 2) = inf; }));
}

void invalid_cases(std::vector<Case>& all) {
  all.push_back(invalid("missing_dy", "no dy", [](TensorMap& in) { in.erase("dy"); }));
  all.push_back(invalid("unknown_tensor", "a bias nobody knows", [](TensorMap& in) { in.add("bias", Tensor(Dtype::f32, {8})); }));
  all.push_back(invalid("x_is_f64", "another dtype", [](TensorMap& in) { in.at("x") = Tensor(Dtype::f64, {5, 6}); }));
  all.push_back(invalid("chunk_is_i32", "another dtype", [](TensorMap& in) { in.at("chunk_size") = Tensor::scalar(std::int32_t{2}); }));
  all.push_back(invalid("w_up_is_vector", "another rank", [](TensorMap& in) { in.at("w_up") = Tensor(Dtype::f32, {48}); }));
  all.push_back(invalid("chunk_is_vector", "another rank", [](TensorMap& in) { in.at("chunk_size") = Tensor(Dtype::i64, {1}); }));
  all.push_back(invalid("w_gate_width", "D of w_gate", [](TensorMap& in) { in.at("w_gate") = Tensor(Dtype::f32, {8, 5}); }));
  all.push_back(invalid("w_up_hidden", "F of w_up", [](TensorMap& in) { in.at("w_up") = Tensor(Dtype::f32, {7, 6}); }));
  all.push_back(invalid("w_down_transposed", "w_down as [F, D]", [](TensorMap& in) { in.at("w_down") = Tensor(Dtype::f32, {8, 6}); }));
  all.push_back(invalid("dy_tokens", "T of dy", [](TensorMap& in) { in.at("dy") = Tensor(Dtype::f32, {4, 6}); }));
  all.push_back(invalid("dy_width", "D of dy", [](TensorMap& in) { in.at("dy") = Tensor(Dtype::f32, {5, 7}); }));
  all.push_back(invalid("chunk_zero", "bad_chunk_size", [](TensorMap& in) { in.at("chunk_size") = Tensor::scalar(std::int64_t{0}); }));
  all.push_back(invalid("chunk_negative", "bad_chunk_size", [](TensorMap& in) { in.at("chunk_size") = Tensor::scalar(std::numeric_limits<std::int64_t>::min()); }));
  all.push_back(invalid("chunk_zero_no_tokens", "bad_chunk_size also where T is 0", [](TensorMap& in) { in.at("chunk_size") = Tensor::scalar(std::int64_t{0}); }, {0, 6, 8, 2}));
}

}  // namespace

std::vector<Case> cases() {
  std::vector<Case> all;
  valid_cases(all);
  invalid_cases(all);
  return all;
}

}  // namespace faibench::chunked_swiglu_recompute
