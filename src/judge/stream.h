// The many-step judgement of tasks that have a Stream: candidate processes of a sender and of its receivers.
#pragma once
#include <functional>
#include <string>

#include "judge/candidate.h"
#include "judge/job.h"
#include "results/record.h"
#include "task/task.h"

namespace faibench {

/// In front of a variant's name: the process loads its receiver (Variant::decoder, or the submission's faibench_decode) instead of the variant.
inline constexpr std::string_view receiver_prefix = "receiver:";

/// Drives the stream of `workload` through `sender` and a receiver process that is started here, before the first step, as is a second receiver, which is given some of the payloads
/// in another order and must decode them alike. Nothing but what they are given reaches a submission's receivers (stream_isolation.h). The seed is drawn now and goes into the record's note.
/// Fills in verdict, speedup (the stream's ratio, without an interval: nothing is sampled), seconds (send + receive, mean a step) and the note.
void judge_stream(const JudgeJob& job, const Task& task, const std::string& worker, Candidate& sender, const CandidateLimits& limits, Record& record,
                  const std::function<void(const std::string&)>& progress);

}  // namespace faibench
