// A workload's inputs in the gate, untimed: the fills that are gated besides the timed ones, and all of it where nothing is timed.
#pragma once
#include <optional>
#include <string>

#include "judge/gated_call.h"
#include "judge/job.h"

namespace faibench {

/// What came of the fills that were tried, up to the first that failed.
struct FillFinding {
  std::optional<Failure> failure;
  std::string where;        ///< the fill that failed: "workload standard, other fill 2 of 2"
  std::int64_t calls = 0;   ///< of the candidate
};

/// Workload::also_gated: each fill once through baseline and candidate, gated as in a timed block. Where the gate does not take the baseline's answer for the right one, that answer is
/// gated too: throws Error(internal) when it fails.
FillFinding gate_other_fills(CallSite& site, const Task& task, const Workload& workload, const JudgeJob& job, Candidate& baseline, Candidate& candidate, bool candidate_is_baseline);

/// Gate::time_limits: each workload once through the candidate, its answers gated. One that has a call that takes too long is tried once more, with other inputs: the machine may have
/// been held up.
FillFinding gate_time_limits(CallSite& site, const Task& task, const JudgeJob& job, Candidate& candidate, bool candidate_is_baseline);

/// The timed inputs of a first block and every other fill, each once through the candidate alone, against the task's own expected outputs. For small sizes.
FillFinding gate_workload(CallSite& site, const Task& task, const Workload& workload, const JudgeJob& job, Candidate& candidate);

}  // namespace faibench
