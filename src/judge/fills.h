// A workload's inputs in the gate, untimed: the fills that are gated besides the timed ones, and all of it where nothing is timed.
#pragma once
#include "judge/finding.h"
#include "judge/gated_call.h"
#include "judge/job.h"

namespace faibench {

/// Workload::also_gated: each fill once through baseline and candidate, gated as in a timed block. Where the gate does not take the baseline's answer for the right one, that answer is
/// gated too: throws Error(internal) when it fails.
Finding gate_other_fills(CallSite& site, const Task& task, const Workload& workload, const JudgeJob& job, Candidate& baseline, Candidate& candidate, bool candidate_is_baseline);

/// Gate::time_limits: each workload once through the candidate, its answers gated. One that has a call that takes too long is tried once more, with other inputs: the machine may have
/// been held up.
Finding gate_time_limits(CallSite& site, const Task& task, const JudgeJob& job, Candidate& candidate, bool candidate_is_baseline);

/// The timed inputs of a first block and every other fill, each once through the candidate alone, against the task's own expected outputs. For small sizes.
Finding gate_workload(CallSite& site, const Task& task, const Workload& workload, const JudgeJob& job, Candidate& candidate);

}  // namespace faibench
