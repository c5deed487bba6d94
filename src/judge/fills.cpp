#include "judge/fills.h"

#include <algorithm>

namespace faibench {
namespace {

std::string name_of_fill(const Workload& workload, std::size_t fill) {
  return "workload " + workload.name + ", other fill " + std::to_string(fill + 1) + " of " + std::to_string(workload.also_gated.size());
}

TensorMap make_fill(const Task& task, const Workload& workload, const JudgeJob& job, std::size_t fill) {
  Random random = Random(task.name, workload.name + " other fill", job.seed, 0).stream(fill);
  return workload.also_gated[fill](random);
}

struct Timed {
  std::optional<Failure> failure;
  double seconds = 0;  // of the slowest call
};
Timed time_calls(CallSite& site, const Task& task, const Workload& workload, int threads, const JudgeJob& job, std::uint64_t attempt, Candidate& candidate, bool candidate_is_baseline) {
  Timed timed;
  for (std::size_t part = 0; part < workload.parts.size() && !timed.failure; ++part) {
    Random random = Random(task.name, workload.name + " time limit", job.seed, attempt).stream(part);
    const TensorMap inputs = workload.parts[part](random);
    const CallSite::Result result = site.call(candidate, refs(inputs), threads);
    if (result.failure || result.rejected) return {result.failure ? *result.failure : rejected_workload(*result.rejected), 0};
    timed.seconds = std::max(timed.seconds, result.seconds);
    const TensorMap outputs = copies(result.outputs), expected = task.gate.needs_expected ? expected_outputs(task, refs(inputs)) : TensorMap();
    timed.failure = site.gate_outputs(candidate, refs(inputs), refs(outputs), refs(expected), candidate_is_baseline);
  }
  return timed;
}

// At a workload's full size the reference may take minutes: as in a timed block, the baseline's answer stands for the right one where the gate takes it.
std::optional<Failure> gate_beside_baseline(CallSite& site, const Task& task, const TensorMap& inputs, Candidate& baseline, Candidate& candidate, bool candidate_is_baseline,
                                            const std::string& where) {
  const TensorRefMap in = refs(inputs);
  const auto broken = [&](const std::string& how) { return Error(Error::Kind::internal, task.name + ": the baseline failed on " + where + ": " + how); };
  const CallSite::Result right = site.call(baseline, in);
  if (right.failure || right.rejected) throw broken(right.failure ? right.failure->detail : right.rejected->message);
  const TensorMap baseline_outputs = copies(right.outputs);
  const CallSite::Result result = site.call(candidate, in);
  if (result.failure) return result.failure;
  if (result.rejected) return rejected_workload(*result.rejected);
  const TensorMap outputs = copies(result.outputs);
  if (task.gate.needs_expected && task.gate.baseline_is_expected) return site.gate_outputs(candidate, in, refs(outputs), refs(baseline_outputs), candidate_is_baseline);
  const TensorMap expected = task.gate.needs_expected ? expected_outputs(task, in) : TensorMap();
  if (const auto failure = site.gate_outputs(baseline, in, refs(baseline_outputs), refs(expected), true)) throw broken(failure->detail);
  return site.gate_outputs(candidate, in, refs(outputs), refs(expected), candidate_is_baseline);
}

}  // namespace

Finding gate_other_fills(CallSite& site, const Task& task, const Workload& workload, const JudgeJob& job, Candidate& baseline, Candidate& candidate, bool candidate_is_baseline) {
  Finding finding;
  for (std::size_t fill = 0; fill < workload.also_gated.size() && !finding.failure; ++fill) {
    finding.where = name_of_fill(workload, fill);
    ++finding.calls;
    finding.failure = gate_beside_baseline(site, task, make_fill(task, workload, job, fill), baseline, candidate, candidate_is_baseline, finding.where);
  }
  return finding;
}

Finding gate_time_limits(CallSite& site, const Task& task, const JudgeJob& job, Candidate& candidate, bool candidate_is_baseline) {
  constexpr std::uint64_t attempts = 2;
  Finding finding;
  for (const TimeLimit& limit : task.gate.time_limits) {
    const Workload* workload = task.find_workload(limit.workload);
    if (!workload) throw Error(Error::Kind::internal, task.name + ": a time limit for workload " + limit.workload + ", which it has not");
    finding.where = "workload " + limit.workload + " on " + std::to_string(limit.threads) + (limit.threads == 1 ? " thread" : " threads");
    double seconds = 0;
    for (std::uint64_t attempt = 0; attempt < attempts; ++attempt) {
      ++finding.calls;
      const Timed timed = time_calls(site, task, *workload, limit.threads, job, attempt, candidate, candidate_is_baseline);
      finding.failure = timed.failure;
      seconds = timed.seconds;
      if (finding.failure || seconds <= limit.seconds) break;
    }
    if (!finding.failure && seconds > limit.seconds)
      finding.failure = Failure{Verdict::wrong, "too slow", "a call took " + std::to_string(seconds) + " s, the contract allows " + std::to_string(limit.seconds) + " s", ""};
    if (finding.failure) return finding;
  }
  return finding;
}

Finding gate_workload(CallSite& site, const Task& task, const Workload& workload, const JudgeJob& job, Candidate& candidate) {
  Finding finding;
  const auto gate = [&](std::string where, const TensorMap& inputs) {
    if (finding.failure) return;
    finding.where = std::move(where);
    ++finding.calls;
    finding.failure = site.gate(candidate, refs(inputs), false);
  };
  for (std::size_t part = 0; part < workload.parts.size(); ++part) {
    Random random = Random(task.name, workload.name, job.seed, 0).stream(part);
    gate("workload " + workload.name + (workload.parts.size() > 1 ? ", input set " + std::to_string(part + 1) : ""), workload.parts[part](random));
  }
  for (std::size_t fill = 0; fill < workload.also_gated.size(); ++fill) gate(name_of_fill(workload, fill), make_fill(task, workload, job, fill));
  return finding;
}

}  // namespace faibench
