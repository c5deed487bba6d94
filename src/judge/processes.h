// Child processes of a judge: who is ours, and what to do with those that are nobody's any more.
#pragma once
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace faibench {

/// Children that somebody waits for; everything else below this process is an orphan.
void register_child(pid_t pid);
void unregister_child(pid_t pid);

/// Kills and reaps every child of this process that is not registered, until none is left. Needs adopt_orphans().
void reap_orphans();

/// "OMPI_COMM_WORLD_RANK=3": variables by which launchers and MPI libraries tell a process that it is a rank.
bool is_launcher_variable(std::string_view variable);

/// The environment of a judge or candidate: this process's, without launcher variables, and with a thread team of one thread on each of `cpus`.
std::vector<std::string> worker_environment(const std::vector<int>& cpus);

/// The processors that this process may run on, ascending.
std::vector<int> allowed_cpus();

}  // namespace faibench
