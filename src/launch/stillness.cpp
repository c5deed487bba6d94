#include "launch/stillness.h"

#include <algorithm>

namespace faibench {
namespace {

std::string seconds_text(double seconds) { return std::to_string(static_cast<int>(seconds + 0.5)) + " s"; }

Casualty casualty_of(const Stamp& stamp, const std::string& how) {
  return {stamp.rank, stamp.host, how + ", last seen in " + describe_phase(stamp)};
}

}  // namespace

std::optional<Casualty> Stillness::look(const std::map<int, Stamp>& stamps, double now) {
  if (looked_at_ >= 0) attention_ += std::min(now - looked_at_, longest_gap_);
  looked_at_ = now;
  std::optional<Casualty> silent, stuck;
  for (const auto& [rank, stamp] : stamps) {
    Seen& seen = seen_[rank];
    if (stamp.beats != seen.beats) seen.beat_at = attention_;
    if (stamp.steps != seen.steps || stamp.deadline_seconds <= 0) seen.step_at = attention_;
    seen.beats = stamp.beats;
    seen.steps = stamp.steps;
    const double quiet = attention_ - seen.beat_at, still = attention_ - seen.step_at;
    if (!silent && quiet > silence_limit(stamp, hang_after_)) silent = casualty_of(stamp, "shows no sign of life for " + seconds_text(quiet) + " (stopped, or its host is out of reach)");
    if (!stuck && stamp.deadline_seconds > 0 && still > stamp.deadline_seconds + grace_) stuck = casualty_of(stamp, "makes no progress for " + seconds_text(still));
  }
  return silent ? silent : stuck;
}

}  // namespace faibench
