#include "judge/gated_call.h"

#include <algorithm>

namespace faibench {
namespace {

Failure failed(std::string reason, std::string detail) { return {Verdict::wrong, std::move(reason), std::move(detail), ""}; }

}  // namespace

TensorMap copies(const TensorRefMap& tensors) {
  TensorMap result;
  for (const auto& [name, tensor] : tensors) result.add(name, Tensor::copy_of(tensor));
  return result;
}

Failure rejected_workload(const Rejection& rejection) { return failed("rejected", "workload input rejected with " + rejection.code + " (" + rejection.message + ")"); }

Failure wrong(const Mismatch& mismatch) {
  std::string reason = "value";
  if (mismatch.what == "shape differs") reason = "shape";
  if (mismatch.what == "dtype differs") reason = "dtype";
  return failed(reason, to_string(mismatch));
}

std::optional<Failure> CallSite::make_room(Candidate& candidate, const TensorRefMap& inputs) {
  Arena& arena = candidate.arena();
  Dims dims;
  std::vector<Contract::OutputShape> shapes;
  std::vector<std::string> in_place;
  if (!task_.contract.check_general(inputs, dims)) {  // otherwise nobody can say how large the outputs are, and none may be written
    shapes = task_.contract.output_shapes(inputs, dims);
    for (const TensorSpec& spec : task_.contract.inputs())
      if (spec.in_place) in_place.push_back(spec.name);
  }
  arena.lay_out(inputs, shapes, in_place, ++nonce_);
  if (std::int64_t& touched = touched_bytes_[candidate.pid()]; arena.used_bytes() > touched) {
    if (auto failure = candidate.touch(arena.used_bytes())) return failure;
    touched = arena.used_bytes();
  }
  return std::nullopt;
}

CallSite::Result CallSite::call(Candidate& candidate, const TensorRefMap& inputs, int threads) {
  Arena& arena = candidate.arena();
  Result result;
  if ((result.failure = make_room(candidate, inputs))) return result;
  candidate.to_device();
  auto reply = candidate.call(threads);
  if (!reply) {
    result.failure = candidate.failure();
    return result;
  }
  result.seconds = reply->seconds;
  result.rejected = reply->rejected;
  auto broken = arena.violation(inputs);  // of host memory
  if (!broken && candidate.gpu()) {
    candidate.from_device();
    broken = arena.violation(inputs);
  }
  if (broken) result.failure = failed(broken->find("input ") == 0 ? "input changed" : "out of bounds", *broken);
  else if (result.rejected && !arena.outputs_untouched()) result.failure = failed("written though rejected", "outputs were written before the input was rejected (" + result.rejected->code + ")");
  result.outputs = arena.outputs(reply->lengths);
  return result;
}

std::optional<Failure> CallSite::gate(Candidate& candidate, const TensorRefMap& inputs, bool candidate_is_baseline) {
  const Rejected wanted = task_.contract.validate(inputs);
  const Result result = call(candidate, inputs);
  if (result.failure) return result.failure;
  if (wanted && !result.rejected) return failed("not rejected", "accepted, wanted " + wanted->code + " (" + wanted->message + ")");
  if (!wanted && result.rejected) return failed("rejected", "valid input rejected with " + result.rejected->code + " (" + result.rejected->message + ")");
  if (wanted) {
    if (wanted->code == result.rejected->code) return std::nullopt;
    return failed("wrong code", "rejected with " + result.rejected->code + ", wanted " + wanted->code + " (" + wanted->message + ")");
  }
  const TensorMap outputs = copies(result.outputs);
  const TensorMap expected = task_.gate.needs_expected ? expected_outputs(task_, inputs) : TensorMap();
  return gate_outputs(candidate, inputs, refs(outputs), refs(expected), candidate_is_baseline);
}

std::optional<Failure> CallSite::gate_outputs(Candidate& candidate, const TensorRefMap& inputs, const TensorRefMap& outputs, const TensorRefMap& expected, bool candidate_is_baseline) {
  std::vector<TensorMap> probe_outputs;
  if (task_.gate.probes) {
    for (const Probe& probe : task_.gate.probes(inputs)) {
      const Result result = call(candidate, refs(probe.inputs), probe.threads);
      if (result.failure) return result.failure;
      if (result.rejected) return failed("rejected", "a valid second call was rejected with " + result.rejected->code + " (" + result.rejected->message + ")");
      probe_outputs.push_back(copies(result.outputs));
    }
  }
  if (const GateResult bad = task_.gate.check({inputs, outputs, expected, probe_outputs, candidate_is_baseline})) return wrong(*bad);
  return std::nullopt;
}

}  // namespace faibench
