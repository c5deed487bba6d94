// Inputs of flash_causal_attn_prefill and its fixed cases.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "kernels/sequence/flash_causal_attn_prefill/inputs.h"

namespace faibench::flash_causal_attn_prefill {
namespace {

void store(Tensor& tensor, const std::vector<float>& values) {
  visit_dtype(tensor.dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
      auto out = tensor.flat<T>();
      for (std::size_t i = 0; i < values.size(); ++i) out[i] = round_to<T>(values[i]);
    }
  });
}

std::vector<float> load(const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.size()));
  visit_dtype(tensor.dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
      const auto in = tensor.flat<const T>();
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_float(in[i]);
    }
  });
  return values;
}

std::vector<float> normals(Random& random, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  random.fill_normal(values);
  return values;
}

Tensor normal_tensor(Random& random, Dtype dtype, Shape shape) {
  Tensor tensor(dtype, std::move(shape));
  store(tensor, normals(random, tensor.size()));
  return tensor;
}

void add_scalars(TensorMap& inputs, const Sizes& s) {
  inputs.add("scale", Tensor::scalar(s.scale ? *s.scale : static_cast<float>(1 / std::sqrt(static_cast<double>(s.D)))));
  inputs.add("causal", Tensor::boolean(s.causal));
}

// ---- values by formula ----

/// Value of an element: position in the sequence, head, dimension.
using Formula = std::function<float(std::int64_t position, std::int64_t head, std::int64_t d)>;

Tensor by_formula(Dtype dtype, const Shape& shape, const Formula& formula) {
  Tensor tensor(dtype, shape);
  std::vector<float> values;
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t i = 0; i < shape[1]; ++i)
      for (std::int64_t h = 0; h < shape[2]; ++h)
        for (std::int64_t d = 0; d < shape[3]; ++d) values.push_back(formula(i, h, d));
  store(tensor, values);
  return tensor;
}

/// Every query is e0 and key j is score(j)*e0 + 0*(the rest): scores are scale*score(j), exactly. v is random.
Generator scored(const Sizes& s, std::function<float(std::int64_t j)> score) {
  return [s, score = std::move(score)](Random& random) {
    TensorMap inputs;
    inputs.add("q", by_formula(s.dtype, {s.B, s.Lq, s.H, s.D}, [](std::int64_t, std::int64_t, std::int64_t d) { return d == 0 ? 1.0f : 0.0f; }));
    inputs.add("k", by_formula(s.dtype, {s.B, s.Lk, s.Hk, s.D}, [&](std::int64_t j, std::int64_t, std::int64_t d) { return d == 0 ? score(j) : 0.0f; }));
    inputs.add("v", normal_tensor(random, s.dtype, {s.B, s.Lk, s.Hk, s.D}));
    add_scalars(inputs, s);
    return inputs;
  };
}

/// -60000 and some quarters on top, from two dimensions of k: exact in every dtype's product.
TensorMap far_below_zero(Random& random, Dtype dtype, float depth) {
  const Sizes s{.Lq = 131, .Lk = 131, .H = 2, .Hk = 1, .D = 16, .dtype = dtype, .scale = 1.0f};
  TensorMap inputs;
  inputs.add("q", by_formula(dtype, {1, s.Lq, s.H, s.D}, [](std::int64_t, std::int64_t, std::int64_t d) { return d < 2 ? 1.0f : 0.0f; }));
  inputs.add("k", by_formula(dtype, {1, s.Lk, s.Hk, s.D}, [=](std::int64_t j, std::int64_t, std::int64_t d) {
               return d == 0 ? depth : d == 1 ? 0.25f * static_cast<float>(j * 5 % 11) : 0.0f;
             }));
  inputs.add("v", normal_tensor(random, dtype, {1, s.Lk, s.Hk, s.D}));
  add_scalars(inputs, s);
  return inputs;
}

