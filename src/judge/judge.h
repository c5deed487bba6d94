// One task, one variant, one verdict.
#pragma once
#include <functional>
#include <string>

#include "judge/job.h"
#include "results/record.h"
#include "task/task.h"

namespace faibench {

/// Judges as the job says: fixed cases, random cases, timed blocks. Runs in a process of its own; candidates are started from `worker`.
/// Everything a candidate can do becomes a verdict; throws Error only for what is the program's own or the machine's fault.
Record judge_task(const JudgeJob& job, const std::string& worker, const std::function<void(const std::string& stage)>& progress);

struct Measurement;
/// Verdict, reason and detail from what was measured; record.blocks and record.workload are filled in before.
void set_verdict(Record& record, const Measurement& measurement);

/// Random cases of the gate, drawn from the run's seed.
inline constexpr int random_cases = 8;

}  // namespace faibench
