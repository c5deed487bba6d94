// One clock for ranks on several nodes: offsets from round trips, drift by a line through them. Pure.
#pragma once
#include <span>

namespace faibench::scale {

/// One ping-pong between a rank and the one that keeps the time: own clock before and after, the keeper's in between.
struct RoundTrip { double sent = 0, keeper = 0, back = 0; };

struct Offset {
  double at = 0;          ///< own clock
  double seconds = 0;     ///< keeper - own
  double error = 0;       ///< half of the fastest round trip: the offset is that sure
};
/// From the fastest of the round trips, which waited least. Needs one.
Offset offset_of(std::span<const RoundTrip> trips);

/// keeper = own + offset + drift * (own - at).
struct GlobalClock {
  double at = 0, offset = 0, drift = 0;
  double error = 0;       ///< seconds, the largest of its offsets' and of what they miss the line by
  [[nodiscard]] double global(double own) const { return own + offset + drift * (own - at); }
  [[nodiscard]] double own(double global) const { return at + (global - at - offset) / (1 + drift); }
};
/// A line through the offsets; with points over less than 0.05 s, or one alone, no drift is claimed.
GlobalClock fit_clock(std::span<const Offset> offsets);

/// Whether a time can be told from the clocks' error: at least five times it.
inline bool tells(double seconds, double clock_error) { return seconds >= 5 * clock_error; }

}  // namespace faibench::scale
