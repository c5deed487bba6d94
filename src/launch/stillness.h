// Finds the rank that hangs: from stamps alone, by the reader's own clock, so that hosts' clocks need not agree.
#pragma once
#include <map>
#include <optional>

#include "launch/launcher_words.h"
#include "launch/stamp.h"

namespace faibench {

class Stillness {
 public:
  /// Ranks that hang within a phase end the job themselves; `grace_seconds` after that deadline it is our turn.
  /// A gap between two looks counts as `longest_gap_seconds` at most, so that a reader that was stopped itself does not blame others.
  explicit Stillness(double hang_after_seconds, double grace_seconds = 5, double longest_gap_seconds = 2) : hang_after_(hang_after_seconds), grace_(grace_seconds), longest_gap_(longest_gap_seconds) {}
  /// The rank that shows no sign of life, else the one that is beyond its phase's deadline. `now` in seconds.
  std::optional<Casualty> look(const std::map<int, Stamp>& stamps, double now);

 private:
  struct Seen {
    std::int64_t beats = -1, steps = -1;
    double beat_at = 0, step_at = 0;
  };
  double hang_after_, grace_, longest_gap_;
  double looked_at_ = -1, attention_ = 0;
  std::map<int, Seen> seen_;
};

}  // namespace faibench
