#include "judge/judge.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <initializer_list>
#include <memory>

#include "device/peaks.h"
#include "judge/blocks.h"
#include "judge/device_library.h"
#include "judge/fills.h"
#include "judge/gpu_bench.h"
#include "judge/memory_gate.h"
#include "judge/noise_probe.h"
#include "judge/peaks.h"
#include "judge/processes.h"
#include "judge/slot.h"
#include "judge/stream.h"
#include "judge/submission_kernel.h"

namespace faibench {
namespace {

// The score uses the interval's lower end, so noise costs score, not truth: it is flagged above the first share of the median, and only where the ends are
// far away from it do the blocks say nothing at all.
constexpr double noisy_half_width = 0.25;
constexpr double meaningless_factor = 30;
constexpr std::int64_t default_memory_limit = std::int64_t{4} << 30;
constexpr double default_case_seconds = 30;

double unix_time() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::int64_t available_memory() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("MemAvailable:")) return std::atoll(line.c_str() + 13) * 1024;
  return default_memory_limit * 2;
}

void set_failure(Record& record, const Failure& failure, const std::string& where) {
  record.verdict = failure.verdict;
  record.reason = failure.reason;
  record.detail = where + ": " + failure.detail;
  record.stderr_tail = failure.stderr_tail;
}

// False where something failed.
bool take(Record& record, const Finding& finding) {
  record.cases += finding.calls;
  if (!finding.note.empty()) record.note = finding.note;
  if (finding.failure) set_failure(record, *finding.failure, finding.where);
  return !finding.failure;
}

// Fixed cases, then random ones.
Finding gate_cases(const JudgeJob& job, const Task& task, CallSite& site, Candidate& candidate, bool is_baseline, const std::function<void(const std::string&)>& progress) {
  Finding finding;
  const auto gate = [&](std::string name, const TensorMap& inputs) {
    finding.where = std::move(name);
    ++finding.calls;
    finding.failure = site.gate(candidate, refs(inputs), is_baseline);
    return !finding.failure;
  };
  for (const Case& c : task.cases) {
    progress("case " + c.name);
    Random random(task.name, c.name, 1, 0);
    if (!gate("case " + c.name, c.inputs(random))) return finding;
  }
  for (int i = 0; task.random_case && i < random_cases; ++i) {
    progress("random case " + std::to_string(i));
    Random random(task.name, "random", job.seed, static_cast<std::uint64_t>(i));
    if (!gate("random case " + std::to_string(i) + " of seed " + std::to_string(job.seed), task.random_case(random))) return finding;
  }
  return finding;
}

// In a process of its own, so that nothing was held before the first call.
Finding gate_memory(const JudgeJob& job, const Task& task, const std::string& worker, const std::vector<int>& cpus, const CandidateLimits& limits, GpuBench* gpu,
                    const std::function<void(const std::string&)>& progress) {
  if (!task.memory || job.emulate || std::ranges::find(task.memory->exempt, job.variant) != task.memory->exempt.end()) return {};
  progress("memory gate");
  Candidate candidate(worker, job.task, job.variant, cpus, limits, gpu);
  return gpu ? check_device_memory(task, candidate, *gpu) : check_memory(task, candidate);
}

double score_of(const Record& record, const JudgeJob& job) {
  if (record.verdict != Verdict::passed || job.emulate || job.variant.starts_with("peer:")) return 0;
  if (!record.performance) return 1;
  return job.gate_only ? 0 : log_score(record.speedup_low, record.ref_speedup);
}

