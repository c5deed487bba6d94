#include "judge/blocks.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "judge/gpu_bench.h"

namespace faibench {
namespace {

// A block lasts at least this long, 100 hand-shakes of 2 us: below, calls are repeated within it, each on inputs of its own.
constexpr double shortest_block_seconds = 2e-4;
constexpr int most_calls = 32;
// A sample this far below the floor cannot have done the work; the measured peaks are not good to more than a factor of two for every access pattern.
constexpr double impossible_share = 0.5;
constexpr double private_cache_bytes = 64.0 * 1024 * 1024;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// One side's calls of a block: time, outputs by call, objective.
struct Side {
  double seconds = 0;
  double log_objective = 0;  // sum over calls: the block's objective is the geometric mean
  std::vector<TensorMap> outputs;
};

class BlockRunner {
 public:
  BlockRunner(CallSite& site, const Task& task, const Workload& workload, Candidate& baseline, Candidate& candidate, bool candidate_is_baseline, const JudgeJob& job)
      : site_(site), task_(task), workload_(workload), baseline_(baseline), candidate_(candidate), candidate_is_baseline_(candidate_is_baseline), job_(job),
        order_("order", task.name, job.seed, 0) {}

  // One block of `repeats` runs through the workload's parts. A failure of the candidate ends it.
  std::optional<Failure> run(int repeats, Sample& sample, double& baseline_objective, double& objective, Floor& floor) {
    std::vector<TensorMap> inputs;
    for (int r = 0; r < repeats; ++r)
      for (std::size_t part = 0; part < workload_.parts.size(); ++part) {
        Random random = Random(task_.name, workload_.name, job_.seed, repetition_).stream(part);
        inputs.push_back(workload_.parts[part](random));
        if (part + 1 == workload_.parts.size()) ++repetition_;
      }
    // Orders come in pairs, one of each: a cost of going first cancels in the median.
    const bool baseline_first = pending_order_ ? !*pending_order_ : order_.chance(0.5);
    if (pending_order_) pending_order_.reset();
    else pending_order_ = baseline_first;
    const std::int64_t switches = switches_so_far();
    Side baseline_side, candidate_side;
    for (bool baseline_turn : {baseline_first, !baseline_first}) {
      Candidate& idle = baseline_turn ? candidate_ : baseline_;
      idle.pause();  // threads or children that it left running would disturb the other's clock
      auto failure = run_side(baseline_turn ? baseline_ : candidate_, inputs, baseline_turn ? baseline_side : candidate_side, baseline_turn);
      idle.resume();
      if (failure) return failure;
      if (!baseline_turn && candidate_.gpu()) reading_ = candidate_.gpu()->reading();
    }
    // The hand-over itself preempts a candidate once a call: the judge wakes on the same core. What is beyond came from elsewhere.
    if (switches_so_far() - switches > 2 * static_cast<std::int64_t>(inputs.size())) sample.flags |= Sample::context_switch;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (auto failure = gate(refs(inputs[i]), refs(candidate_side.outputs[i]), refs(baseline_side.outputs[i]))) return failure;
    if (!throttle_text(reading_.reasons).empty()) sample.flags |= Sample::throttled;
    const double calls = repeats;
    sample.calls = repeats;
    sample.baseline_first = baseline_first;
    sample.baseline_seconds = baseline_side.seconds / calls;
    sample.seconds = candidate_side.seconds / calls;
    const double sets = static_cast<double>(inputs.size());
    sample.ratio = task_.metric.counts_time ? sample.baseline_seconds / sample.seconds : 1;
    if (task_.metric.objective) {
      baseline_objective = std::exp(baseline_side.log_objective / sets);
      objective = std::exp(candidate_side.log_objective / sets);
      sample.ratio *= std::pow(baseline_objective / objective, task_.metric.exponent);
    }
    floor = {};
    for (const TensorMap& set : inputs) {
      const Floor one = task_.floor ? task_.floor(refs(set)) : Floor{};
      floor.bytes += one.bytes / calls;
      floor.operations += one.operations / calls;
    }
    return std::nullopt;
  }

  // The GPU right after the candidate's calls of the last block.
  [[nodiscard]] const GpuReading& reading() const { return reading_; }

 private:
  std::optional<Failure> run_side(Candidate& who, const std::vector<TensorMap>& inputs, Side& side, bool is_baseline) {
    for (const TensorMap& set : inputs) {
      const TensorRefMap input_refs = refs(set);
      const CallSite::Result result = site_.call(who, input_refs);
      if (is_baseline && (result.failure || result.rejected))
        throw Error(Error::Kind::internal, task_.name + ": the baseline failed on workload " + workload_.name + ": " + (result.failure ? result.failure->detail : result.rejected->message));
      if (result.failure) return result.failure;
      if (result.rejected) return rejected_workload(*result.rejected);
      side.seconds += result.seconds;
      if (task_.metric.objective) side.log_objective += std::log(std::max(task_.metric.objective(input_refs, result.outputs), 1e-300));
      side.outputs.push_back(copies(result.outputs));
    }
    return std::nullopt;
  }

  std::optional<Failure> gate(const TensorRefMap& inputs, const TensorRefMap& outputs, const TensorRefMap& baseline_outputs) {
    TensorMap computed;
    if (task_.gate.needs_expected && !task_.gate.baseline_is_expected) computed = expected_outputs(task_, inputs);
    return site_.gate_outputs(candidate_, inputs, outputs, task_.gate.needs_expected && task_.gate.baseline_is_expected ? baseline_outputs : refs(computed), candidate_is_baseline_);
  }