/// Raw q.k is 64*256*256 = 4194304 and more, far past 65504; the scores are 65536 + j mod 5, exactly.
TensorMap raw_products_past_f16(Random& random, float sign) {
  const Sizes s{.Lq = 70, .Lk = 70, .H = 2, .Hk = 2, .D = 64, .dtype = Dtype::f16, .scale = sign / 64};
  TensorMap inputs;
  inputs.add("q", by_formula(s.dtype, {1, s.Lq, s.H, s.D}, [](std::int64_t, std::int64_t, std::int64_t) { return 256.0f; }));
  inputs.add("k", by_formula(s.dtype, {1, s.Lk, s.Hk, s.D}, [](std::int64_t j, std::int64_t h, std::int64_t d) {
               return d == 7 ? 256.0f + 0.25f * static_cast<float>((j + h) % 5) : 256.0f;
             }));
  inputs.add("v", normal_tensor(random, s.dtype, {1, s.Lk, s.Hk, s.D}));
  add_scalars(inputs, s);
  return inputs;
}

/// Values of key head n lie around 100*n: a query that reads another head's is far off.
TensorMap heads_apart(Random& random, std::int64_t H, std::int64_t Hk) {
  const Sizes s{.B = 2, .Lq = 33, .Lk = 40, .H = H, .Hk = Hk, .D = 12};
  TensorMap inputs = peaked_inputs(random, s);
  Tensor& v = inputs.at("v");
  std::vector<float> values = load(v);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += 100.0f * static_cast<float>(static_cast<std::int64_t>(i) / s.D % Hk);
  store(v, values);
  return inputs;
}

/// Two inputs of 128 tokens that agree in the first 70 and nowhere after. The wild one holds k near the largest finite value, v of 1e30: later queries
/// are zero, so that their own scores stay 0. Made from its own stream, so that both get the same first tokens.
TensorMap shared_prefix(bool wild) {
  Random random("flash_causal_attn_prefill", "shared_prefix", 70, 0);
  constexpr std::int64_t L = 128, shared = 70;
  TensorMap inputs = peaked_inputs(random, {.Lq = L, .Lk = L, .H = 4, .Hk = 2, .D = 24});
  if (!wild) return inputs;
  const auto change_tail = [&](const char* name, const std::function<float(std::size_t)>& value) {
    auto x = inputs.at(name).flat<float>();
    for (std::size_t i = x.size() / L * shared; i < x.size(); ++i) x[i] = value(i);
  };
  change_tail("q", [](std::size_t) { return 0.0f; });
  change_tail("k", [](std::size_t i) { return i % 3 == 0 ? -3e38f : 3e38f; });
  change_tail("v", [](std::size_t i) { return -1e30f * static_cast<float>(1 + i % 7); });
  return inputs;
}

/// The first visible key takes all the weight; the others' exponents underflow, yet their values are near the largest finite one.
TensorMap weightless_giants(Random&) {
  const Sizes s{.Lq = 66, .Lk = 66, .D = 5, .scale = 1.0f};
  TensorMap inputs;
  inputs.add("q", by_formula(s.dtype, {1, s.Lq, 1, s.D}, [](std::int64_t, std::int64_t, std::int64_t) { return 1.0f; }));
  inputs.add("k", by_formula(s.dtype, {1, s.Lk, 1, s.D}, [](std::int64_t j, std::int64_t, std::int64_t d) { return d == 0 && j > 0 ? -200.0f * static_cast<float>(j) : 0.0f; }));
  inputs.add("v", by_formula(s.dtype, {1, s.Lk, 1, s.D}, [](std::int64_t j, std::int64_t, std::int64_t d) { return j == 0 ? static_cast<float>(d) : 3e38f; }));
  add_scalars(inputs, s);
  return inputs;
}

/// Every mean is finite, but sums of v overflow f32.
TensorMap sums_past_f32(Random& random, Dtype dtype) {
  TensorMap inputs = peaked_inputs(random, {.Lq = 70, .Lk = 70, .H = 2, .D = 7, .dtype = dtype, .scale = 0.01f});
  inputs.at("v") = by_formula(dtype, {1, 70, 1, 7}, [](std::int64_t j, std::int64_t, std::int64_t d) { return (d % 2 ? -1e38f : 1e38f) * (1 + static_cast<float>(j % 5) / 4); });
  return inputs;
}

