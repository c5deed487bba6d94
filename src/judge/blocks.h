// Timed blocks: baseline and candidate on the same fresh inputs, in random order, every call gated.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "judge/gated_call.h"
#include "judge/job.h"
#include "judge/statistics.h"
#include "results/record.h"

namespace faibench {

struct Measurement {
  std::vector<Sample> samples;                 ///< warm-up blocks too, with negative numbers
  Interval speedup;
  std::string stop_reason;
  double baseline_seconds = 0, seconds = 0;    ///< medians per call
  double baseline_objective = 0, objective = 0;
  std::vector<Floor> block_floors;             ///< of one call, by counted block
  Floor floor;                                 ///< their mean
  double floor_seconds = 0;
  std::string bound;
  int outlier_blocks = 0, disturbed_blocks = 0, impossible_blocks = 0;
  double gpu_clock_hz = 0, gpu_power_watts = 0;  ///< right after the candidate's calls: medians over the counted blocks; 0 off a GPU and without NVML
  std::uint64_t throttle_reasons = 0;          ///< of all counted blocks, see device/nvml.h
  int throttled_blocks = 0;
  std::optional<Failure> failure;              ///< of the candidate; the rest then holds what was measured before
};

/// Least time for `floor` on this machine; `bound` says whether memory or arithmetic decides. Data that fits the private caches may come from there.
double floor_seconds(const Floor& floor, const MachinePeaks& peaks, std::string& bound);

/// Flags the counted blocks that took less than half the floor's time, and fills in floor_seconds, bound and impossible_blocks.
void judge_times(Measurement& measurement, const MachinePeaks& peaks);

/// Runs warm-up and counted blocks until the stop rule says so. `progress` hears about each block.
Measurement measure(CallSite& site, const Task& task, const Workload& workload, Candidate& baseline, Candidate& candidate, bool candidate_is_baseline,
                    const JudgeJob& job, const StopRule& rule, const std::function<void(const std::string&)>& progress);

}  // namespace faibench
