// What a judge is asked, and the machine facts it is told.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace faibench {

/// Measured once per node at the start of a run.
struct MachinePeaks {
  double copy_bytes_per_second = 0;        ///< read + written, arrays far larger than the caches, all threads of a slot
  double cache_copy_bytes_per_second = 0;  ///< the same, arrays that stay in the private caches
  double operations_per_second = 0;        ///< f32 fused multiply-adds count 2; on a GPU in the task's own number format
  double most_operations_per_second = 0;   ///< in any number format; 0: the same
  double handshake_seconds = 0;            ///< median round trip of an empty call
  double noise_floor = 0;                  ///< half-width of the A/A interval: the baseline against itself
};

/// A variant of this name is no variant of ours but the submission at the path behind it.
inline constexpr std::string_view library_prefix = "library:";

/// An emulated call may take so many times as long as another: its kernels run one thread after another, on small inputs.
inline constexpr double emulator_slowness = 20;

struct JudgeJob {
  enum class Kind { judge, calibrate };
  Kind kind = Kind::judge;
  std::string task, workload;
  std::string variant;                ///< a variant's name, or "library:PATH" for a submission
  std::string asked_variant;          ///< see Record
  std::uint64_t seed = 1;
  double budget_seconds = 10;         ///< for timed blocks, warm-up not counted
  double call_limit_seconds = 0;      ///< one candidate call may take; 0: derived from the workload's expectation
  std::int64_t memory_limit_bytes = 0;  ///< 0: derived from the tensors' size
  double ref_speedup = 0;             ///< from the catalog; 0: implementation task
  std::vector<int> cpus;              ///< that the candidate may use; its threads are as many
  std::string gpu;                    ///< UUID of the GPU that a device variant runs on; empty: the first visible one
  int gpu_ranks = 1;                  ///< of the node that were given this GPU
  int gpu_position = -1;              ///< its place among those that the rank sees: judge and candidate see no other; -1: they see what the rank sees
  std::vector<std::string> slot_files;  ///< locked (flock) around timed blocks, in this order
  bool whole_task_in_slot = false;    ///< ranks of this node share cores: hold the slot from the first case on
  bool gate_only = false;             ///< no timed blocks
  bool emulate = false;               ///< a device variant, run by the emulator: cases and the workload's inputs are gated, nothing is timed or scored
  MachinePeaks peaks;
};

std::string to_json(const JudgeJob& job);
JudgeJob job_from_json(std::string_view text);
std::string to_json(const MachinePeaks& peaks);
MachinePeaks peaks_from_json(std::string_view text);

}  // namespace faibench
