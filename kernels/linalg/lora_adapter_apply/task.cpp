// lora_adapter_apply: contract, reference, workloads, floor. The gate is in gate.cpp, inputs and cases in inputs.cpp.
#include "task/task.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/linalg/lora_adapter_apply/gate.h"
#include "kernels/linalg/lora_adapter_apply/inputs.h"
#include "kernels/linalg/lora_adapter_apply/lora_adapter_apply.h"

namespace faibench {
namespace lora_adapter_apply {

namespace {

Rejected adapter_is_finite(const std::string& name, Matrix m) {
  for (std::int64_t r = 0; r < m.extent(0); ++r)
    for (std::int64_t c = 0; c < m.extent(1); ++c)
      if (!std::isfinite(m(r, c))) return reject("bad_adapter", name, r * m.extent(1) + c, std::to_string(m(r, c)), "must be finite");
  return std::nullopt;
}

}  // namespace

Rejected reference::apply(Matrix x, Matrix W, Matrix A, Matrix B, float scale, View<float, 2> y) {
  if (Rejected bad = adapter_is_finite("A", A)) return bad;
  if (Rejected bad = adapter_is_finite("B", B)) return bad;
  const std::int64_t T = x.extent(0), I = x.extent(1), O = W.extent(0), R = scale == 0 ? 0 : A.extent(0);
  std::vector<double> h(static_cast<std::size_t>(R));
  for (std::int64_t t = 0; t < T; ++t) {
    for (std::int64_t r = 0; r < R; ++r) {
      double sum = 0;
      for (std::int64_t i = 0; i < I; ++i) sum += static_cast<double>(A(r, i)) * static_cast<double>(x(t, i));
      h[static_cast<std::size_t>(r)] = sum;
    }
    for (std::int64_t o = 0; o < O; ++o) {
      double base = 0, correction = 0;
      for (std::int64_t i = 0; i < I; ++i) base += static_cast<double>(x(t, i)) * static_cast<double>(W(o, i));
      for (std::int64_t r = 0; r < R; ++r) correction += static_cast<double>(B(o, r)) * h[static_cast<std::size_t>(r)];
      y(t, o) = static_cast<float>(base + static_cast<double>(scale) * correction);
    }
  }
  return std::nullopt;
}

namespace {

Contract contract() {
  Contract c;
  c.input("x", {Dtype::f32}, {"T", "I"}, "activations, one row a token", "any f32");
  c.input("W", {Dtype::f32}, {"O", "I"}, "frozen base weight", "any f32");
  c.input("A", {Dtype::f32}, {"R", "I"}, "low-rank down projection", "finite");
  c.input("B", {Dtype::f32}, {"O", "R"}, "low-rank up projection", "finite");
  c.input("scale", {Dtype::f32}, {}, "factor of the correction", "finite; 0 and negative allowed");
  c.output("y", {Dtype::f32}, {"T", "O"}, "the layer's output");
  c.rule("bad_scale", "scale is NaN or Inf", CheckedBy::runner, [](const TensorRefMap& inputs) -> Rejected {
    if (std::isfinite(inputs.at("scale").scalar<float>())) return std::nullopt;
    return reject("bad_scale", "scale", 0, element_text(inputs.at("scale"), 0), "must be finite");
  });
  c.rule("bad_adapter", "an element of A, then of B, is NaN or Inf", CheckedBy::variant, [](const TensorRefMap& inputs) -> Rejected {
    if (Rejected bad = adapter_is_finite("A", inputs.at("A").view<const float, 2>())) return bad;
    return adapter_is_finite("B", inputs.at("B").view<const float, 2>());
  });
  return c;
}

Floor cost(const TensorRefMap& inputs) {
  const auto T = static_cast<double>(inputs.at("x").shape[0]), I = static_cast<double>(inputs.at("x").shape[1]), O = static_cast<double>(inputs.at("W").shape[0]),
             R = static_cast<double>(inputs.at("A").shape[0]);
  return {4 * (T * I + O * I + R * (I + O) + T * O), 2 * T * O * I + std::min(2 * T * R * (I + O), 2 * O * I * R)};
}

Workload workload(std::string name, Sizes sizes, double seconds, const std::string& remark = "") {
  const std::string text = "T, I, O, R = " + std::to_string(sizes.T) + ", " + std::to_string(sizes.I) + ", " + std::to_string(sizes.O) + ", " + std::to_string(sizes.R);
  return {std::move(name), text + "; x normal(0,1), W and A normal/sqrt(I), B normal(0,0.1), scale 2; also gated on integers" + remark,
          {[sizes](Random& random) { return layer_inputs(random, sizes); }}, seconds, {[sizes](Random& random) { return exact_inputs(random, sizes); }}};
}

Task make() {
  Task task;
  task.name = "lora_adapter_apply";
  task.group = "linalg";
  task.summary = "A frozen linear layer with a low-rank correction";
  task.semantics =
      "y = x@W^T + scale*((x@A^T)@B^T), in any algebraically equal form. R = 0 or scale = 0: y = x@W^T. NaN and Inf in a row of x or W stay in that row or column of y. "
      "W is not modified; nothing made of W, A or B is kept from call to call.";
  task.contract = contract();
  const std::vector<std::string> names = {"x", "W", "A", "B", "scale", "y"};
  task.variants = {
      {"reference", Kernel({bind(reference::apply, names)}), "the definition in f64, one output at a time"},
      {"baseline", Kernel({bind(baseline::apply, names)}), "three products and two elementwise passes, each into memory of its own"},
      {"cpu", Kernel({bind(cpu::apply, names)}), "the correction as R more steps of one packed product: y is written once"},
      {"peer:five_pass", Kernel({bind(five_pass::apply, names)}), "the baseline's five passes with the product kernel of `cpu`"},
      on_device("cuda_baseline", "three products with a thread an output and two elementwise kernels"),
      on_device("cuda", "h first, then a base product whose main loop runs on over R more steps"),
      on_device("cuda_five_pass", "the baseline's five kernels with the product of `cuda`"),
  };
  Workload smoke{"smoke", "T, I, O, R = 33, 65, 70, 5; uniform [-1,1), scale 2; also gated on integers", {[](Random& random) { return uniform_inputs(random, {33, 65, 70, 5}); }}, 0.001,
                 {[](Random& random) { return exact_inputs(random, {33, 65, 70, 5}); }}};
  task.workloads = {std::move(smoke),
                    workload("standard", {512, 1024, 1024, 16}, 0.3),
                    workload("gpu", {4096, 4096, 4096, 16}, 50),
                    workload("one_token", {1, 4096, 4096, 64}, 0.01, "; reported, not scored"),
                    workload("few_tokens", {16, 4096, 11008, 8}, 0.5, "; reported, not scored"),
                    workload("wide_adapter", {2048, 512, 512, 128}, 0.5, "; reported, not scored")};
  task.cases = cases();
  task.random_case = [](Random& random) {
    const Sizes sizes{random.between(0, 40), random.between(0, 70), random.between(0, 70), random.between(0, 20)};
    if (random.chance(0.3)) return exact_inputs(random, sizes);
    const double kind = random.uniform();
    TensorMap inputs = uniform_inputs(random, sizes, kind < 0.1 ? 0.0f : static_cast<float>(random.uniform(-3, 3)));
    if (random.chance(0.2) && sizes.T * sizes.I > 0) inputs.at("x").flat<float>()[static_cast<std::size_t>(random.below(sizes.T * sizes.I))] = static_cast<float>(kind < 0.5 ? NAN : HUGE_VAL);
    return inputs;
  };
  task.gate.text = "`y`: |y - ref| <= 2^-24*(I+R+8)*S + 2^-126 with S = |x|@|W|^T + |scale|*(|x|@|A|^T)@|B|^T in f64; exact where x[t], W[o], B[o], A and scale are integers and S <= 2^24; "
                   "not compared where S >= 2^127 on finite data";
  task.gate.check = check_y;
  task.gate.needs_expected = false;
  task.floor = cost;
  task.floor_text = "2*T*O*I operations for the base and the cheaper of 2*T*R*(I+O) (unmerged) and 2*O*I*R (merged); 4*(T*I + O*I + R*(I+O) + T*O) bytes";
  return task;
}

}  // namespace
}  // namespace lora_adapter_apply

namespace tasks {
const Task& lora_adapter_apply() {
  static const Task task = faibench::lora_adapter_apply::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
