#include "cli/machine_state.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "cli/terminal.h"

namespace faibench {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<double> number_in(const fs::path& path) {
  std::istringstream text(first_line(path));
  double value = 0;
  return text >> value ? std::optional(value) : std::nullopt;
}

/// "always [madvise] never" -> "madvise".
std::string chosen(const std::string& line) {
  const auto open = line.find('['), close = line.find(']');
  return open == std::string::npos || close == std::string::npos || close < open ? "" : line.substr(open + 1, close - open - 1);
}

std::string on_off(const std::optional<double>& value, bool inverted = false) { return !value ? "" : ((*value != 0) != inverted) ? "on" : "off"; }

/// user nice system idle iowait irq softirq steal (guest times are in user already)
void read_machine_ticks(const fs::path& root, Ticks& ticks) {
  std::istringstream line(first_line(root / "proc/stat"));
  std::string word;
  line >> word;
  double value = 0;
  for (int field = 0; field < 8 && line >> value; ++field) {
    ticks.total += value;
    if (field == 7) ticks.stolen = value;
  }
}

/// "pid (name) state ppid ...": the name may hold spaces and parentheses, the last ')' ends it. utime and stime are fields 14 and 15.
void read_process_ticks(const fs::path& folder, int pid, Ticks& ticks) {
  const std::string line = first_line(folder / "stat");
  const auto open = line.find('('), close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return;
  std::istringstream rest(line.substr(close + 1));
  std::string word;
  for (int field = 3; field < 14; ++field) rest >> word;
  double user = 0, system = 0;
  if (rest >> user >> system) ticks.by_process[pid] = {line.substr(open + 1, close - open - 1), user + system};
}

void read_memory(const fs::path& root, MachineState& state) {
  std::ifstream file(root / "proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    double kib = 0;
    if (!(fields >> name >> kib)) continue;
    if (name == "MemTotal:") state.memory_bytes = static_cast<std::int64_t>(kib * 1024);
    if (name == "MemAvailable:") state.memory_available_bytes = static_cast<std::int64_t>(kib * 1024);
  }
  struct statvfs room {};
  if (statvfs((root / "dev/shm").c_str(), &room) == 0) state.shared_memory_bytes = static_cast<std::int64_t>(room.f_bavail) * static_cast<std::int64_t>(room.f_frsize);
}

void read_control_group(const fs::path& root, MachineState& state) {
  const fs::path group = root / "sys/fs/cgroup";
  double quota = 0, period = 0;
  if (std::istringstream v2(first_line(group / "cpu.max")); v2 >> quota >> period && period > 0) state.cpu_quota = quota / period;  // "max" is no number
  const auto v1_quota = number_in(group / "cpu/cpu.cfs_quota_us"), v1_period = number_in(group / "cpu/cpu.cfs_period_us");
  if (v1_quota && v1_period && *v1_quota > 0 && *v1_period > 0) state.cpu_quota = *v1_quota / *v1_period;
  for (const char* file : {"memory.max", "memory/memory.limit_in_bytes"})
    if (const auto limit = number_in(group / file); limit && *limit < 0x1p62) state.memory_limit_bytes = static_cast<std::int64_t>(*limit);
}

void read_settings(const fs::path& root, MachineState& state) {
  const fs::path cpu = root / "sys/devices/system/cpu";
  state.governor = first_line(cpu / "cpu0/cpufreq/scaling_governor");
  state.turbo = on_off(number_in(cpu / "intel_pstate/no_turbo"), true);
  if (state.turbo.empty()) state.turbo = on_off(number_in(cpu / "cpufreq/boost"));
  state.smt = on_off(number_in(cpu / "smt/active"));
  state.huge_pages = chosen(first_line(root / "sys/kernel/mm/transparent_hugepage/enabled"));
  state.numa_balancing = number_in(root / "proc/sys/kernel/numa_balancing").value_or(0) != 0 && fs::exists(root / "sys/devices/system/node/node1");
  std::ifstream cpuinfo(root / "proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.rfind("flags", 0) == 0) {
      state.virtual_machine = line.find(" hypervisor") != std::string::npos;
      break;
    }
}

}  // namespace

