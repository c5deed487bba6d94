#include "judge/processes.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

extern char** environ;

namespace faibench {
namespace {

std::set<pid_t>& ours() {
  static std::set<pid_t> children;
  return children;
}

// Children by /proc: the kernel's own list is not always compiled in.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  DIR* proc = opendir("/proc");
  if (!proc) return found;
  while (const dirent* entry = readdir(proc)) {
    const pid_t pid = static_cast<pid_t>(std::atol(entry->d_name));
    if (pid <= 0) continue;
    std::ifstream stat("/proc/" + std::string(entry->d_name) + "/stat");
    std::string line;
    std::getline(stat, line);
    const std::size_t close = line.rfind(')');  // the name before it may hold anything
    if (close == std::string::npos || close + 4 >= line.size()) continue;
    if (std::atol(line.c_str() + close + 4) == parent) found.push_back(pid);
  }
  closedir(proc);
  return found;
}

}  // namespace

void register_child(pid_t pid) { ours().insert(pid); }
void unregister_child(pid_t pid) { ours().erase(pid); }

void reap_orphans() {
  for (int round = 0; round < 1000; ++round) {  // each round may set free the children of those it kills
    bool any = false;
    for (pid_t pid : children_of(getpid())) {
      if (ours().contains(pid)) continue;
      any = true;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    if (!any) return;
  }
}

bool is_launcher_variable(std::string_view variable) {
  constexpr std::array<std::string_view, 9> prefixes = {"OMPI_", "PMIX_", "PMI_", "PMI2_", "PRTE_", "MPIR_", "HYDRA_", "SLURM_PMI", "ORTE_"};
  for (std::string_view prefix : prefixes)
    if (variable.starts_with(prefix)) return true;
  return false;
}

std::vector<std::string> worker_environment(const std::vector<int>& cpus) {
  std::vector<std::string> variables;
  for (char** v = environ; *v; ++v) {
    const std::string_view variable = *v;
    if (!is_launcher_variable(variable) && !variable.starts_with("OMP_") && !variable.starts_with("GOMP_")) variables.emplace_back(variable);
  }
  if (cpus.empty()) return variables;
  std::string places;
  for (int cpu : cpus) places += (places.empty() ? "{" : ",{") + std::to_string(cpu) + "}";
  variables.push_back("OMP_NUM_THREADS=" + std::to_string(cpus.size()));
  variables.push_back("OMP_PLACES=" + places);
  variables.push_back("OMP_PROC_BIND=close");
  variables.push_back("OMP_DYNAMIC=false");
  return variables;
}

std::vector<int> allowed_cpus() {
  cpu_set_t mask;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  return cpus;
}

}  // namespace faibench
