// Ends what a job left on other hosts, also where one is out of reach for a while.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "launch/job_command.h"

namespace faibench {

class HostSweeper {
 public:
  HostSweeper(const JobCommand& command, std::function<void(const std::string& line)> say) : command_(command), say_(std::move(say)) {}
  /// Every host of the host file, else those in `seen`, but for this one: the way that ranks get there, one launcher a host, so that one that is gone does not keep the others from being swept.
  /// A host that cannot be reached is told of, and kept for again(). Takes 10 s for 16 hosts at most.
  void sweep(const std::set<std::string>& seen, const std::string& cookie);
  /// What could not be reached before. True: nothing of that is left.
  bool again();
  /// Hosts that are still to be swept, as "h2, h3"; empty: none.
  [[nodiscard]] std::string out_of_reach() const;
  /// Of the last words of a job: hosts that were never reached again, and what to do there.
  void say_what_is_left() const;

 private:
  using Place = std::pair<std::string, std::string>;  // host and cookie
  [[nodiscard]] std::set<Place> attempt(const std::set<Place>& places) const;

  const JobCommand& command_;
  std::function<void(const std::string&)> say_;
  std::set<Place> unreached_;
};

}  // namespace faibench
