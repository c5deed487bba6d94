#include "device/timing_window.h"

#include <algorithm>

namespace faibench {
namespace {

constexpr std::int64_t largest_cache = std::int64_t{64} << 20;  // taken where the runtime does not say how large it is
constexpr std::size_t closing_bytes = 4096;

}  // namespace

TimingWindow::TimingWindow(CudaLibrary& cuda, std::int64_t l2_bytes)
    : cuda_(cuda), flushed_bytes_(2 * (l2_bytes > 0 ? l2_bytes : largest_cache)), stream_(gpu_stream(cuda)), start_(gpu_event(cuda)), stop_(gpu_event(cuda)),
      flushed_(gpu_memory(cuda, static_cast<std::size_t>(flushed_bytes_))) {}

void TimingWindow::open() {
  cuda_.reset_persisting_lines();
  cuda_.fill(flushed_.get(), ++pattern_, static_cast<std::size_t>(flushed_bytes_), stream_.get());
  cuda_.synchronize_device();
  cuda_.record(start_.get(), stream_.get());
  cuda_.wait(start_.get());
}

double TimingWindow::close(double clock_seconds) {
  cuda_.fill(flushed_.get(), ++pattern_, closing_bytes, stream_.get());
  cuda_.record(stop_.get(), stream_.get());
  cuda_.synchronize_device();
  return std::max(clock_seconds, cuda_.seconds_between(start_.get(), stop_.get()) - recording_seconds_);
}

void TimingWindow::calibrate(const std::function<double()>& empty_call, int calls) {
  recording_seconds_ = 0;
  double least = -1;
  for (int i = 0; i < calls; ++i) {
    open();
    const double clock = empty_call();
    const double cost = close(clock) - clock;
    least = least < 0 ? cost : std::min(least, cost);
  }
  recording_seconds_ = std::max(least, 0.0);
}

}  // namespace faibench
