// The clock of a call on a GPU. It lies in the judge's process, whose context is not the candidate's.
//
// A candidate synchronises its device before it answers, and the judge's own clock sees that from outside. But a process that answers before its kernels are done looks fast on any clock of the
// host. So the same span is measured on the device: an event of the judge before the hand-over, another behind work of the judge after the answer. Contexts of two processes take turns on a
// device: the judge's work starts when the candidate's has ended, or has used up its turn (about 2 ms); and what runs on after that is cut off from the verdict, as the outputs are fetched at once.
// On a device with nothing left to do, the events say more than the clock by what recording them costs, a fixed figure that is measured with empty calls. Therefore
//     seconds = max(clock, events - cost of recording)
// which is the clock's figure for who synchronised and the device's for who did not. Nothing that a candidate says enters.
#pragma once
#include <cstdint>
#include <functional>

#include "device/owners.h"

namespace faibench {

class TimingWindow {
 public:
  /// For the device in use, whose L2 cache has `l2_bytes`.
  TimingWindow(CudaLibrary& cuda, std::int64_t l2_bytes);

  /// Before a call: no line of its tensors is left in the L2 cache and none is pinned there; the device is idle; the start event is past.
  void open();
  /// After it, `clock_seconds` by the host: closes with a device-wide synchronisation and gives the call's seconds.
  double close(double clock_seconds);

  /// Measures what recording costs, with calls that do nothing and say how long they took.
  void calibrate(const std::function<double()>& empty_call, int calls = 20);
  [[nodiscard]] double recording_seconds() const { return recording_seconds_; }
  /// Device memory that is read and written before each call: at least twice the L2 cache.
  [[nodiscard]] std::int64_t flushed_bytes() const { return flushed_bytes_; }

 private:
  CudaLibrary& cuda_;
  std::int64_t flushed_bytes_;
  GpuStream stream_;
  GpuEvent start_, stop_;
  GpuMemory flushed_;
  unsigned char pattern_ = 0;
  double recording_seconds_ = 0;
};

}  // namespace faibench
