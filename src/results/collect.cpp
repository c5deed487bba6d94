// What one process can know about its host, its build and its job. Whatever the machine will not tell stays empty.
#include <hdf5.h>
#include <hwloc.h>
#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "results/build_facts.h"
#include "results/provenance.h"

extern char** environ;

namespace faibench {
namespace {

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last - first + 1));
}

// "model name\t: AMD EPYC" -> {"model name", "AMD EPYC"}
std::pair<std::string, std::string> split_line(const std::string& line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos) return {};
  return {trimmed(std::string_view(line).substr(0, colon)), trimmed(std::string_view(line).substr(colon + 1))};
}

void add_processor(HostFacts& host) {
  static constexpr std::array interesting = {"sse2", "sse4_2", "avx",      "avx2",        "fma",         "f16c",        "avx512f",  "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16",
                                             "amx_tile", "amx_int8", "amx_bf16", "asimd", "asimdhp", "sve", "sve2"};
  std::ifstream file("/proc/cpuinfo");
  std::string flags;
  for (std::string line; std::getline(file, line);) {
    const auto [name, value] = split_line(line);
    if (name == "model name" && host.cpu_model.empty()) host.cpu_model = value;
    if ((name == "flags" || name == "Features") && flags.empty()) flags = " " + value + " ";
    if (!host.cpu_model.empty() && !flags.empty()) break;
  }
  for (const char* name : interesting)
    if (flags.find(" " + std::string(name) + " ") != std::string::npos) host.isa += (host.isa.empty() ? "" : " ") + std::string(name);
}

std::string counted(int count, const std::string& one, const std::string& many) { return std::to_string(count) + " " + (count == 1 ? one : many); }

int add_topology(HostFacts& host) {
  hwloc_topology_t raw;
  if (hwloc_topology_init(&raw) != 0) return 0;
  const std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, decltype(&hwloc_topology_destroy)> topology(raw, hwloc_topology_destroy);
  if (hwloc_topology_load(raw) != 0) return 0;
  const auto count = [&](hwloc_obj_type_t type) { return std::max(hwloc_get_nbobjs_by_type(raw, type), 0); };
  const int cores = count(HWLOC_OBJ_CORE);
  host.topology = counted(count(HWLOC_OBJ_PACKAGE), "package", "packages") + ", " + counted(count(HWLOC_OBJ_NUMANODE), "NUMA node", "NUMA nodes") + ", " +
                  counted(cores, "core", "cores") + ", " + counted(count(HWLOC_OBJ_PU), "processor", "processors");
  std::string separator = "; ";
  for (const auto& [type, name] : {std::pair{HWLOC_OBJ_L1CACHE, "L1d"}, {HWLOC_OBJ_L2CACHE, "L2"}, {HWLOC_OBJ_L3CACHE, "L3"}}) {
    const hwloc_obj_t cache = hwloc_get_obj_by_type(raw, type, 0);
    if (!cache || !cache->attr) continue;
    host.topology += separator + name + " " + std::to_string(cache->attr->cache.size / 1024) + " KiB";
    separator = ", ";
  }
  return cores;
}

// The driver's own pages: no CUDA library is loaded to ask.
void add_gpus(HostFacts& host) {
  std::error_code error;
  std::ifstream version("/proc/driver/nvidia/version");
  if (std::string line; std::getline(version, line)) {
    std::istringstream words(line.substr(std::min(line.find("Module"), line.size())));
    for (std::string word; words >> word;)
      if (word.find('.') != std::string::npos) {
        host.gpu_driver = word;
        break;
      }
  }
  for (std::filesystem::directory_iterator at("/proc/driver/nvidia/gpus", error), end; !error && at != end; at.increment(error)) {
    std::ifstream file(at->path() / "information");
    for (std::string line; std::getline(file, line);)
      if (const auto [name, value] = split_line(line); name == "Model") host.gpus.push_back(value);
  }
}