  std::int64_t switches_so_far() const { return baseline_.involuntary_switches() + candidate_.involuntary_switches(); }

  CallSite& site_;
  const Task& task_;
  const Workload& workload_;
  Candidate& baseline_;
  Candidate& candidate_;
  bool candidate_is_baseline_;
  const JudgeJob& job_;
  Random order_;
  std::optional<bool> pending_order_;
  std::uint64_t repetition_ = 0;
  GpuReading reading_;
};

}  // namespace

double floor_seconds(const Floor& floor, const MachinePeaks& peaks, std::string& bound) {
  const double bandwidth = floor.bytes < private_cache_bytes ? std::max(peaks.cache_copy_bytes_per_second, peaks.copy_bytes_per_second) : peaks.copy_bytes_per_second;
  const double memory = bandwidth > 0 ? floor.bytes / bandwidth : 0;
  const double compute = peaks.operations_per_second > 0 ? floor.operations / peaks.operations_per_second : 0;
  bound = memory >= compute ? "memory" : "compute";
  return std::max(memory, compute);
}

void judge_times(Measurement& m, const MachinePeaks& peaks) {
  MachinePeaks at_most = peaks;
  at_most.operations_per_second = std::max(peaks.operations_per_second, peaks.most_operations_per_second);
  m.floor_seconds = floor_seconds(m.floor, peaks, m.bound);
  m.impossible_blocks = 0;
  for (Sample& sample : m.samples) {
    if (sample.block < 0) continue;
    std::string bound;
    const bool impossible = sample.seconds < impossible_share * floor_seconds(m.block_floors[static_cast<std::size_t>(sample.block)], at_most, bound);
    sample.flags = impossible ? sample.flags | Sample::impossible : sample.flags & ~Sample::impossible;
    m.impossible_blocks += impossible;
  }
}

Measurement measure(CallSite& site, const Task& task, const Workload& workload, Candidate& baseline, Candidate& candidate, bool candidate_is_baseline, const JudgeJob& job,
                    const StopRule& rule, const std::function<void(const std::string&)>& progress) {
  Measurement m;
  BlockRunner runner(site, task, workload, baseline, candidate, candidate_is_baseline, job);
  std::vector<double> ratios, baseline_objectives, objectives, clocks, watts;
  double baseline_objective = 0, objective = 0;
  Floor floor;

  // Warm-up: the first block also says how many calls a block needs. Short ones get more, so that clocks and caches settle.
  int repeats = 1;
  std::vector<Sample> warm_up;
  const double warm_start = now();
  do {
    progress("warm-up");
    Sample sample;
    if ((m.failure = runner.run(repeats, sample, baseline_objective, objective, floor))) return m;
    const double shorter = std::min(sample.seconds, sample.baseline_seconds);
    const int needed = static_cast<int>(std::ceil(shortest_block_seconds / std::max(shorter, 1e-9)));
    repeats = std::clamp(std::max(repeats, needed), 1, most_calls);
    warm_up.push_back(sample);
  } while (warm_up.size() < 2 || (now() - warm_start < rule.budget_seconds / 10 && warm_up.size() < 8));
  for (std::size_t i = 0; i < warm_up.size(); ++i) warm_up[i].block = static_cast<int>(i) - static_cast<int>(warm_up.size());
  {  // ten times what the slower side took, at least ten seconds: the contract's baseline is the yardstick
    const double slower = std::max(warm_up.back().seconds, warm_up.back().baseline_seconds);
    if (job.call_limit_seconds <= 0) candidate.set_call_limit(std::max(10.0, 10 * slower));
  }
  m.samples = warm_up;

  const double start = now();
  for (;;) {
    Sample sample;
    sample.block = static_cast<int>(ratios.size());
    if ((m.failure = runner.run(repeats, sample, baseline_objective, objective, floor))) break;
    if (sample.flags & Sample::context_switch) ++m.disturbed_blocks;
    if (sample.flags & Sample::throttled) ++m.throttled_blocks;
    m.throttle_reasons |= runner.reading().reasons;
    clocks.push_back(runner.reading().sm_clock_hz);
    watts.push_back(runner.reading().power_watts);
    m.samples.push_back(sample);
    ratios.push_back(sample.ratio);
    baseline_objectives.push_back(baseline_objective);
    objectives.push_back(objective);
    m.block_floors.push_back(floor);
    progress("block " + std::to_string(ratios.size()));
    m.stop_reason = rule.decide(ratios, now() - start, job.seed);
    if (!m.stop_reason.empty()) break;
  }
  for (const Floor& f : m.block_floors) {
    m.floor.bytes += f.bytes / static_cast<double>(ratios.size());
    m.floor.operations += f.operations / static_cast<double>(ratios.size());
  }
  judge_times(m, job.peaks);
  m.speedup = widened(median_interval(ratios, job.seed), resolution(job.peaks.noise_floor));
  std::vector<double> baseline_times, times;
  const std::vector<bool> far = outliers(ratios);
  for (Sample& sample : m.samples) {
    if (sample.block < 0) continue;
    baseline_times.push_back(sample.baseline_seconds);
    times.push_back(sample.seconds);
    if (far[static_cast<std::size_t>(sample.block)]) {
      sample.flags |= Sample::outlier;
      ++m.outlier_blocks;
    }
  }
  m.baseline_seconds = median(baseline_times);
  m.seconds = median(times);
  m.gpu_clock_hz = median(clocks);
  m.gpu_power_watts = median(watts);
  if (task.metric.objective) {
    m.baseline_objective = median(baseline_objectives);
    m.objective = median(objectives);
  }
  return m;
}

}  // namespace faibench