// ---- rejections ----

/// A valid input, changed.
Case broken(const char* name, const char* note, std::function<void(TensorMap&)> change) {
  return {name, note, [change = std::move(change)](Random& random) {
            TensorMap inputs = peaked_inputs(random, {.Lq = 4, .Lk = 5, .H = 4, .Hk = 2, .D = 8});
            change(inputs);
            return inputs;
          }};
}

std::function<void(TensorMap&)> replace(std::string name, Dtype dtype, Shape shape) {
  return [=](TensorMap& inputs) { inputs.at(name) = Tensor(dtype, shape); };
}

std::function<void(TensorMap&)> set_scale(float scale) {
  return [=](TensorMap& inputs) { inputs.at("scale") = Tensor::scalar(scale); };
}

void add_rejections(std::vector<Case>& cases) {
  for (const char* name : {"q", "k", "v", "scale", "causal"})
    cases.push_back(broken((std::string("missing_") + name).c_str(), "missing_tensor", [name](TensorMap& inputs) { inputs.erase(name); }));
  cases.push_back(broken("unknown_mask", "unknown_tensor", [](TensorMap& inputs) { inputs.add("mask", Tensor(Dtype::bool_, {4, 5})); }));
  cases.push_back(broken("q_is_f64", "wrong_dtype", replace("q", Dtype::f64, {1, 4, 4, 8})));
  cases.push_back(broken("k_unlike_q", "wrong_dtype: k is f16, q is f32", replace("k", Dtype::f16, {1, 5, 2, 8})));
  cases.push_back(broken("v_unlike_q", "wrong_dtype: v is bf16, q is f32", replace("v", Dtype::bf16, {1, 5, 2, 8})));
  cases.push_back(broken("scale_is_f64", "wrong_dtype", replace("scale", Dtype::f64, {})));
  cases.push_back(broken("causal_is_u8", "wrong_dtype", replace("causal", Dtype::u8, {})));
  cases.push_back(broken("q_of_rank_3", "wrong_rank", replace("q", Dtype::f32, {4, 4, 8})));
  cases.push_back(broken("scale_is_a_vector", "wrong_rank", replace("scale", Dtype::f32, {1})));
  cases.push_back(broken("k_of_another_batch", "dim_mismatch: B", replace("k", Dtype::f32, {2, 5, 2, 8})));
  cases.push_back(broken("k_of_another_head_dim", "dim_mismatch: D", replace("k", Dtype::f32, {1, 5, 2, 7})));
  cases.push_back(broken("v_shorter_than_k", "dim_mismatch: Lk", replace("v", Dtype::f32, {1, 4, 2, 8})));
  cases.push_back(broken("v_of_other_heads", "dim_mismatch: Hk", replace("v", Dtype::f32, {1, 5, 4, 8})));
  const auto shapes = [](std::int64_t H, std::int64_t Hk, std::int64_t D) {
    return [=](TensorMap& inputs) {
      inputs.at("q") = Tensor(Dtype::f32, {1, 4, H, D});
      inputs.at("k") = Tensor(Dtype::f32, {1, 5, Hk, D});
      inputs.at("v") = Tensor(Dtype::f32, {1, 5, Hk, D});
    };
  };
  cases.push_back(broken("head_dim_0", "bad_head_dim", shapes(4, 2, 0)));
  cases.push_back(broken("head_dim_257", "bad_head_dim", shapes(4, 2, 257)));
  cases.push_back(broken("head_dim_before_heads", "bad_head_dim comes before bad_heads", shapes(3, 2, 257)));
  cases.push_back(broken("no_query_head", "bad_heads: H = 0", shapes(0, 2, 8)));
  cases.push_back(broken("no_key_head", "bad_heads: Hk = 0", shapes(4, 0, 8)));
  cases.push_back(broken("heads_3_over_2", "bad_heads: 3 query heads on 2 key heads", shapes(3, 2, 8)));
  cases.push_back(broken("more_key_heads", "bad_heads: 2 query heads on 4 key heads", shapes(2, 4, 8)));
  cases.push_back(broken("heads_before_scale", "bad_heads comes before bad_scale", [=](TensorMap& inputs) {
    shapes(3, 2, 8)(inputs);
    set_scale(std::numeric_limits<float>::quiet_NaN())(inputs);
  }));
  cases.push_back(broken("scale_nan", "bad_scale", set_scale(std::numeric_limits<float>::quiet_NaN())));
  cases.push_back(broken("scale_inf", "bad_scale", set_scale(std::numeric_limits<float>::infinity())));
  cases.push_back(broken("scale_minus_inf", "bad_scale", set_scale(-std::numeric_limits<float>::infinity())));
  cases.push_back({"rejected_though_empty", "B = 0 does not excuse 3 heads over 2: bad_heads", [](Random&) {
                     TensorMap inputs;
                     inputs.add("q", Tensor(Dtype::f32, {0, 4, 3, 8}));
                     inputs.add("k", Tensor(Dtype::f32, {0, 4, 2, 8}));
                     inputs.add("v", Tensor(Dtype::f32, {0, 4, 2, 8}));
                     add_scalars(inputs, {});
                     return inputs;
                   }});
}

}  // namespace

