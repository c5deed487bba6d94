#include "task/task.h"

#include <algorithm>

namespace faibench {

const Variant* Task::find_variant(std::string_view wanted) const {
  const auto found = std::find_if(variants.begin(), variants.end(), [&](const Variant& v) { return v.name == wanted; });
  return found == variants.end() ? nullptr : &*found;
}

const Workload* Task::find_workload(std::string_view wanted) const {
  const auto found = std::find_if(workloads.begin(), workloads.end(), [&](const Workload& w) { return w.name == wanted; });
  return found == workloads.end() ? nullptr : &*found;
}

TensorMap allocate_outputs(const Contract& contract, const TensorRefMap& inputs) {
  Dims dims;
  if (Rejected rejected = contract.check_general(inputs, dims)) throw Error(Error::Kind::internal, "allocate_outputs: " + rejected->message);
  TensorMap outputs;
  for (const TensorSpec& spec : contract.inputs())
    if (spec.in_place)
      if (const TensorRef* tensor = inputs.find(spec.name)) outputs.add(spec.name, Tensor::copy_of(*tensor));
  for (const Contract::OutputShape& output : contract.output_shapes(inputs, dims)) outputs.add(output.name, Tensor(output.dtype, output.shape));
  return outputs;
}

Rejected call_kernel(const Contract& contract, const Kernel& kernel, const TensorRefMap& inputs, TensorRefMap& outputs) {
  Dims dims;
  if (Rejected rejected = contract.check_general(inputs, dims)) return rejected;
  if (Rejected rejected = contract.check_rules(inputs, CheckedBy::runner)) return rejected;
  Arguments arguments{inputs, outputs, {}};
  if (Rejected rejected = kernel(arguments)) return rejected;
  for (const TensorSpec& spec : contract.outputs()) {
    if (spec.length.empty()) continue;
    TensorRef* output = outputs.find(spec.name);
    if (!output) continue;
    auto claimed = arguments.lengths.find(spec.length);
    if (!claimed) claimed = arguments.lengths.find(spec.name);  // a submission knows outputs, not letters
    if (!claimed) continue;
    const std::int64_t length = *claimed;
    if (length < 0 || length > output->shape.at(0))
      throw Error(Error::Kind::internal, spec.name + " claims " + std::to_string(length) + " rows, there is room for " + std::to_string(output->shape.at(0)));
    output->shape.at(0) = length;
  }
  return std::nullopt;
}

TensorMap run_kernel(const Contract& contract, const Kernel& kernel, const TensorRefMap& inputs) {
  TensorMap outputs = allocate_outputs(contract, inputs);
  TensorRefMap output_refs = refs(outputs);
  if (Rejected rejected = call_kernel(contract, kernel, inputs, output_refs)) throw Error(Error::Kind::internal, "rejected (" + rejected->code + "): " + rejected->message);
  TensorMap cut;
  for (auto& [name, tensor] : outputs) {
    const TensorRef& ref = output_refs.at(name);
    if (ref.shape == tensor.shape()) cut.add(name, std::move(tensor));
    else cut.add(name, Tensor::copy_of(ref));
  }
  return cut;
}

TensorMap expected_outputs(const Task& task, const TensorRefMap& inputs) {
  if (task.expected) return task.expected(inputs);
  const Variant* reference = task.find_variant("reference");
  if (!reference) throw Error(Error::Kind::internal, task.name + " has no reference");
  return run_kernel(task.contract, reference->kernel, inputs);
}

}  // namespace faibench
