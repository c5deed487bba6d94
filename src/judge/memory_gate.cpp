#include "judge/memory_gate.h"

#include <cstdio>

#include "judge/gated_call.h"
#include "judge/memory_meter.h"

namespace faibench {

std::string mebibytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

namespace {

// The tensors of a call lie in the candidate's memory before the meter starts: they are what a call may hold anyway.
std::optional<Failure> fault_in_tensors(const Task& task, Candidate& candidate, const TensorRefMap& inputs) {
  Dims dims;
  if (const Rejected rejected = task.contract.check_general(inputs, dims)) throw Error(Error::Kind::internal, task.name + ": memory gate: " + rejected->message);
  candidate.arena().lay_out(inputs, task.contract.output_shapes(inputs, dims), {}, 0);
  return candidate.touch(candidate.arena().used_bytes());
}

}  // namespace

std::optional<Failure> over_limit(const std::string& place, std::int64_t peak_bytes, std::int64_t limit_bytes) {
  if (peak_bytes <= limit_bytes) return std::nullopt;
  return Failure{Verdict::wrong, "memory", "held " + mebibytes(peak_bytes) + " of " + place + " memory at one time beyond inputs and outputs, the limit is " + mebibytes(limit_bytes), ""};
}

Finding check_memory(const Task& task, Candidate& candidate) {
  Finding finding;
  finding.where = "memory gate";
  const auto inputs_of = [&](const MemoryGate::Call& call) {
    Random random(task.name, "memory " + call.name, 1, 0);
    return call.inputs(random);
  };
  if ((finding.failure = candidate.settle())) return finding;
  for (const MemoryGate::Call& call : task.memory->calls)
    if ((finding.failure = fault_in_tensors(task, candidate, refs(inputs_of(call))))) return finding;
  MemoryMeter meter(candidate.pid());
  if ((finding.failure = candidate.load())) return finding;
  CallSite site(task);
  for (const MemoryGate::Call& call : task.memory->calls) {
    finding.where = "memory gate, " + call.name;
    const TensorMap inputs = inputs_of(call);
    meter.start_call();
    finding.failure = site.gate(candidate, refs(inputs), false);
    ++finding.calls;
    const std::int64_t peak = meter.end_call(), limit = task.memory->host_limit(refs(inputs));
    finding.note += (finding.note.empty() ? "memory held: " : ", ") + mebibytes(peak) + " of " + mebibytes(limit) + " (" + call.name + ")";
    if (!finding.failure) finding.failure = over_limit("host", peak, limit);
    if (finding.failure) return finding;
  }
  return finding;
}

}  // namespace faibench
