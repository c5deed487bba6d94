// Who is tried again after a break, and when it is enough.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "launch/job_command.h"

namespace faibench {

/// What one launch that broke left behind.
struct Break {
  std::vector<std::string> in_flight;  ///< items of the rank at fault, or of all where that is not known
  bool new_verdicts = false;           ///< the journal grew
  std::string why;                     ///< one line
};

class Retries {
 public:
  /// An item is tried again `most` times; so is a launch that gets nowhere.
  explicit Retries(int most) : most_(most) {}
  /// True: launch again. False: no launch gets anywhere and nothing is left to blame.
  bool after(const Break& broken);
  /// Items to be recorded as lost by the next launch, all so far.
  [[nodiscard]] const std::vector<GivenUp>& given_up() const { return given_up_; }

 private:
  int most_;
  std::map<std::string, int> breaks_;  ///< by item
  std::vector<GivenUp> given_up_;
  int fruitless_ = 0;                  ///< launches in a row without a new verdict
};

}  // namespace faibench
