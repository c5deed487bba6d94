#include "device/memory_watch.h"
#include "judge/gated_call.h"
#include "judge/gpu_bench.h"
#include "judge/memory_gate.h"

namespace faibench {

Finding check_device_memory(const Task& task, Candidate& candidate, GpuBench& gpu) {
  Finding finding;
  finding.where = "memory gate";
  if ((finding.failure = candidate.load())) return finding;  // the context and the kernels' code are no part of a call
  CallSite site(task);
  std::vector<TensorMap> inputs;
  for (const MemoryGate::Call& call : task.memory->calls) {
    Random random(task.name, "memory " + call.name, 1, 0);
    inputs.push_back(call.inputs(random));
    if ((finding.failure = site.make_room(candidate, refs(inputs.back())))) return finding;
  }
  // One watch over all calls: what one of them keeps counts for those after it.
  DeviceMemoryWatch watch(gpu.cuda(), gpu.facts().uuid);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = task.memory->calls[i].name;
    finding.where = "memory gate, " + name;
    watch.start_call();
    finding.failure = site.gate(candidate, refs(inputs[i]), false);
    ++finding.calls;
    const std::int64_t peak = watch.most_taken(), limit = task.memory->device_limit(refs(inputs[i]));
    finding.note += (finding.note.empty() ? "device memory held: " : ", ") + mebibytes(peak) + " of " + mebibytes(limit) + " (" + name + ")";
    if (!finding.failure) finding.failure = over_limit("device", peak, limit);
    if (finding.failure) return finding;
  }
  return finding;
}

}  // namespace faibench
