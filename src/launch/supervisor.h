// Runs one job to its end through deaths, hangs and lost hosts. Speaks no MPI itself, so that nothing that happens to the job happens to it.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "launch/job_command.h"

namespace faibench {

/// Where the supervisor's words and the job's stderr go.
struct SupervisorVoice {
  std::function<void(const std::string& line)> say;
  std::function<void(std::string_view bytes)> pass_on;
};

/// Starts the job; where it breaks (a rank dies or hangs, the launcher dies), ends what is left of it on every host, starts it again over its journal, and gives up on items that were in flight at
/// every break. SIGTERM, SIGINT and SIGUSR1 to this process stop the job cleanly. For one thread, one at a time in a process: signals and all children are its own while it works.
/// Returns the exit code of the last launch; 143, 130 or 1 where a signal stopped it; 4 where no launch gets anywhere. Throws Error(io) where the launcher cannot be started.
int supervise(const JobCommand& command, const SupervisorVoice& voice);

}  // namespace faibench
