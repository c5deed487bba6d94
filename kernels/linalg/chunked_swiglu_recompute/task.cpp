// chunked_swiglu_recompute: contract, reference, gate, workloads, floor. Inputs and cases are in inputs.cpp, the gate's f64 answer in expected.cpp.
#include "task/task.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/linalg/chunked_swiglu_recompute/chunked_swiglu_recompute.h"
#include "kernels/linalg/chunked_swiglu_recompute/expected.h"
#include "kernels/linalg/chunked_swiglu_recompute/inputs.h"
#include "kernels/linalg/chunked_swiglu_recompute/ranks.h"

namespace faibench {
namespace chunked_swiglu_recompute {

void reference::gated_mlp_fwd_bwd(Matrix x, Matrix w_gate, Matrix w_up, Matrix w_down, Matrix dy, std::int64_t, Result y, Result dx) {
  const std::int64_t T = x.extent(0), D = x.extent(1), F = w_gate.extent(0);
  std::vector<double> h(static_cast<std::size_t>(F)), dg(h.size()), du(h.size());
  for (std::int64_t t = 0; t < T; ++t) {
    for (std::int64_t f = 0; f < F; ++f) {
      double g = 0, u = 0, dh = 0;
      for (std::int64_t d = 0; d < D; ++d) {
        g += static_cast<double>(x(t, d)) * static_cast<double>(w_gate(f, d));
        u += static_cast<double>(x(t, d)) * static_cast<double>(w_up(f, d));
        dh += static_cast<double>(dy(t, d)) * static_cast<double>(w_down(d, f));
      }
      const double sig = 1 / (1 + std::exp(-g)), a = g * sig;  // exp(-g) may be infinite: sig is 0 then
      const auto i = static_cast<std::size_t>(f);
      h[i] = a * u;
      du[i] = dh * a;
      dg[i] = dh * u * sig * (1 + g * (1 - sig));
    }
    for (std::int64_t d = 0; d < D; ++d) {
      double forward = 0, backward = 0;
      for (std::int64_t f = 0; f < F; ++f) {
        const auto i = static_cast<std::size_t>(f);
        forward += h[i] * static_cast<double>(w_down(d, f));
        backward += dg[i] * static_cast<double>(w_gate(f, d)) + du[i] * static_cast<double>(w_up(f, d));
      }
      y(t, d) = static_cast<float>(forward);
      dx(t, d) = static_cast<float>(backward);
    }
  }
}

namespace {

// Double y and dx against f32 or, from a case file, f32 against f32.
GateResult check_rows(const std::string& name, const TensorRef& got, const TensorRef& wanted, double t) {
  if (auto bad = same_form(name, got, wanted)) return bad;
  const std::int64_t rows = got.shape[0], width = got.shape[1];
  const auto out = got.view<const float, 2>();
  const auto wrong = [&](std::int64_t r, std::int64_t c, double ratio) {
    const std::int64_t flat = r * width + c;
    return Mismatch{name, {r, c}, element_text(got, flat), element_text(wanted, flat), ratio, ""};
  };
  return visit_dtype(wanted.dtype, [&]<class W>(W) -> GateResult {
    if constexpr (std::is_floating_point_v<W>) {
      const auto ref = wanted.view<const W, 2>();
      for (std::int64_t r = 0; r < rows; ++r) {
        double largest = 0;
        for (std::int64_t c = 0; c < width; ++c)
          if (std::isfinite(ref(r, c))) largest = std::max(largest, std::abs(static_cast<double>(ref(r, c))));
        for (std::int64_t c = 0; c < width; ++c) {
          const double o = static_cast<double>(out(r, c)), w = static_cast<double>(ref(r, c)), allowed = t * std::abs(w) + t * largest + 0x1p-120;
          if (std::isfinite(w) ? std::abs(o - w) <= allowed : std::isnan(w) ? std::isnan(o) : o == w) continue;
          return wrong(r, c, std::isfinite(w) && std::isfinite(o) ? std::abs(o - w) / allowed : HUGE_VAL);
        }
      }
    }
    return std::nullopt;
  });
}

GateResult check(const GateCall& call) {
  const double D = static_cast<double>(call.inputs.at("w_gate").shape[1]), F = static_cast<double>(call.inputs.at("w_gate").shape[0]);
  const double t = 0x1p-24 * (128 + 8 * std::sqrt(D + F));
  for (const char* name : {"y", "dx"}) {
    const TensorRef* got = call.outputs.find(name);
    if (!got) return Mismatch{name, {}, "", "", 0, "output is missing"};
    if (auto bad = check_rows(name, *got, call.expected.at(name), t)) return bad;
  }
  return std::nullopt;
}

Contract contract() {
  Contract c;
  c.input("x", {Dtype::f32}, {"T", "D"}, "activation, one row a token", "any f32");
  c.input("w_gate", {Dtype::f32}, {"F", "D"}, "gate projection", "any f32");
  c.input("w_up", {Dtype::f32}, {"F", "D"}, "up projection", "any f32");
  c.input("w_down", {Dtype::f32}, {"D", "F"}, "down projection", "any f32");
  c.input("dy", {Dtype::f32}, {"T", "D"}, "upstream gradient", "any f32");
  c.input("chunk_size", {Dtype::i64}, {}, "tokens a chunk", ">= 1; may exceed T");
  c.output("y", {Dtype::f32}, {"T", "D"}, "forward result");
  c.output("dx", {Dtype::f32}, {"T", "D"}, "gradient of sum(dy*y) with respect to x");
  c.rule("bad_chunk_size", "chunk_size < 1", CheckedBy::runner, [](const TensorRefMap& inputs) -> Rejected {
    if (inputs.at("chunk_size").scalar<std::int64_t>() >= 1) return std::nullopt;
    return reject("bad_chunk_size", "chunk_size", 0, element_text(inputs.at("chunk_size"), 0), "must be at least 1");
  });
  return c;
}

/// 4*c*(6*F + 4*D) bytes and `fixed`.
std::function<std::int64_t(const TensorRefMap&)> memory_limit(std::int64_t fixed) {
  return [fixed](const TensorRefMap& inputs) {
    const std::int64_t T = inputs.at("x").shape[0], D = inputs.at("x").shape[1], F = inputs.at("w_gate").shape[0];
    return 4 * std::min(inputs.at("chunk_size").scalar<std::int64_t>(), T) * (6 * F + 4 * D) + fixed;
  };
}

Generator generator(Sizes sizes) {
  return [sizes](Random& random) { return layer_inputs(random, sizes); };
}

Workload workload(std::string name, Sizes sizes, double seconds) {
  const std::string text = "T, D, F, chunk = " + std::to_string(sizes.T) + ", " + std::to_string(sizes.D) + ", " + std::to_string(sizes.F) + ", " + std::to_string(sizes.chunk_size);
  return {std::move(name), text + "; x, dy normal(0,1), weights normal/sqrt(fan-in)", {generator(sizes)}, seconds};
}

constexpr Sizes memory_64{8192, 64, 512, 64}, memory_1024{8192, 64, 512, 1024};

Task make() {
  Task task;
  task.name = "chunked_swiglu_recompute";
  task.group = "linalg";
  task.summary = "SwiGLU forward and backward whose peak memory follows a token chunk";
  task.semantics =
      "g = x@w_gate^T, u = x@w_up^T, a = g*sig(g), h = a*u, y = h@w_down^T; dh = dy@w_down, du = dh*a, dg = dh*u*sig(g)*(1 + g*(1 - sig(g))), dx = dg@w_gate + du@w_up. "
      "The same result for every chunk_size. A call holds at most 4*c*(6*F + 4*D) bytes + 16 MiB (64 MiB on a device) besides its tensors, c = min(chunk_size, T); the judge counts.";
  task.contract = contract();
  const std::vector<std::string> names = {"x", "w_gate", "w_up", "w_down", "dy", "chunk_size", "y", "dx"};
  task.variants = {
      {"reference", Kernel({bind(reference::gated_mlp_fwd_bwd, names)}), "the definition in f64, one token at a time"},
      {"baseline", Kernel({bind(baseline::gated_mlp_fwd_bwd, names)}), "every intermediate of all tokens kept, every step a pass"},
      {"cpu", Kernel({bind(cpu::gated_mlp_fwd_bwd, names)}), "blocks of tokens in three buffers, elementwise steps where a product's tile is finished"},
      on_device("cuda_baseline", "every intermediate kept, a thread an output"),
      on_device("cuda", "blocks of tokens in three buffers, elementwise steps in the products' epilogues"),
  };
  Workload memory = workload("memory", memory_64, 3);
  memory.description = "T, D, F = 8192, 64, 512 with chunks of 64 and of 1024, one after the other; x, dy normal(0,1), weights normal/sqrt(fan-in); reported, not scored";
  memory.parts.push_back(generator(memory_1024));
  task.workloads = {workload("smoke", {37, 24, 40, 8}, 0.001), workload("standard", {512, 256, 688, 64}, 0.35), std::move(memory), workload("gpu", {32768, 4096, 11008, 2048}, 9000)};
  task.cases = cases();
  task.random_case = [](Random& random) {
    // The gate measures a row by its largest element. Where there are few elements, or few gates that all are products of, all of them may cancel: f32 cannot keep that for every draw.
    const std::int64_t T = random.between(0, 40), D = random.chance(0.05) ? 0 : random.between(4, 30), F = random.chance(0.05) ? 0 : random.between(8, 50);
    TensorMap inputs = layer_inputs(random, {T, D, F, random.between(1, 50)});
    if (T * D > 0 && random.chance(0.2)) inputs.at(random.chance(0.5) ? "x" : "dy").flat<float>()[static_cast<std::size_t>(random.below(T * D))] = NAN;
    if (F >= 12 && random.chance(0.2))  // of few gates all may be far below 0, where y is made of the errors of g
      for (float& w : inputs.at("w_gate").flat<float>()) w *= 10;
    return inputs;
  };
  task.gate.text = "`y`, `dx`: |out - ref| <= t*|ref| + t*max of the row's |ref| + 2^-120, ref in f64, t = 2^-24*(128 + 8*sqrt(D+F)); NaN and Inf where ref has them. "
                   "Memory: at most 4*c*(6*F + 4*D) bytes + 16 MiB beyond inputs and outputs, c = min(chunk_size, T), counted on the workload `memory` with both chunk sizes";
  task.gate.check = check;
  task.gate.baseline_is_expected = false;
  task.expected = expected;
  constexpr std::int64_t mebibyte = 1 << 20;
  task.memory = MemoryGate{memory_limit(16 * mebibyte), memory_limit(64 * mebibyte),
                           {{"chunks of 64", generator(memory_64)}, {"chunks of 1024", generator(memory_1024)}, {"chunks of 64 after larger ones", generator(memory_64)}}};
  task.floor = [](const TensorRefMap& inputs) {
    const auto T = static_cast<double>(inputs.at("x").shape[0]), D = static_cast<double>(inputs.at("x").shape[1]), F = static_cast<double>(inputs.at("w_gate").shape[0]);
    return Floor{4 * (4 * T * D + 3 * D * F), 12 * T * D * F};
  };
  task.floor_text = "12*T*D*F operations (six products), x, dy, y, dx and the three weights through memory once";
  task.multi_rank = multi_rank(task);
  return task;
}

}  // namespace
}  // namespace chunked_swiglu_recompute

namespace tasks {
const Task& chunked_swiglu_recompute() {
  static const Task task = faibench::chunked_swiglu_recompute::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