TensorMap peaked_inputs(Random& random, const Sizes& s) {
  TensorMap inputs;
  Tensor& q = inputs.add("q", Tensor(s.dtype, {s.B, s.Lq, s.H, s.D}));
  Tensor k = normal_tensor(random, s.dtype, {s.B, s.Lk, s.Hk, s.D});
  Tensor v = normal_tensor(random, s.dtype, {s.B, s.Lk, s.Hk, s.D});
  std::vector<float> queries = normals(random, q.size());
  const std::vector<float> keys = load(k);
  for (std::int64_t b = 0; b < s.B; ++b)
    for (std::int64_t i = 0; i < s.Lq; ++i) {
      const std::int64_t visible = s.causal ? std::clamp<std::int64_t>(i + (s.Lk - s.Lq) + 1, 0, s.Lk) : s.Lk;
      if (visible == 0) continue;
      const std::int64_t t = random.below(visible);
      for (std::int64_t h = 0; h < s.H; ++h) {
        const float* key = keys.data() + ((b * s.Lk + t) * s.Hk + h / (s.H / s.Hk)) * s.D;
        float* query = queries.data() + ((b * s.Lq + i) * s.H + h) * s.D;
        for (std::int64_t d = 0; d < s.D; ++d) query[d] += key[d];
      }
    }
  store(q, queries);
  inputs.add("k", std::move(k));
  inputs.add("v", std::move(v));
  add_scalars(inputs, s);
  return inputs;
}

