// The fields of a record, stated once: the JSON line, the row in HDF5 and its documentation are all made from this list.
#pragma once
#include <string_view>

#include "results/record.h"

namespace faibench {

/// What a reader of the file is told about one field.
struct FieldFact {
  std::string_view name;
  std::string_view unit;         ///< "s", "B", "1" for ratios and counts, "" for text
  std::string_view description;
  bool later = false;            ///< not in files of the first days: may be missing, and then has its default
};

/// Calls `f(FieldFact, member)` for every field but the samples, in the order of the file. `R` is Record or const Record.
template <class R, class F>
void visit_record_fields(R& r, F&& f) {
  f(FieldFact{"task", "", "name of the task"}, r.task);
  f(FieldFact{"variant", "", "implementation that was judged"}, r.variant);
  f(FieldFact{"workload", "", "named size and distribution of the inputs"}, r.workload);
  f(FieldFact{"group", "", "folder of the task in the catalog"}, r.group);
  f(FieldFact{"asked_variant", "", "variant that was asked for where another one ran, else empty"}, r.asked_variant);
  f(FieldFact{"emulated", "1", "true: a variant for GPUs, run by the emulator on a CPU: gated at small sizes, neither timed nor scored", true}, r.emulated);
  f(FieldFact{"verdict", "", "passed, wrong, crashed, timed_out, out_of_memory, build_failed, forbidden, noisy, skipped or lost"}, r.verdict);
  f(FieldFact{"reason", "", "of the verdict: value, shape, not_rejected, a signal, a rule"}, r.reason);
  f(FieldFact{"score", "1", "0 to 1; 0 for anything but passed"}, r.score);
  f(FieldFact{"performance", "1", "true: scored by speedup; false: an implementation task, scored 1 or 0"}, r.performance);
  f(FieldFact{"ref_speedup", "1", "the anchor: this speedup scores 0, its square scores 1; 0 for an implementation task"}, r.ref_speedup);
  f(FieldFact{"speedup", "1", "median over the counted blocks of the block's ratio by the task's metric"}, r.speedup);
  f(FieldFact{"speedup_low", "1", "lower end of the 95% interval of the speedup; the score is made from it"}, r.speedup_low);
  f(FieldFact{"speedup_high", "1", "upper end of the 95% interval of the speedup"}, r.speedup_high);
  f(FieldFact{"baseline_seconds", "s", "median time of one baseline call"}, r.baseline_seconds);
  f(FieldFact{"seconds", "s", "median time of one call of the variant"}, r.seconds);
  f(FieldFact{"baseline_objective", "1", "median objective of the baseline's output, in the metric's own unit; 0 where time alone counts"}, r.baseline_objective);
  f(FieldFact{"objective", "1", "median objective of the variant's output, in the metric's own unit; 0 where time alone counts"}, r.objective);
  f(FieldFact{"floor_bytes", "B", "bytes that any implementation must move"}, r.floor_bytes);
  f(FieldFact{"floor_operations", "1", "operations that any implementation must do"}, r.floor_operations);
  f(FieldFact{"floor_seconds", "s", "the higher of both floors at the machine's measured peaks"}, r.floor_seconds);
  f(FieldFact{"bound", "", "memory or compute: which floor is the higher"}, r.bound);
  f(FieldFact{"cases", "1", "gate calls made, fixed and random"}, r.cases);
  f(FieldFact{"blocks", "1", "counted timed blocks"}, r.blocks);
  f(FieldFact{"stop_reason", "", "why timing stopped: precision, budget or blocks (their limit); stream where the task is judged over many calls instead of blocks; empty where nothing was timed"}, r.stop_reason);
  f(FieldFact{"flags", "", "what disturbed the timing, as name:count"}, r.flags);
  f(FieldFact{"ranks", "1", "ranks of the gang; 1 for a task of one process"}, r.ranks);
  f(FieldFact{"seed", "1", "seed of the run's inputs"}, r.seed);
  f(FieldFact{"host", "", "host that judged it"}, r.host);
  f(FieldFact{"rank", "1", "rank that judged it"}, r.rank);
  f(FieldFact{"gpu", "", "UUID of the GPU that the variant ran on, else empty", true}, r.gpu);
  f(FieldFact{"gpu_clock_hz", "1/s", "clock of the GPU's multiprocessors right after the variant's calls, median over the blocks; 0 where nobody tells", true}, r.gpu_clock_hz);
  f(FieldFact{"gpu_power_watts", "W", "power that the GPU drew right after the variant's calls, median over the blocks; 0 where nobody tells", true}, r.gpu_power_watts);
  f(FieldFact{"gpu_throttle", "", "what held the GPU's clocks down during the timed blocks: power cap, thermal slowdown, ...", true}, r.gpu_throttle);
  f(FieldFact{"threads", "1", "threads the variant could use"}, r.threads);
  f(FieldFact{"cpus", "", "processors the variant was bound to, as a list of ranges"}, r.cpus);
  f(FieldFact{"started", "s", "start of the judging, since 1970-01-01 00:00 UTC"}, r.started);
  f(FieldFact{"wall_seconds", "s", "duration of the judging"}, r.wall_seconds);
  f(FieldFact{"detail", "", "one line: case, element, got, wanted; or what died and where"}, r.detail);
  f(FieldFact{"stderr_tail", "", "the variant's last lines on stderr, where it died"}, r.stderr_tail);
  f(FieldFact{"note", "", "what else a reader should know"}, r.note);
  f(FieldFact{"key", "", "hash of contract, workload, seed, variant, binary and machine class: what resuming compares"}, r.key);
}

/// The same for one timed block. `S` is Sample or const Sample.
template <class S, class F>
void visit_sample_fields(S& s, F&& f) {
  f(FieldFact{"block", "1", "counted blocks from 0; warm-up blocks are negative, the last one -1"}, s.block);
  f(FieldFact{"rank", "1", "rank within the gang; 0 for a task of one process"}, s.rank);
  f(FieldFact{"calls", "1", "calls in the block; the seconds are per call"}, s.calls);
  f(FieldFact{"baseline_seconds", "s", "time of one baseline call on the block's inputs"}, s.baseline_seconds);
  f(FieldFact{"seconds", "s", "time of one call of the variant on the block's inputs"}, s.seconds);
  f(FieldFact{"ratio", "1", "the block's speedup by the task's metric"}, s.ratio);
  f(FieldFact{"baseline_first", "1", "whether the baseline ran before the variant"}, s.baseline_first);
  f(FieldFact{"flags", "1", "bits: 1 context switch, 2 outlier, 4 below the floor (impossible), 8 the GPU's clocks were held down"}, s.flags);
}

/// The inverse of name_of(Verdict). Throws Error(bad_input) for anything else.
Verdict verdict_from_name(std::string_view name);

}  // namespace faibench
