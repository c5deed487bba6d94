// SIGINT, SIGTERM and SIGUSR1 (Slurm's warning that the time is nearly up) as something the loop can ask about.
#pragma once
#include <csignal>
#include <string>

namespace faibench {

/// While one lives, the first of these signals is noted instead of ending the process; a second one ends it as usual. One at a time in a process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  /// The signal that came, 0 if none did.
  [[nodiscard]] static int received();

 private:
  struct sigaction before_[3];
};

/// "SIGTERM"
std::string stop_signal_name(int signal);
/// 130 for SIGINT, 143 for SIGTERM, 1 for SIGUSR1: the job was only told that its time is nearly up.
int exit_code_of_signal(int signal);

}  // namespace faibench
