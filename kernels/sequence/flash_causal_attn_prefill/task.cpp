// flash_causal_attn_prefill: contract, rejections, reference, workloads, gate, floor. The fixed cases are in cases.cpp.
#include "task/task.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/sequence/flash_causal_attn_prefill/flash_causal_attn_prefill.h"
#include "kernels/sequence/flash_causal_attn_prefill/inputs.h"

namespace faibench {
namespace flash_causal_attn_prefill {
namespace {

/// Number of keys that query i sees: keys 0 .. n-1.
std::int64_t visible_keys(std::int64_t i, std::int64_t Lq, std::int64_t Lk, bool causal) {
  return causal ? std::clamp<std::int64_t>(i + (Lk - Lq) + 1, 0, Lk) : Lk;
}

// The definition in f64, one query at a time, visible keys only; Out is T or, for the gate, double.
template <class T, class Out>
void attend_in_f64(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, float scale, bool causal, View<Out, 4> out) {
  const std::int64_t B = q.extent(0), Lq = q.extent(1), H = q.extent(2), D = q.extent(3), Lk = k.extent(1), Hk = k.extent(2);
  std::vector<double> p(static_cast<std::size_t>(Lk)), sum(static_cast<std::size_t>(D));
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t i = 0; i < Lq; ++i)
      for (std::int64_t h = 0; h < H; ++h) {
        const std::int64_t kh = h / (H / Hk), visible = visible_keys(i, Lq, Lk, causal);
        double maximum = -HUGE_VAL, total = 0;
        const T* query = &q(b, i, h, 0);
        for (std::int64_t j = 0; j < visible; ++j) {
          const T* key = &k(b, j, kh, 0);
          double dot = 0;
          for (std::int64_t d = 0; d < D; ++d) dot += static_cast<double>(to_float(query[d])) * static_cast<double>(to_float(key[d]));
          p[static_cast<std::size_t>(j)] = static_cast<double>(scale) * dot;
          maximum = std::max(maximum, p[static_cast<std::size_t>(j)]);
        }
        std::fill(sum.begin(), sum.end(), 0.0);
        for (std::int64_t j = 0; j < visible; ++j) {
          const T* value = &v(b, j, kh, 0);
          const double weight = std::exp(p[static_cast<std::size_t>(j)] - maximum);
          total += weight;
          for (std::int64_t d = 0; d < D; ++d) sum[static_cast<std::size_t>(d)] += weight * static_cast<double>(to_float(value[d]));
        }
        for (std::int64_t d = 0; d < D; ++d) out(b, i, h, d) = round_to<Out>(visible > 0 ? sum[static_cast<std::size_t>(d)] / total : 0.0);
      }
}

}  // namespace

template <class T>
void reference::causal_attention(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, float scale, bool causal, View<T, 4> out) {
  attend_in_f64(q, k, v, scale, causal, out);
}

namespace {

TensorMap expected(const TensorRefMap& inputs) {
  const TensorRef& q = inputs.at("q");
  TensorMap outputs;
  Tensor& out = outputs.add("out", Tensor(Dtype::f64, q.shape));
  const auto attend = [&]<class T>(T) {
    attend_in_f64(q.view<const T, 4>(), inputs.at("k").view<const T, 4>(), inputs.at("v").view<const T, 4>(), inputs.at("scale").scalar<float>(),
                  static_cast<bool>(inputs.at("causal").scalar<Bool8>()), out.view<double, 4>());
  };
  if (q.dtype == Dtype::f32) attend(float{});
  if (q.dtype == Dtype::f16) attend(f16{});
  if (q.dtype == Dtype::bf16) attend(bf16{});
  return outputs;
}

Contract contract() {
  Contract c;
  c.input("q", {Dtype::f32, Dtype::f16, Dtype::bf16}, {"B", "Lq", "H", "D"}, "queries", "finite; B, Lq >= 0");
  c.input_like("k", "q", {"B", "Lk", "Hk", "D"}, "keys", "finite; Lk >= 0");
  c.input_like("v", "q", {"B", "Lk", "Hk", "D"}, "values", "finite");
  c.input("scale", {Dtype::f32}, {}, "factor on the scores", "finite; zero and negative allowed");
  c.input("causal", {Dtype::bool_}, {}, "mask the future");
  c.output_like("out", "q", {"B", "Lq", "H", "D"}, "the weighted average of v for every query and head");
  c.rule("bad_head_dim", "D < 1 or D > 256", CheckedBy::runner, [](const TensorRefMap& inputs) -> Rejected {
    const std::int64_t D = inputs.at("q").shape[3];
    if (D >= 1 && D <= 256) return std::nullopt;
    return reject("bad_head_dim", "q", -1, to_string(inputs.at("q").shape), "D is " + std::to_string(D) + ", must be 1 to 256");
  });
  c.rule("bad_heads", "H < 1, Hk < 1 or H mod Hk != 0", CheckedBy::runner, [](const TensorRefMap& inputs) -> Rejected {
    const std::int64_t H = inputs.at("q").shape[2], Hk = inputs.at("k").shape[2];
    if (H < 1) return reject("bad_heads", "q", -1, to_string(inputs.at("q").shape), "H is " + std::to_string(H) + ", must be at least 1");
    if (Hk < 1 || H % Hk != 0)
      return reject("bad_heads", "k", -1, to_string(inputs.at("k").shape), "Hk is " + std::to_string(Hk) + ", must be at least 1 and divide H = " + std::to_string(H));
    return std::nullopt;
  });
  c.rule("bad_scale", "scale is NaN or infinite", CheckedBy::runner, [](const TensorRefMap& inputs) -> Rejected {
    if (std::isfinite(inputs.at("scale").scalar<float>())) return std::nullopt;
    return reject("bad_scale", "scale", 0, element_text(inputs.at("scale"), 0), "must be finite");
  });
  return c;
}

// Exact counts: pairs under the mask, and the rows of q and k that some pair needs.
Floor cost(const TensorRefMap& inputs) {
  const Shape &q = inputs.at("q").shape, &k = inputs.at("k").shape;
  const bool causal = static_cast<bool>(inputs.at("causal").scalar<Bool8>());
  double pairs = 0, seeing = 0, seen = 0;
  for (std::int64_t i = 0; i < q[1]; ++i) {
    const auto visible = static_cast<double>(visible_keys(i, q[1], k[1], causal));
    pairs += visible;
    seeing += visible > 0 ? 1 : 0;
    seen = std::max(seen, visible);
  }
  const double B = static_cast<double>(q[0]), row_q = static_cast<double>(q[2] * q[3]), row_k = static_cast<double>(k[2] * k[3]);
  const double elements = B * (row_q * (seeing + static_cast<double>(q[1])) + 2 * row_k * seen);
  return {elements * static_cast<double>(size_of(inputs.at("q").dtype)), 4 * B * row_q * pairs};
}

Workload workload(std::string name, std::string description, const Sizes& sizes, double seconds) {
  return {std::move(name), std::move(description), {[sizes](Random& random) { return peaked_inputs(random, sizes); }}, seconds};
}

template <class T>
Kernel::Overload overload(void (*function)(View<const T, 4>, View<const T, 4>, View<const T, 4>, float, bool, View<T, 4>)) {
  return bind(function, {"q", "k", "v", "scale", "causal", "out"});
}

Task make() {
  Task task;
  task.name = "flash_causal_attn_prefill";
  task.group = "sequence";
  task.summary = "Attention of a whole prompt, with or without the causal mask";
  task.semantics =
      "Query head h reads key head h / (H/Hk). s[i,j] = scale * sum_d q[i,d]*k[j,d]; with `causal`, key j is visible to query i if j <= i + (Lk - Lq). "
      "out[i] = sum_j softmax_j(s[i,:])*v[j] over the visible keys; zeros where there is none. A row depends on nothing past its last visible key.";
  task.contract = contract();
  task.variants = {
      {"reference", Kernel({overload(reference::causal_attention<float>), overload(reference::causal_attention<f16>), overload(reference::causal_attention<bf16>)}),
       "the definition in f64, one query at a time"},
      {"baseline", Kernel({overload(baseline::causal_attention<float>), overload(baseline::causal_attention<f16>), overload(baseline::causal_attention<bf16>)}),
       "all scores of a head in memory, the masked ones too, pass after pass"},
      {"cpu", Kernel({overload(cpu::causal_attention<float>), overload(cpu::causal_attention<f16>), overload(cpu::causal_attention<bf16>)}),
       "queries of a head group on the vector lanes, online softmax, tiles past the diagonal skipped, longest rows first over threads"},
      on_device("cuda_baseline", "one kernel an operation over all heads, all scores in device memory"),
      on_device("cuda", "tensor-core tiles of 128 queries and 32 keys, online softmax in registers; f32 as sums of two tf32 numbers"),
  };
  const std::string distribution = "scale = D^-0.5; k, v ~ N(0,1), q[i] = k[t(i)] + N(0,1), t(i) uniform over the visible keys";
  task.workloads = {
      workload("smoke", "B = 1, Lq = Lk = 96, H = 4, Hk = 2, D = 32, f32, causal; " + distribution, {.Lq = 96, .Lk = 96, .H = 4, .Hk = 2, .D = 32}, 0.001),
      workload("standard", "B = 1, Lq = Lk = 2048, H = 4, Hk = 1, D = 64, f32, causal; " + distribution, {.Lq = 2048, .Lk = 2048, .H = 4, .Hk = 1, .D = 64}, 1.3),
      workload("gpu", "B = 2, Lq = Lk = 8192, H = 32, Hk = 8, D = 128, bf16, causal; " + distribution,
               {.B = 2, .Lq = 8192, .Lk = 8192, .H = 32, .Hk = 8, .D = 128, .dtype = Dtype::bf16}, 600),
  };
  task.cases = cases();
  task.random_case = random_inputs;
  task.gate = close_gate({{"out", Dtype::f32, 1e-4, 3e-5}, {"out", Dtype::f16, 2e-3, 6e-4}, {"out", Dtype::bf16, 1.6e-2, 5e-3}});
  task.gate.text = "`out`: f32 close(1e-4, 3e-5), f16 close(2e-3, 6e-4), bf16 close(1.6e-2, 5e-3)";
  task.expected = expected;
  task.floor = cost;
  task.floor_text = "4*D operations for each visible (query, key) pair; q and out (B*Lq*H*D) and k and v (B*Lk*Hk*D) through memory once, without what no pair needs";
  return task;
}

}  // namespace
}  // namespace flash_causal_attn_prefill

namespace tasks {
const Task& flash_causal_attn_prefill() {
  static const Task task = faibench::flash_causal_attn_prefill::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