void set_measurement(Record& record, const Measurement& m) {
  record.samples = m.samples;
  record.speedup = m.speedup.median;
  record.speedup_low = m.speedup.low;
  record.speedup_high = m.speedup.high;
  record.baseline_seconds = m.baseline_seconds;
  record.seconds = m.seconds;
  record.baseline_objective = m.baseline_objective;
  record.objective = m.objective;
  record.floor_bytes = m.floor.bytes;
  record.floor_operations = m.floor.operations;
  record.floor_seconds = m.floor_seconds;
  record.bound = m.bound;
  record.stop_reason = m.stop_reason;
  record.blocks = std::count_if(m.samples.begin(), m.samples.end(), [](const Sample& s) { return s.block >= 0; });
  if (m.outlier_blocks) record.flags.push_back("outliers:" + std::to_string(m.outlier_blocks));
  if (m.disturbed_blocks) record.flags.push_back("context_switches:" + std::to_string(m.disturbed_blocks));
  if (m.speedup.relative_half_width() > noisy_half_width) record.flags.push_back("noisy");
  if (m.throttled_blocks) record.flags.push_back("throttled:" + std::to_string(m.throttled_blocks));
  record.gpu_clock_hz = m.gpu_clock_hz;
  record.gpu_power_watts = m.gpu_power_watts;
  record.gpu_throttle = throttle_text(m.throttle_reasons);
  if (m.impossible_blocks) record.flags.push_back("impossible:" + std::to_string(m.impossible_blocks));
}

}  // namespace

void set_verdict(Record& record, const Measurement& m) {
  if (m.failure) {
    set_failure(record, *m.failure, "timed block " + std::to_string(record.blocks) + " of workload " + record.workload);
  } else if (2 * m.impossible_blocks > record.blocks) {
    record.verdict = Verdict::forbidden;
    record.reason = "impossible time";
    record.detail = std::to_string(m.impossible_blocks) + " of " + std::to_string(record.blocks) + " blocks took less than half of what this machine needs to move the data";
  } else if (m.speedup.low * meaningless_factor < m.speedup.median || m.speedup.high > meaningless_factor * m.speedup.median) {
    record.verdict = Verdict::noisy;
    record.reason = "interval too wide";
    record.detail = "the interval of the speedup spans orders of magnitude; give it more time (--budget) or a quieter machine";
  } else {
    record.verdict = Verdict::passed;
  }
}

// `peaks` with what floors on this GPU are held against; and its clock is calibrated with empty calls of the candidate.
MachinePeaks peaks_of(GpuBench& gpu, const Task& task, Candidate& candidate, MachinePeaks peaks) {
  gpu.window().calibrate([&] {
    const auto seconds = candidate.ping();
    if (!seconds) throw Error(Error::Kind::internal, task.name + ": the candidate ended between its calls: " + candidate.failure().detail);
    return *seconds;
  });
  const GpuPeaks measured = measure_gpu_peaks(gpu.cuda(), gpu.facts());
  const auto takes = [&](std::initializer_list<Dtype> wanted) {
    return std::ranges::any_of(task.contract.inputs(), [&](const TensorSpec& spec) {
      return std::ranges::any_of(spec.dtypes, [&](Dtype dtype) { return std::ranges::find(wanted, dtype) != wanted.end(); });
    });
  };
  peaks.copy_bytes_per_second = measured.copy_bytes_per_second;
  peaks.cache_copy_bytes_per_second = 0;  // flushed before every call
  peaks.operations_per_second = takes({Dtype::i8, Dtype::u8}) ? 2 * measured.matrix_operations_per_second : takes({Dtype::f16, Dtype::bf16}) ? measured.matrix_operations_per_second : measured.operations_per_second;
  peaks.most_operations_per_second = 2 * measured.matrix_operations_per_second;
  return peaks;
}

