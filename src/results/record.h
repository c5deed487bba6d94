// One verdict: what became of one task, variant and workload. Plain data; knows no task.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace faibench {

enum class Verdict { passed, wrong, crashed, timed_out, out_of_memory, build_failed, forbidden, noisy, skipped, lost };

/// One timed block (one rank's, where a task is multi-rank).
struct Sample {
  int block = 0;                 ///< counted blocks from 0; warm-up blocks are negative, the last one -1
  int rank = 0;                  ///< rank within the gang; 0 for tasks of one process
  int calls = 1;                 ///< calls in the block; the seconds are per call
  double baseline_seconds = 0;
  double seconds = 0;
  double ratio = 0;              ///< the block's speedup by the task's metric
  bool baseline_first = false;
  /// What disturbed it, for the reader; samples are never dropped.
  enum Flag : std::uint32_t { context_switch = 1, outlier = 2, impossible = 4, throttled = 8 };
  std::uint32_t flags = 0;
};

struct Record {
  std::string key;               ///< hash of contract, workload, seed, variant, binary and machine class: what --resume compares
  std::string task, group, variant, workload;
  std::string asked_variant;     ///< what the user asked for where another one ran ("cuda" without a GPU), else empty
  bool emulated = false;         ///< a variant for GPUs, run by the emulator on a CPU: gated at small sizes, neither timed nor scored
  int ranks = 1;                 ///< ranks of the gang; 1 for tasks of one process
  std::uint64_t seed = 0;

  Verdict verdict = Verdict::skipped;
  std::string reason;            ///< of the verdict: "value", "shape", "not_rejected", "SIGSEGV", a rule, ...
  std::string detail;            ///< one line: case, element, got, wanted; or what died and where
  std::string stderr_tail;       ///< the candidate's last lines, where it died

  bool performance = true;       ///< false: an implementation task, score 1 or 0
  double score = 0;
  double ref_speedup = 0;        ///< the anchor; 0 for an implementation task
  double speedup = 0, speedup_low = 0, speedup_high = 0;  ///< median of the blocks' ratios and its 95% interval
  double baseline_seconds = 0, seconds = 0;               ///< medians per call
  double baseline_objective = 0, objective = 0;           ///< of the metric, medians; 0 where time alone counts
  double floor_bytes = 0, floor_operations = 0, floor_seconds = 0;
  std::string bound;             ///< "memory" or "compute": which floor is the higher
  std::int64_t cases = 0;        ///< gate calls made, fixed and random
  std::int64_t blocks = 0;       ///< counted blocks
  std::string stop_reason;       ///< "precision", "budget", "" where nothing was timed
  std::vector<std::string> flags;  ///< "outliers:3", "context_switches:2", "oversubscribed", ...
  std::string note;

  std::string host;
  int rank = 0;                  ///< that ran it
  std::string gpu;               ///< UUID of the GPU that the variant ran on; empty: none
  double gpu_clock_hz = 0, gpu_power_watts = 0;  ///< right after the variant's calls, medians over the blocks; 0 where nobody tells
  std::string gpu_throttle;      ///< what held the GPU's clocks down: "power cap", ...
  int threads = 1;
  std::string cpus;              ///< "0-3,8"
  double started = 0;            ///< Unix seconds
  double wall_seconds = 0;
  std::vector<Sample> samples;
};

std::string_view name_of(Verdict verdict);

/// The record as one JSON object on one line, and back: the form of the journal and of the worker protocol.
/// from_json throws Error(bad_input) naming the field that is missing or of another type; unknown fields are ignored, and `emulated`, which came later, may be missing.
/// NaN and infinity become null and back to 0.
std::string to_json(const Record& record);
Record record_from_json(std::string_view text);

}  // namespace faibench