bool matters(std::string_view name) {
  static constexpr std::array<std::string_view, 11> prefixes = {"OMP_", "GOMP_", "KMP_", "OMPI_MCA_", "UCX_", "NCCL_", "CUDA_", "HDF5_", "FAIBENCH_", "MALLOC_", "GLIBC_TUNABLES"};
  static constexpr std::array<std::string_view, 14> names = {"SLURM_JOB_ID",       "SLURM_JOB_NAME",      "SLURM_JOB_PARTITION", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES",
                                                             "SLURM_NTASKS",       "SLURM_CPUS_PER_TASK", "SLURM_CPU_BIND",      "SLURM_MEM_BIND",     "SLURM_CLUSTER_NAME",
                                                             "SLURM_TASKS_PER_NODE", "SLURM_GPUS_ON_NODE",  "OMPI_COMM_WORLD_SIZE", "LD_PRELOAD"};
  for (std::string_view prefix : prefixes)
    if (name.starts_with(prefix)) return true;
  return std::find(names.begin(), names.end(), name) != names.end();
}

// By which mpirun's daemon gives each rank its number and its folders: they always differ.
bool tells_a_rank_what_it_is(std::string_view name) {
  for (std::string_view prefix : {"OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_MCA_initial_wdir", "OMPI_COMM_WORLD_"})
    if (name.starts_with(prefix)) return true;
  return false;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string quoted(const std::string& word) {
  if (!word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-") == std::string::npos) return word;
  std::string result = "'";
  for (char c : word) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

// Asked of the library that runs: the one it was built against may have answered otherwise. Where it says no, tensors on a device are staged through host memory.
std::string device_memory_in_mpi() {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() == 1 ? ", takes device memory" : ", takes no device memory";
#else
  return "";
#endif
}

std::string mpi_version() {  // one of the few calls that are allowed before MPI_Init
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string_view line = std::string_view(text, static_cast<std::size_t>(length));
  return trimmed(line.substr(0, line.find_first_of(",\n"))) + device_memory_in_mpi();
}

std::vector<std::pair<std::string, std::string>> environment_that_matters() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos && matters(text.substr(0, equals))) variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::sort(variables.begin(), variables.end());
  return variables;
}

}  // namespace

HostFacts collect_host() {
  HostFacts host;
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) == 0) host.name = name;
  struct utsname system;
  if (::uname(&system) == 0) host.system = std::string(system.sysname) + " " + system.release + " " + system.machine;
  host.memory_bytes = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  add_processor(host);
  const int cores = add_topology(host);
  add_gpus(host);
  host.machine_class = host.cpu_model + ", " + counted(cores, "core", "cores") + ", " + host.isa;
  for (const std::string& gpu : host.gpus) host.machine_class += ", " + gpu;
  return host;
}

RankFacts collect_rank() {
  RankFacts rank;
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) == 0) rank.host = name;
  rank.mpi = mpi_version();
  std::ifstream clock("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::getline(clock, rank.clock_source);
  std::ifstream memory("/proc/meminfo");
  for (std::string line; std::getline(memory, line);)
    if (const auto [field, value] = split_line(line); field == "MemAvailable") rank.memory_available_bytes = std::atoll(value.c_str()) * 1024;
  struct statvfs room {};
  if (::statvfs("/dev/shm", &room) == 0) rank.shared_memory_bytes = static_cast<std::int64_t>(room.f_bavail) * static_cast<std::int64_t>(room.f_frsize);
  for (const auto& [variable_name, value] : environment_that_matters())
    if (!tells_a_rank_what_it_is(variable_name)) rank.environment.push_back(variable_name + "=" + value);
  return rank;
}

Provenance collect_local(const std::vector<std::string>& command_line) {
  Provenance p;
  p.version = build_facts::version;
  p.commit = build_facts::commit();
  p.compiler = build_facts::compiler;
  p.flags = build_facts::flags;
  p.build_type = build_facts::build_type;
  p.cuda = build_facts::cuda;
  p.nccl = build_facts::nccl;
  p.hdf5 = hdf5_version();
  p.mpi = mpi_version();
  for (const std::string& word : command_line) p.command_line += (p.command_line.empty() ? "" : " ") + quoted(word);
  p.started = utc_now();
  p.slurm_job_id = variable("SLURM_JOB_ID");
  p.launcher = !variable("SLURM_STEP_ID").empty() && !variable("PMIX_RANK").empty() ? "slurm" : !variable("OMPI_COMM_WORLD_SIZE").empty() ? "mpirun" : "alone";
  p.environment = environment_that_matters();
  p.hosts.push_back(collect_host());
  p.machine_class = p.hosts.front().machine_class;
  return p;
}

}  // namespace faibench