Record judge_task(const JudgeJob& job, const std::string& worker, const std::function<void(const std::string&)>& progress) {
  const Task* task = find_judged_task(job.task);
  if (!task) throw Error(Error::Kind::internal, "judge: no task '" + job.task + "'");
  const Workload* workload = task->find_workload(job.workload);
  if (!workload && (!job.gate_only || job.emulate)) throw Error(Error::Kind::bad_input, task->name + " has no workload '" + job.workload + "'");

  Record record;
  const double started = unix_time();
  const auto clock = std::chrono::steady_clock::now();
  record.task = task->name;
  record.group = task->group;
  record.variant = job.variant;
  record.asked_variant = job.asked_variant;
  record.workload = job.workload;
  record.emulated = job.emulate;
  record.seed = job.seed;
  record.performance = job.ref_speedup > 0;
  record.ref_speedup = job.ref_speedup;
  record.started = started;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  record.host = host;
  const std::vector<int> cpus = job.cpus.empty() ? allowed_cpus() : job.cpus;
  record.threads = static_cast<int>(cpus.size());
  record.cpus = cpu_list(cpus);

  CandidateLimits limits;
  limits.call_seconds = job.call_limit_seconds > 0 ? job.call_limit_seconds : std::max(default_case_seconds * (job.emulate ? emulator_slowness : 1), workload ? 10 * workload->baseline_seconds : 0);
  limits.memory_bytes = job.memory_limit_bytes > 0 ? job.memory_limit_bytes : std::min(default_memory_limit, std::max(available_memory() / 2, std::int64_t{256} << 20));

  SlotLock slot;
  bool in_slot = job.whole_task_in_slot;
  if (in_slot) slot = SlotLock(job.slot_files);
  const auto take_slot = [&] {
    if (in_slot) return true;
    progress("waiting for a timing slot");
    slot = SlotLock(job.slot_files);
    return in_slot = true;
  };
  CallSite site(*task);
  const Variant* variant = task->find_variant(job.variant);
  std::unique_ptr<GpuBench> gpu;
  if (variant && variant->on_device && !job.emulate) {
    gpu = std::make_unique<GpuBench>(job.gpu);
    record.gpu = gpu->facts().uuid;
    if (job.gpu_ranks > 1) record.flags.push_back("gpu_shared_by_ranks:" + std::to_string(job.gpu_ranks));
  }
  const bool count_on_device = gpu && task->memory;  // device memory is counted from outside: nobody else may work there
  // On a GPU against the naive form on the same GPU, where there is one.
  const std::string baseline_name = gpu && task->find_variant("cuda_baseline") ? "cuda_baseline" : "baseline";
  const bool is_baseline = job.variant == baseline_name;
  const std::string started_as = job.emulate ? std::string(emulated_prefix) + job.variant : job.variant;
  progress("loading");
  {
    Candidate candidate(worker, job.task, started_as, cpus, limits, gpu.get());
    if (auto failure = candidate.load()) {
      set_failure(record, *failure, "loading " + job.variant);
    } else if (take(record, gate_cases(job, *task, site, candidate, is_baseline, progress)) && (!count_on_device || take_slot()) &&
               take(record, gate_memory(job, *task, worker, cpus, limits, gpu.get(), progress))) {
      record.verdict = Verdict::passed;
      if (job.emulate) {
        progress("inputs of the workload");
        take(record, gate_workload(site, *task, *workload, job, candidate));
      } else if (!job.gate_only) {
        take_slot();
        if (task->stream) {
          judge_stream(job, *task, worker, candidate, limits, record, progress);
        } else {
          CandidateLimits trusted = limits;
          trusted.call_seconds = 3600;
          Candidate baseline(worker, job.task, baseline_name, cpus, trusted, baseline_name == "baseline" ? nullptr : gpu.get());
          if (auto failure = baseline.load()) throw Error(Error::Kind::internal, task->name + ": the baseline does not load: " + failure->detail);
          JudgeJob timed = job;
          if (gpu) {
            progress("measuring the GPU");
            timed.peaks = peaks_of(*gpu, *task, candidate, job.peaks);
          }
          progress("time limits");
          const bool in_time = take(record, gate_time_limits(site, *task, timed, candidate, is_baseline));
          progress("other fills");
          if (in_time && take(record, gate_other_fills(site, *task, *workload, timed, baseline, candidate, is_baseline))) {
            StopRule rule;
            rule.budget_seconds = job.budget_seconds;
            if (!record.performance) rule.budget_seconds /= 4;  // reported, not scored
            Measurement m = measure(site, *task, *workload, baseline, candidate, is_baseline, timed, rule, progress);
            // Nothing is faster than its floor: was the machine slow when its peaks were measured?
            if ((m.impossible_blocks > 0 || m.seconds < m.floor_seconds) && !gpu) {
              progress("measuring the machine again");
              judge_times(m, better_of(job.peaks, measure_peak_rates(record.threads)));
            }
            set_measurement(record, m);
            set_verdict(record, m);
          }
        }
      }
    }
  }
  record.score = score_of(record, job);
  record.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - clock).count();
  return record;
}

}  // namespace faibench
