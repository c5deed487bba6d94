// What the machine is doing and how it is set, as far as it disturbs timings.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace faibench {

struct BusyProcess {
  int pid = 0;
  std::string name;
  double cores = 0;              ///< processor time over elapsed time
};

/// Texts are empty, numbers -1 where the machine will not tell.
struct MachineState {
  std::string governor;          ///< "performance", "powersave", ...
  std::string turbo;             ///< "on", "off"
  std::string smt;               ///< "on", "off"
  std::string huge_pages;        ///< "always", "madvise", "never"
  bool virtual_machine = false;
  bool numa_balancing = false;
  double load = -1;              ///< runnable processes, averaged over the last minute
  double steal = -1;             ///< share of this machine's time that its host gave to others
  double cpu_quota = -1;         ///< cores that the control group grants
  std::int64_t memory_bytes = -1, memory_available_bytes = -1;
  std::int64_t memory_limit_bytes = -1;  ///< of the control group
  std::int64_t shared_memory_bytes = -1; ///< room left in /dev/shm
  std::vector<BusyProcess> busy; ///< other processes that take a twentieth of a core or more, busiest first
};

/// Processor time so far, in clock ticks: of the whole machine, and of each other process by its id.
struct Ticks {
  double total = 0, stolen = 0;
  std::map<int, std::pair<std::string, double>> by_process;
};
Ticks read_ticks(const std::filesystem::path& root);
/// `steal` and `busy` from two looks that lie `elapsed` seconds apart.
void add_rates(const Ticks& before, const Ticks& after, double elapsed, MachineState& state);

/// Reads /proc and /sys below `root` twice, `seconds` apart: rates need two looks.
MachineState observe_machine(double seconds = 0.5, const std::filesystem::path& root = "/");

/// One line for each thing that will disturb timings or hinder a run on `threads` threads: what it is, and what to do. Empty: nothing found.
std::vector<std::string> disturbances(const MachineState& state, int threads);

}  // namespace faibench
