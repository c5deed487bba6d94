// fused_global_grad_clip: contract, reference, gate, floor. The cases are in cases.cpp, the values of workloads in workloads.cpp, the multi-rank form in ranks.cpp.
#include "task/task.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/training/fused_global_grad_clip/fused_global_grad_clip.h"
#include "kernels/training/fused_global_grad_clip/ranks.h"
#include "kernels/training/fused_global_grad_clip/workloads.h"

namespace faibench {
namespace fused_global_grad_clip {
namespace {

template <class T>
double norm_of(std::span<const T> values) {
  double sum = 0;
  for (T value : values) sum += static_cast<double>(to_float(value)) * to_float(value);
  return std::sqrt(sum);
}

template <class T>
Rejected check_finite(std::span<const T> grads, std::span<const std::int64_t> offsets) {
  for (std::size_t k = 0; k + 1 < offsets.size(); ++k) {
    const double norm = norm_of<T>(grads.subspan(static_cast<std::size_t>(offsets[k]), static_cast<std::size_t>(offsets[k + 1] - offsets[k])));
    if (!std::isfinite(norm)) return reject("nonfinite_norm", "grads", offsets[k], std::to_string(norm), "norm of tensor " + std::to_string(k) + ", which starts here");
  }
  return std::nullopt;
}

Rejected check_nonfinite(const TensorRefMap& inputs) {
  if (!inputs.at("error_if_nonfinite").scalar<Bool8>()) return std::nullopt;
  const auto offsets = inputs.at("offsets").flat<const std::int64_t>();
  if (inputs.at("grads").dtype == Dtype::f32) return check_finite<float>(inputs.at("grads").flat<const float>(), offsets);
  return check_finite<bf16>(inputs.at("grads").flat<const bf16>(), offsets);
}

}  // namespace

template <class T>
Rejected reference::clip_gradients(View<const T, 1> grads, View<const std::int64_t, 1> offsets, double max_norm, bool error_if_nonfinite, View<T, 1> clipped, View<float, 0> total_norm,
                                   View<float, 1> tensor_norms) {
  if (error_if_nonfinite)
    if (Rejected rejected = check_finite<T>(grads.flat(), offsets.flat())) return rejected;
  double sum = 0;
  for (std::int64_t k = 0; k + 1 < offsets.extent(0); ++k) {
    const double norm = norm_of<T>(grads.flat().subspan(static_cast<std::size_t>(offsets[k]), static_cast<std::size_t>(offsets[k + 1] - offsets[k])));
    tensor_norms[k] = static_cast<float>(norm);
    sum += norm * norm;
  }
  const double total = std::sqrt(sum), c = max_norm / (total + 1e-6);
  total_norm() = static_cast<float>(total);
  for (std::int64_t i = 0; i < grads.extent(0); ++i) clipped[i] = c >= 1 ? grads[i] : round_to<T>(static_cast<double>(to_float(grads[i])) * c);
  return std::nullopt;
}

namespace {

/// Which elements are within |out - ref| <= rtol*|ref| + atol; false sends the caller to the exact statement of the rule.
template <class T>
bool all_close(std::span<const T> out, std::span<const T> ref, double rtol, double atol) {
  bool good = true;
#pragma omp parallel for schedule(static) reduction(&& : good) if (out.size() > 100'000)
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double a = to_float(out[i]), b = to_float(ref[i]);
    good = good && std::abs(a - b) <= rtol * std::abs(b) + atol;
  }
  return good;
}

}  // namespace

GateResult check_clip(const GateCall& call) {
  const TensorRef *clipped = call.outputs.find("clipped"), *expected = call.expected.find("clipped");
  const TensorRef& grads = call.inputs.at("grads");
  if (!clipped) return Mismatch{"clipped", {}, "", "", 0, "output is missing"};
  if (auto bad = same_form("clipped", *clipped, *expected)) return bad;
  const std::vector<Tolerance> norms = {{"total_norm", Dtype::f32, 2e-6, 0}, {"tensor_norms", Dtype::f32, 2e-6, 0}};
  const bool f32 = grads.dtype == Dtype::f32;
  TensorRefMap rest;
  for (const auto& [name, tensor] : call.expected)
    if (name != "clipped") rest.add(name, tensor);
  if (auto bad = close_outputs({call.inputs, call.outputs, rest, call.probes}, norms)) return bad;

  double total = call.expected.at("total_norm").scalar<float>();
  if (std::isinf(total))  // above the range of f32, or infinite
    total = f32 ? norm_of<float>(grads.flat<const float>()) : norm_of<bf16>(grads.flat<const bf16>());
  const double c = call.inputs.at("max_norm").scalar<double>() / (total + 1e-6);
  TensorRefMap wanted;
  if (c >= 1 + 1e-5) {
    if (clipped->bytes() == 0 || std::memcmp(clipped->data, grads.data, static_cast<std::size_t>(clipped->bytes())) == 0) return std::nullopt;
    wanted.add("clipped", grads);
    return exact_outputs({call.inputs, call.outputs, wanted, call.probes});
  }
  const double rtol = f32 ? 2e-6 : 8e-3, atol = 1.2e-38;
  if (f32 && expected->dtype == Dtype::f32 && all_close<float>(clipped->flat<const float>(), expected->flat<const float>(), rtol, atol)) return std::nullopt;
  if (!f32 && expected->dtype == Dtype::bf16 && all_close<bf16>(clipped->flat<const bf16>(), expected->flat<const bf16>(), rtol, atol)) return std::nullopt;
  wanted.add("clipped", *expected);
  return close_outputs({call.inputs, call.outputs, wanted, call.probes}, {{"clipped", grads.dtype, rtol, atol}});
}

namespace {

Task make() {
  Task task;
  task.name = "fused_global_grad_clip";
  task.group = "training";
  task.summary = "Scale all gradient tensors so that their joint L2 norm stays under a bound";
  task.semantics =
      "T = sqrt(sum g^2) over all elements, accumulated so that no square overflows or vanishes; factor = min(max_norm / (T + 1e-6), 1), a NaN kept; clipped = g * factor, rounded once; "
      "factor 1 leaves every bit. total_norm and tensor_norms are the norms before clipping.";
  task.contract.input("grads", {Dtype::f32, Dtype::bf16}, {"G"}, "all gradient tensors, one after the other", "any, Inf and NaN too");
  task.contract.input("offsets", {Dtype::i64}, {"K+1"}, "tensor k is grads[offsets[k] .. offsets[k+1])", "0 first, not decreasing, G last").last_offset = Extent("G");
  task.contract.input("max_norm", {Dtype::f64}, {}, "the bound", ">= 0; +Inf never clips");
  task.contract.input("error_if_nonfinite", {Dtype::bool_}, {}, "reject instead of scaling when the norm is Inf or NaN");
  task.contract.output_like("clipped", "grads", {"G"}, "the scaled gradients");
  task.contract.output("total_norm", {Dtype::f32}, {}, "norm before clipping");
  task.contract.output("tensor_norms", {Dtype::f32}, {"K"}, "L2 norm of each tensor before clipping");
  task.contract.rule("bad_max_norm", "max_norm is NaN or negative (-0 counts as 0)", CheckedBy::runner, [](const TensorRefMap& inputs) -> Rejected {
    const double max_norm = inputs.at("max_norm").scalar<double>();
    if (max_norm >= 0) return std::nullopt;
    return reject("bad_max_norm", "max_norm", -1, std::to_string(max_norm), "the bound must be 0 or more");
  });
  task.contract.rule("nonfinite_norm", "error_if_nonfinite and the norm is Inf or NaN", CheckedBy::variant, check_nonfinite);
  const std::vector<std::string> names = {"grads", "offsets", "max_norm", "error_if_nonfinite", "clipped", "total_norm", "tensor_norms"};
  task.variants = {
      {"reference", Kernel({bind(reference::clip_gradients<float>, names), bind(reference::clip_gradients<bf16>, names)}), "element after element in f64"},
      {"baseline", Kernel({bind(baseline::clip_gradients<float>, names), bind(baseline::clip_gradients<bf16>, names)}), "tensor by tensor: a running sum of squares, then a second loop that scales"},
      {"cpu", Kernel({bind(cpu::clip_gradients<float>, names), bind(cpu::clip_gradients<bf16>, names)}),
       "segments of the flat buffer on all threads, several chains of sums, streamed stores; copied in the first pass where a sample says that nothing will be clipped"},
      on_device("cuda_baseline", "tensor by tensor, a kernel an operation: square, sum, root; then scale", {"offsets"}),
      on_device("cuda", "four launches for any number of tensors: segments of a flat buffer a warp each, then 16 bytes a thread backwards"),
  };
  const auto standard = [](double max_norm) {
    return Generator([max_norm](Random& random) { return normal_gradients(random, transformer_lengths(7), Dtype::f32, 1e-5, 1e-2, max_norm); });
  };
  const auto gpu = [](double max_norm) { return Generator([max_norm](Random& random) { return normal_gradients(random, gpu_lengths(random), Dtype::bf16, 1e-5, 1e-2, max_norm); }); };
  task.workloads = {
      {"smoke", "40 tensors, G about 100k, f32; normal(0, 1e-3), max_norm = 0.1: clipped",
       {[](Random& random) {
         const std::vector<std::int64_t> lengths = small_lengths(random);
         return normal_gradients(random, lengths, Dtype::f32, 1e-3, 1e-3, 0.1);
       }},
       0.0003},
      {"standard", "layout of a 24-layer transformer, hidden 1024, scaled to G about 1e8, f32; normal, sigma of each tensor log-uniform in 1e-5 .. 1e-2; max_norm = 1 (clipped), then 1e6 (not)",
       {standard(1), standard(1e6)}, 0.5},
      {"gpu", "bf16, 8192 tensors: 6000 of 256 to 4096 elements, the rest of 16k to 1M, G about 4e8; the same values and bounds", {gpu(1), gpu(1e6)}, 2},
  };
  task.cases = cases();
  task.random_case = random_input;
  task.gate.text =
      "clipped: where the factor is 1 (c >= 1 + 1e-5) exact, else close(2e-6, 1.2e-38) for f32 and close(8e-3, 1.2e-38) for bf16; total_norm, tensor_norms: close(2e-6, 0); "
      "NaN where and only where the reference is NaN, the same infinity";
  task.gate.check = check_clip;
  task.floor = [](const TensorRefMap& inputs) {
    const TensorRef& grads = inputs.at("grads");
    return Floor{2.0 * static_cast<double>(grads.bytes()), 3.0 * static_cast<double>(grads.size())};
  };
  task.floor_text = "2 G elements of bytes (read once, written once; a second read only where they fit no cache), 3 G operations";
  task.multi_rank = multi_rank();
  return task;
}

}  // namespace
}  // namespace fused_global_grad_clip

namespace tasks {
const Task& fused_global_grad_clip() {
  static const Task task = faibench::fused_global_grad_clip::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
