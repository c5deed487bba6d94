// The part of a gate that asks how much memory a variant holds.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "judge/finding.h"
#include "task/task.h"

namespace faibench {

/// Makes the task's calls in `candidate`, which must have been started and not loaded: what loading takes counts. Gates their values too: the first
/// call with wrong ones fails, or that held too much memory (`wrong`, "memory", with limit and peak). The note has every call's peak and limit.
Finding check_memory(const Task& task, Candidate& candidate);

/// The same on a GPU: the device memory that the calls take beyond their tensors. For a candidate that was given `gpu`, in the timing slot; what loading takes does not count.
Finding check_device_memory(const Task& task, Candidate& candidate, GpuBench& gpu);

/// "12.3 MiB".
std::string mebibytes(std::int64_t bytes);

/// The verdict on one peak, whoever measured it; empty: within the limit. `place`: "host" or "device".
std::optional<Failure> over_limit(const std::string& place, std::int64_t peak_bytes, std::int64_t limit_bytes);

}  // namespace faibench