TensorMap random_inputs(Random& random) {
  const Dtype dtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};
  Sizes s;
  s.dtype = dtypes[random.below(3)];
  s.B = random.between(0, 9) == 0 ? 0 : random.between(1, 2);
  s.Hk = random.between(1, 3);
  s.H = s.Hk * random.between(1, 4);
  s.D = random.chance(0.1) ? random.between(1, 256) : random.between(1, 40);
  s.Lk = random.between(0, 140);
  s.Lq = random.chance(0.4) ? s.Lk : random.between(0, 60);
  s.causal = random.chance(0.7);
  if (random.chance(0.3)) s.scale = static_cast<float>(random.uniform(-1, 1));
  return peaked_inputs(random, s);
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  const auto peaked = [&](std::string name, std::string note, const Sizes& s) {
    cases.push_back({std::move(name), std::move(note), [s](Random& random) { return peaked_inputs(random, s); }});
  };
  peaked("one_token", "Lq = Lk = 1", {.Lq = 1, .Lk = 1, .D = 8});
  peaked("chunk_of_a_prompt", "Lq < Lk under the mask: query i sees keys 0 .. i+41", {.Lq = 9, .Lk = 50, .H = 2, .D = 24});
  peaked("last_query_alone", "Lq = 1 under the mask sees every key", {.Lq = 1, .Lk = 130, .H = 3, .D = 16});
  peaked("more_queries_than_keys", "Lq > Lk under the mask: the first 60 queries see nothing", {.B = 2, .Lq = 100, .Lk = 40, .H = 2, .D = 16});
  peaked("one_key_many_queries", "only the last query sees the only key", {.Lq = 67, .Lk = 1, .D = 8});
  peaked("no_keys", "Lk = 0 under the mask: zeros", {.Lq = 5, .Lk = 0, .H = 2, .D = 8});
  peaked("no_keys_no_mask", "Lk = 0 without the mask: zeros", {.Lq = 5, .Lk = 0, .H = 2, .D = 8, .dtype = Dtype::f16, .causal = false});
  peaked("no_batch", "B = 0", {.B = 0, .Lq = 5, .Lk = 7, .D = 8});
  peaked("no_queries", "Lq = 0", {.Lq = 0, .Lk = 7, .D = 8});
  peaked("just_past_a_tile", "65 queries and keys", {.Lq = 65, .Lk = 65, .H = 2, .D = 32});
  peaked("just_past_two_tiles", "129 queries and keys", {.Lq = 129, .Lk = 129, .H = 1, .D = 16});
  peaked("just_past_tiles_no_mask", "65 queries, 129 keys, no mask", {.Lq = 65, .Lk = 129, .H = 2, .Hk = 2, .D = 16, .causal = false});
  peaked("odd_lengths", "211 queries, 307 keys", {.Lq = 211, .Lk = 307, .H = 1, .D = 20});
  peaked("head_dim_1", "D = 1", {.Lq = 70, .Lk = 70, .H = 2, .D = 1});
  peaked("head_dim_37", "D = 37, f16", {.Lq = 70, .Lk = 70, .H = 2, .D = 37, .dtype = Dtype::f16});
  peaked("head_dim_40", "D = 40", {.Lq = 70, .Lk = 70, .H = 2, .D = 40});
  peaked("head_dim_64", "D = 64, f16", {.Lq = 40, .Lk = 70, .H = 2, .D = 64, .dtype = Dtype::f16});
  peaked("head_dim_96", "D = 96, f32", {.Lq = 40, .Lk = 70, .H = 2, .D = 96});
  peaked("head_dim_128", "D = 128, bf16, as models have it", {.Lq = 131, .Lk = 131, .H = 2, .D = 128, .dtype = Dtype::bf16});
  peaked("head_dim_192", "D = 192, f16", {.Lq = 40, .Lk = 70, .H = 2, .D = 192, .dtype = Dtype::f16});
  peaked("head_dim_255", "D = 255, bf16", {.Lq = 40, .Lk = 70, .H = 2, .D = 255, .dtype = Dtype::bf16});
  peaked("head_dim_256", "D = 256", {.Lq = 50, .Lk = 70, .H = 2, .D = 256});
  peaked("f16_no_mask", "f16 without the mask", {.B = 2, .Lq = 40, .Lk = 90, .H = 4, .Hk = 2, .D = 32, .dtype = Dtype::f16, .causal = false});
  peaked("bf16_grouped", "8 query heads on 2 key heads, bf16", {.Lq = 70, .Lk = 70, .H = 8, .Hk = 2, .D = 32, .dtype = Dtype::bf16});
  for (auto [H, Hk] : {std::pair<std::int64_t, std::int64_t>{3, 3}, {8, 2}, {7, 1}, {12, 4}})
    cases.push_back({"heads_" + std::to_string(H) + "_over_" + std::to_string(Hk), "v of key head n lies around 100*n", [H = H, Hk = Hk](Random& random) { return heads_apart(random, H, Hk); }});

  cases.push_back({"scores_near_minus_120", "an ordinary softmax, not zeros", [](Random& random) { return far_below_zero(random, Dtype::f32, -120); }});
  cases.push_back({"scores_near_minus_6e4", "s*log2(e) in f32 would be off by 4e-3", [](Random& random) { return far_below_zero(random, Dtype::f32, -6e4f); }});
  cases.push_back({"scores_near_plus_6e4", "the same above zero", [](Random& random) { return far_below_zero(random, Dtype::f32, 6e4f); }});
  cases.push_back({"scores_near_minus_6e4_f16", "the same in f16", [](Random& random) { return far_below_zero(random, Dtype::f16, -6e4f); }});
  cases.push_back({"scores_near_minus_6e4_bf16", "the same in bf16", [](Random& random) { return far_below_zero(random, Dtype::bf16, -6e4f); }});
  const Sizes line{.Lq = 150, .Lk = 150, .H = 2, .Hk = 1, .D = 8, .scale = 1.0f};
  cases.push_back({"rising_scores", "20*j: the maximum moves in every tile", scored(line, [](std::int64_t j) { return 20.0f * static_cast<float>(j); })});
  cases.push_back({"falling_scores", "-0.5*j: the maximum never moves after the first key", scored(line, [](std::int64_t j) { return -0.5f * static_cast<float>(j); })});
  cases.push_back({"gently_rising_scores", "j/16: every tile counts and every tile moves the maximum", scored(line, [](std::int64_t j) { return 0.0625f * static_cast<float>(j); })});
  cases.push_back({"scores_of_both_signs_1e5", "from -1e5 to 1e5 and back within a row",
                   scored(line, [](std::int64_t j) { return (j % 2 ? 1e5f : -1e5f) + 0.125f * static_cast<float>(j % 9); })});
  Sizes backwards = line;
  backwards.scale = -0.5f;
  cases.push_back({"negative_scale_rising", "scale = -0.5: the largest score belongs to the smallest q.k", scored(backwards, [](std::int64_t j) { return 40.0f * static_cast<float>(j % 50); })});
  cases.push_back({"negative_scale_huge", "scale = -0.5, q.k up to 2e5 below zero",
                   scored(backwards, [](std::int64_t j) { return -2e5f + 0.25f * static_cast<float>(j * 7 % 13); })});
  peaked("negative_scale", "scale = -0.25", {.Lq = 90, .Lk = 90, .H = 2, .D = 16, .scale = -0.25f});
  peaked("scale_0", "running mean of v", {.Lq = 90, .Lk = 90, .H = 2, .D = 16, .scale = 0.0f});
  peaked("scale_minus_0_chunk", "scale = -0, queries without a key", {.Lq = 90, .Lk = 33, .H = 2, .D = 16, .scale = -0.0f});
  peaked("tile_masked_for_some_rows", "Lq > Lk: rows without a key share tiles with rows that have some", {.Lq = 75, .Lk = 64, .H = 3, .D = 16});
  cases.push_back({"f16_products_past_65504", "raw q.k up to 4.2e6, scores near 65536", [](Random& random) { return raw_products_past_f16(random, 1); }});
  cases.push_back({"f16_products_past_minus_65504", "the same with a negative scale", [](Random& random) { return raw_products_past_f16(random, -1); }});
  cases.push_back({"weightless_giants", "keys of weight 0 with v of 3e38", weightless_giants});
  cases.push_back({"sums_past_f32", "v of 1e38 to 2e38: finite means of many keys", [](Random& random) { return sums_past_f32(random, Dtype::f32); }});
  cases.push_back({"sums_past_f32_bf16", "the same in bf16", [](Random& random) { return sums_past_f32(random, Dtype::bf16); }});
  cases.push_back({"first_70_tokens", "shares its first 70 tokens with the next case", [](Random&) { return shared_prefix(false); }});
  cases.push_back({"first_70_tokens_wild_after", "later k of 3e38, later v of -1e30: the first 70 rows are those of the case before", [](Random&) { return shared_prefix(true); }});
  add_rejections(cases);
  return cases;
}

}  // namespace faibench::flash_causal_attn_prefill
