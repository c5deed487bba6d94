#include "judge/lint.h"

#include <algorithm>
#include <cstring>

namespace faibench {
namespace {

TensorMap run_reference(const Task& task, const TensorRefMap& inputs) { return run_kernel(task.contract, task.find_variant("reference")->kernel, inputs); }

// An answer that does not depend on the inputs' content gives the same on every probe; one that does is faked the same way on each.
using Fake = std::function<TensorMap(const TensorRefMap& inputs)>;

bool passes(const Task& task, const TensorRefMap& inputs, const Fake& fake) {
  std::vector<TensorMap> probe_outputs;
  if (task.gate.probes)
    for (const Probe& probe : task.gate.probes(inputs)) probe_outputs.push_back(fake(refs(probe.inputs)));
  const TensorMap outputs = fake(inputs);
  const TensorMap expected = task.gate.needs_expected ? expected_outputs(task, inputs) : TensorMap();
  return !task.gate.check({inputs, refs(outputs), refs(expected), probe_outputs, false});
}

TensorMap filled(const Task& task, const TensorRefMap& inputs, int byte) {
  TensorMap outputs = allocate_outputs(task.contract, inputs);
  for (auto& [name, tensor] : outputs) std::memset(tensor.data(), byte, static_cast<std::size_t>(tensor.bytes()));
  return outputs;
}

// The value 1 in every element, whatever the dtype.
TensorMap ones(const Task& task, const TensorRefMap& inputs) {
  TensorMap outputs = allocate_outputs(task.contract, inputs);
  for (auto& [name, tensor] : outputs)
    visit_dtype(tensor.dtype(), [&]<class T>(T) {
      for (T& x : tensor.template flat<T>()) {
        if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) x = round_to<T>(1.0f);
        else if constexpr (std::is_same_v<T, Bool8>) x = Bool8{1};
        else x = T{1};
      }
    });
  return outputs;
}

TensorMap input_bytes(const Task& task, const TensorRefMap& inputs) {
  TensorMap outputs = allocate_outputs(task.contract, inputs);
  for (auto& [name, tensor] : outputs) {
    std::int64_t at = 0;
    for (const auto& [input_name, input] : inputs) {
      const std::int64_t n = std::min(input.bytes(), tensor.bytes() - at);
      if (n > 0) std::memcpy(tensor.data() + at, input.data, static_cast<std::size_t>(n));
      at += std::max<std::int64_t>(n, 0);
    }
  }
  return outputs;
}

bool equal(const TensorMap& a, const TensorMap& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    const Tensor &s = x.second, &t = y.second;
    return x.first == y.first && s.shape() == t.shape() && s.dtype() == t.dtype() && (s.bytes() == 0 || std::memcmp(s.data(), t.data(), static_cast<std::size_t>(s.bytes())) == 0);
  });
}

// Rows of the first dimension that has more than one moved on by one.
TensorMap rotated(TensorMap outputs) {
  for (auto& [name, tensor] : outputs) {
    std::int64_t row = tensor.bytes();
    for (std::int64_t extent : tensor.shape()) {
      if (extent == 0) break;
      row /= extent;
      if (extent > 1) break;
    }
    if (row == tensor.bytes()) continue;
    std::rotate(tensor.data(), tensor.data() + row, tensor.data() + tensor.bytes());
  }
  return outputs;
}

std::vector<std::string> lint_inputs(const Task& task, const Generator& generator, const std::string& name, std::uint64_t seed) {
  const auto inputs_of = [&](std::uint64_t repetition) {
    Random random = Random(task.name, name, seed, repetition).stream(0);
    return generator(random);
  };
  const TensorMap inputs = inputs_of(1);
  TensorMap previous = inputs_of(0);
  if (equal(previous, inputs)) {  // a workload of fixed inputs: its previous answer is right, so another call's is tried
    Random random(task.name, "lint", seed, 0);
    previous = task.random_case(random);
  }
  const TensorRefMap input_refs = refs(inputs);
  // The previous answer in this call's shapes: what a variant gives that answers from a cache.
  const auto stale = [&](const TensorRefMap& in) {
    const TensorMap old = run_reference(task, refs(previous));
    TensorMap outputs = allocate_outputs(task.contract, in);
    for (auto& [name, tensor] : outputs)
      if (const Tensor* from = old.find(name)) std::memcpy(tensor.data(), from->data(), static_cast<std::size_t>(std::min(tensor.bytes(), from->bytes())));
    return outputs;
  };
  std::vector<std::string> findings;
  if (!passes(task, input_refs, [&](const TensorRefMap& in) { return run_reference(task, in); })) findings.push_back("the right answer fails the gate");
  const std::pair<const char*, Fake> fakes[] = {
      {"all zeros", [&](const TensorRefMap& in) { return filled(task, in, 0); }},
      {"all ones", [&](const TensorRefMap& in) { return ones(task, in); }},
      {"a copy of the input", [&](const TensorRefMap& in) { return input_bytes(task, in); }},
      {"the previous answer", stale},
      {"the right answer with its rows permuted", [&](const TensorRefMap& in) { return rotated(run_reference(task, in)); }},
  };
  for (const auto& [what, fake] : fakes)
    if (passes(task, input_refs, fake)) findings.push_back(std::string(what) + " passes the gate");
  return findings;
}

}  // namespace

std::vector<std::string> lint_gate(const Task& task, const Workload& workload, std::uint64_t seed) {
  std::vector<std::string> findings = lint_inputs(task, workload.parts.front(), workload.name, seed);
  for (std::size_t fill = 0; fill < workload.also_gated.size(); ++fill)
    for (const std::string& finding : lint_inputs(task, workload.also_gated[fill], workload.name + " other fill " + std::to_string(fill), seed))
      findings.push_back(finding + " (other fill " + std::to_string(fill + 1) + ")");
  return findings;
}

}  // namespace faibench
