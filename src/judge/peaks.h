// What this machine can do at most: the measures that floors are held against.
#pragma once
#include <string>
#include <vector>

#include "judge/job.h"

namespace faibench {

/// Bytes a second, read and written counted, of copies by `threads` threads over `bytes_per_thread` (a multiple of 64) each: the better of memcpy and of
/// streaming stores, best of several.
double measure_copy(int threads, std::size_t bytes_per_thread);
/// Copies n floats, 64-byte aligned, n a multiple of 16, by stores that go past the caches.
void stream_copy(const float* from, float* to, std::int64_t n);
/// f32 operations a second (a fused multiply-add counts 2) of `threads` threads with the widest vectors there are. Best of several.
double measure_operations(int threads);
/// Median seconds of a hand-over there and back, `rounds` of them, with a candidate started from `worker` on the first of `cpus`.
double measure_handshake(const std::string& worker, const std::vector<int>& cpus, int rounds);
/// The copy bandwidths and the arithmetic peak, within about half a second.
MachinePeaks measure_peak_rates(int threads);
/// The higher rate of each.
MachinePeaks better_of(MachinePeaks a, const MachinePeaks& b);
/// All of them, and the A/A noise floor, within about 1.5 s. Takes the slot files for the time.
MachinePeaks measure_peaks(const JudgeJob& job, const std::string& worker);

}  // namespace faibench
