// Finds and ends what a job left behind on this host: every process of it carries the job's cookie.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace faibench {

/// The variable that all processes of a job inherit, and a new value for it.
inline constexpr const char* job_variable = "FAIBENCH_JOB";
std::string new_job_cookie();

/// This user's processes on this host with the cookie in their environment, and the launcher's daemons that name it on their command line.
/// Neither this process nor its ancestors are among them.
std::vector<pid_t> processes_of_job(const std::string& cookie);

/// SIGKILL to all of them, again and again until none is left or the time is over. Returns how many were ended.
int sweep(const std::string& cookie, double seconds);

}  // namespace faibench
