// The launcher of one job as a child process in a group of its own, with its stderr in our hands.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace faibench {

/// What every process of the job inherits.
struct JobSurroundings {
  std::string cookie;
  double hang_after_seconds = 60;
};

class JobProcess {
 public:
  /// Starts the words with stdin from /dev/null. It gets SIGTERM if this process dies. Throws Error(io) where it cannot start.
  JobProcess(const std::vector<std::string>& words, const JobSurroundings& surroundings);
  /// Kills the group if the launcher still runs.
  ~JobProcess();
  JobProcess(const JobProcess&) = delete;
  JobProcess& operator=(const JobProcess&) = delete;

  /// To poll: readable when the job wrote to stderr; -1 once nobody can write to it any more.
  [[nodiscard]] int descriptor() const { return errors_; }
  /// What it wrote since the last call; never waits.
  std::string read_errors();
  /// To the launcher alone: it hands SIGUSR1 on to the ranks.
  void tell(int signal) const;
  /// To the launcher's whole process group.
  void tell_group(int signal) const;
  /// The launcher's exit code (128 + signal where one ended it) once it has ended; never waits.
  std::optional<int> exit_code();

 private:
  pid_t pid_ = -1;
  int errors_ = -1;
  std::optional<int> code_;
};

}  // namespace faibench
