#include "launch/retries.h"

#include <algorithm>

namespace faibench {

bool Retries::after(const Break& broken) {
  bool one_more_lost = false;
  for (const std::string& item : broken.in_flight) {
    if (++breaks_[item] <= most_ || std::ranges::any_of(given_up_, [&](const GivenUp& lost) { return lost.item == item; })) continue;
    given_up_.push_back({item, broken.why + "; in flight at " + std::to_string(breaks_[item]) + " breaks of the job"});
    one_more_lost = true;
  }
  fruitless_ = broken.new_verdicts || one_more_lost ? 0 : fruitless_ + 1;
  return fruitless_ <= most_;
}

}  // namespace faibench
