#include "scale/clock.h"

#include <algorithm>
#include <cmath>

namespace faibench::scale {

Offset offset_of(std::span<const RoundTrip> trips) {
  const auto fastest = std::min_element(trips.begin(), trips.end(), [](const RoundTrip& a, const RoundTrip& b) { return a.back - a.sent < b.back - b.sent; });
  const double middle = (fastest->sent + fastest->back) / 2;
  return {middle, fastest->keeper - middle, (fastest->back - fastest->sent) / 2};
}

GlobalClock fit_clock(std::span<const Offset> offsets) {
  GlobalClock clock;
  double at = 0, offset = 0;
  for (const Offset& o : offsets) {
    at += o.at / static_cast<double>(offsets.size());
    offset += o.seconds / static_cast<double>(offsets.size());
  }
  clock.at = at;
  clock.offset = offset;
  double xx = 0, xy = 0;
  for (const Offset& o : offsets) {
    xx += (o.at - at) * (o.at - at);
    xy += (o.at - at) * (o.seconds - offset);
  }
  if (offsets.size() > 1 && offsets.back().at - offsets.front().at >= 0.05) clock.drift = xy / xx;
  for (const Offset& o : offsets) clock.error = std::max({clock.error, o.error, std::abs(clock.global(o.at) - (o.at + o.seconds))});
  return clock;
}

}  // namespace faibench::scale