Ticks read_ticks(const fs::path& root) {
  Ticks ticks;
  read_machine_ticks(root, ticks);
  std::error_code error;
  for (fs::directory_iterator entry(root / "proc", error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int pid = 0;
    const auto [at, bad] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad == std::errc() && at == name.data() + name.size() && pid != getpid()) read_process_ticks(entry->path(), pid, ticks);
  }
  return ticks;
}

void add_rates(const Ticks& before, const Ticks& after, double elapsed, MachineState& state) {
  if (after.total > before.total) state.steal = (after.stolen - before.stolen) / (after.total - before.total);
  const double ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  for (const auto& [pid, process] : after.by_process) {
    const auto earlier = before.by_process.find(pid);
    if (earlier == before.by_process.end()) continue;
    const double cores = (process.second - earlier->second.second) / ticks_per_second / elapsed;
    if (cores >= 0.05) state.busy.push_back({pid, process.first, cores});
  }
  std::sort(state.busy.begin(), state.busy.end(), [](const BusyProcess& a, const BusyProcess& b) { return a.cores > b.cores; });
}

MachineState observe_machine(double seconds, const fs::path& root) {
  MachineState state;
  const auto started = std::chrono::steady_clock::now();
  const Ticks before = read_ticks(root);
  read_settings(root, state);
  read_memory(root, state);
  read_control_group(root, state);
  state.load = number_in(root / "proc/loadavg").value_or(-1);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const Ticks after = read_ticks(root);
  add_rates(before, after, std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count(), state);
  return state;
}

std::vector<std::string> disturbances(const MachineState& state, int threads) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < state.busy.size() && i < 5; ++i)
    lines.push_back(fmt::format("process {} ({}) takes {:.0f}% of a core: stop it for the run", state.busy[i].pid, state.busy[i].name, state.busy[i].cores * 100));
  if (state.busy.size() > 5) lines.push_back(fmt::format("and {} more processes that take a twentieth of a core or more", state.busy.size() - 5));
  if (state.load > 0.5 && state.busy.empty()) lines.push_back("load average " + number_text(state.load) + ": the machine was busy within the last minute; wait a little");
  if (state.steal > 0.01) lines.push_back(fmt::format("the host gave {:.1f}% of this machine's time to others: expect wide intervals, or take a dedicated machine", state.steal * 100));
  if (state.virtual_machine) lines.push_back("virtual machine: neighbours and the hypervisor share its caches and memory bandwidth; expect more outliers than on bare metal");
  if (!state.governor.empty() && state.governor != "performance") lines.push_back("frequency governor '" + state.governor + "': set it to 'performance' (cpupower frequency-set -g performance)");
  if (state.turbo == "on") lines.push_back("turbo is on: clocks depend on load and temperature; ratios stay fair, absolute times may drift");
  if (state.smt == "on") lines.push_back("SMT is on: work on a core's other hardware thread slows it; a run uses one thread of each core");
  if (state.huge_pages == "never") lines.push_back("transparent huge pages are off: memory-bound kernels pay for page walks (echo madvise > /sys/kernel/mm/transparent_hugepage/enabled)");
  if (state.numa_balancing) lines.push_back("automatic NUMA balancing is on: it moves pages while kernels run (sysctl kernel.numa_balancing=0)");
  if (state.cpu_quota > 0 && state.cpu_quota < threads)
    lines.push_back(fmt::format("the control group grants {} cores to {} threads: they will be halted within timed calls; bind to fewer cores or raise the quota", number_text(state.cpu_quota), threads));
  const std::int64_t room = std::int64_t{2} << 30;
  if (state.shared_memory_bytes >= 0 && state.shared_memory_bytes < room / 4) lines.push_back("/dev/shm has only " + bytes_text(static_cast<double>(state.shared_memory_bytes)) + " left: MPI over shared memory may fail");
  if (state.memory_available_bytes >= 0 && state.memory_available_bytes < room) lines.push_back("only " + bytes_text(static_cast<double>(state.memory_available_bytes)) + " of memory are available: standard workloads may not fit");
  if (state.memory_limit_bytes >= 0 && state.memory_limit_bytes < room) lines.push_back("the control group allows only " + bytes_text(static_cast<double>(state.memory_limit_bytes)) + " of memory: standard workloads may not fit");
  return lines;
}

}  // namespace faibench
