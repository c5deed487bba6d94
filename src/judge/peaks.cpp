#include "judge/peaks.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "judge/candidate.h"
#include "judge/judge.h"
#include "judge/noise_probe.h"
#include "judge/slot.h"
#include "judge/statistics.h"

namespace faibench {

double measure_copy(int threads, std::size_t bytes_per_thread) {
  const int rounds = static_cast<int>(std::max<std::size_t>(1, (std::size_t{32} << 20) / bytes_per_thread));
  double best = 0;
#pragma omp parallel num_threads(threads)
  {
    // Each thread touches its own pages first.
    Tensor from(Dtype::u8, {static_cast<std::int64_t>(bytes_per_thread)}), to(Dtype::u8, {static_cast<std::int64_t>(bytes_per_thread)});
    std::memset(from.data(), 1, bytes_per_thread);
    for (int trial = 0; trial < 12; ++trial) {
#pragma omp barrier
      const auto start = std::chrono::steady_clock::now();
      for (int round = 0; round < rounds; ++round) {
        if (trial % 2 == 0) std::memcpy(to.data(), from.data(), bytes_per_thread);
        else stream_copy(reinterpret_cast<const float*>(from.data()), reinterpret_cast<float*>(to.data()), static_cast<std::int64_t>(bytes_per_thread / sizeof(float)));
        asm volatile("" : : "r"(to.data()) : "memory");  // every copy counts
      }
#pragma omp barrier
#pragma omp master
      best = std::max(best, 2.0 * threads * rounds * static_cast<double>(bytes_per_thread) / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  return best;
}

double measure_handshake(const std::string& worker, const std::vector<int>& cpus, int rounds) {
  Candidate candidate(worker, std::string(noise_probe_name), "baseline", cpus, {});
  if (auto failure = candidate.load()) throw Error(Error::Kind::internal, "the hand-shake cannot be measured: " + failure->detail);
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i)
    if (const auto round_trip = candidate.ping()) seconds.push_back(*round_trip);
  return median(seconds);
}

MachinePeaks measure_peak_rates(int threads) {
  MachinePeaks peaks;
  peaks.copy_bytes_per_second = measure_copy(threads, std::size_t{64} << 20);
  peaks.cache_copy_bytes_per_second = measure_copy(threads, std::size_t{64} << 10);
  peaks.operations_per_second = measure_operations(threads);
  return peaks;
}

MachinePeaks better_of(MachinePeaks a, const MachinePeaks& b) {
  a.copy_bytes_per_second = std::max(a.copy_bytes_per_second, b.copy_bytes_per_second);
  a.cache_copy_bytes_per_second = std::max(a.cache_copy_bytes_per_second, b.cache_copy_bytes_per_second);
  a.operations_per_second = std::max(a.operations_per_second, b.operations_per_second);
  return a;
}

MachinePeaks measure_peaks(const JudgeJob& job, const std::string& worker) {
  const SlotLock slot(job.slot_files);
  const int threads = std::max(1, static_cast<int>(job.cpus.size()));
  MachinePeaks peaks = measure_peak_rates(threads);
  peaks.handshake_seconds = measure_handshake(worker, job.cpus, 2000);
  JudgeJob probe;
  probe.task = noise_probe_name;
  probe.variant = "baseline";
  probe.workload = "smoke";
  probe.seed = job.seed;
  probe.cpus = job.cpus;
  probe.ref_speedup = 2;
  probe.budget_seconds = 0.3;
  const Record record = judge_task(probe, worker, [](const std::string&) {});
  if (record.verdict != Verdict::passed) throw Error(Error::Kind::internal, "the noise floor cannot be measured: " + record.detail);
  peaks.noise_floor = record.speedup > 0 ? (record.speedup_high - record.speedup_low) / 2 / record.speedup : 0;
  return peaks;
}

}  // namespace faibench
