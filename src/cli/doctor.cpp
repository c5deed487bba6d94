// faibench doctor: what this machine has, what a run will use, what will disturb timings.
#include <poll.h>
#include <unistd.h>

#include <fmt/core.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/machine_state.h"
#include "cli/terminal.h"
#include "cluster/audit.h"
#include "cluster/launch.h"
#include "cluster/preparation.h"
#include "cluster/topology.h"
#include "device/gpu_facts.h"
#include "judge/device_library.h"
#include "judge/judge_process.h"
#include "results/provenance.h"
#include "tensor/error.h"

namespace faibench {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

struct Options {
  bool json = false, no_measure = false;
  double patience_seconds = 60;
};

struct Findings {
  Provenance provenance;
  MachineState state;
  Place place;
  Layout layout;
  std::string worker;                 ///< empty: not there
  std::string results_folder;
  MachinePeaks peaks;
  std::string peaks_missing;          ///< why nothing was measured; empty: peaks are
  std::vector<std::string> hindrances;  ///< what keeps a run from working at all
  GpuList gpus;                       ///< visible to this process
  Audit audit;                        ///< of all ranks of the launch; of this process alone without one
};

/// Waits for the judge's outcome, not for ever: a run that goes on holds the timing slot.
MachinePeaks measure(const JudgeJob& job, double patience_seconds) {
  JudgeProcess judge(job);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_seconds);
  while (std::chrono::steady_clock::now() < deadline) {
    if (auto outcome = judge.poll()) {
      if (outcome->peaks) return *outcome->peaks;
      throw Error(Error::Kind::internal, outcome->failure);
    }
    pollfd waited{judge.descriptor(), POLLIN, 0};
    poll(&waited, 1, 100);
  }
  throw Error(Error::Kind::internal, fmt::format("no answer within {:.0f} s: is a run going on?", patience_seconds));
}

void look_for_worker(Findings& found) {
  try {
    found.worker = worker_path();
    if (access(found.worker.c_str(), X_OK) != 0) {
      found.hindrances.push_back(found.worker + " cannot be executed");
      found.worker.clear();
    }
  } catch (const Error& error) {
    found.hindrances.emplace_back(error.what());
  }
}

void look_at_results_folder(Findings& found) {
  std::error_code error;
  found.results_folder = (std::filesystem::current_path(error) / "results").string();
  const bool exists = std::filesystem::is_directory(found.results_folder, error);
  const std::string tried = exists ? found.results_folder : std::filesystem::current_path(error).string();
  if (access(tried.c_str(), W_OK) != 0) found.hindrances.push_back(tried + " is not writable: results would have nowhere to go; change the folder or give --out");
}

void look_at_place(Findings& found) {
  try {
    found.place = find_place();
    found.place.host = found.provenance.hosts.empty() ? "localhost" : found.provenance.hosts.front().name;
    found.place.slot_folder = make_slot_folder();
    found.layout = lay_out({found.place});
  } catch (const Error& error) {
    found.hindrances.emplace_back(error.what());
  }
}

void look_at_peaks(const Options& options, Findings& found) {
  if (options.no_measure) found.peaks_missing = "--no-measure";
  else if (found.worker.empty()) found.peaks_missing = "faibench-worker is missing";
  if (!found.peaks_missing.empty()) return;
  try {
    JudgeJob job;
    job.kind = JudgeJob::Kind::calibrate;
    job.cpus = found.place.cpus;
    if (!found.layout.slot_files.empty()) job.slot_files = found.layout.slot_files.front();
    found.peaks = measure(job, options.patience_seconds);
  } catch (const Error& error) {
    found.peaks_missing = error.what();
  }
}

// The audit that a run begins with. Empty on ranks that have nothing to say. Throws Error where the ranks do not find each other.
std::optional<Audit> audit_launch() {
  const auto variable = [](const char* name) -> const char* { return std::getenv(name); };
  if (!launched_with_others({1, variable})) return audit({find_place()});
  MpiSession session;  // ends before anything is measured: nobody waits for that
  const LaunchView view{session.size(), variable};
  if (const auto line = wrong_launch(view)) {
    if (speaks_for_launch(view)) throw Error(Error::Kind::bad_input, *line);
    return std::nullopt;
  }
  const std::vector<std::string> texts = session.gather(describe_this_rank(session.first_rank_of_host()));
  if (session.rank() != 0) return std::nullopt;
  return audit(read_places(texts));
}

Findings examine(const Options& options, Audit audited) {
  Findings found;
  found.audit = std::move(audited);
  found.hindrances = found.audit.errors;
  found.state = observe_machine();  // before the worker starts: our own children would count as disturbance
  found.provenance = collect_local();
  found.gpus = list_gpus();
  look_for_worker(found);
  look_at_results_folder(found);
  look_at_place(found);
  look_at_peaks(options, found);
  return found;
}

std::string or_unknown(const std::string& text) { return text.empty() ? "not told" : text; }
std::string size_or_unknown(std::int64_t bytes) { return bytes < 0 ? "not told" : bytes_text(static_cast<double>(bytes)); }

Rows machine_rows(const Findings& found) {
  const MachineState& s = found.state;
  Rows rows;
  if (!found.provenance.hosts.empty()) {
    const HostFacts& host = found.provenance.hosts.front();
    rows = {{"host", host.name}, {"processor", or_unknown(host.cpu_model)}, {"instruction sets", or_unknown(host.isa)}, {"topology", or_unknown(host.topology)}, {"system", or_unknown(host.system)}};
  }
  for (const GpuFacts& gpu : found.gpus.gpus) rows.push_back({"GPU", facts_text(gpu)});
  if (found.gpus.gpus.empty()) rows.push_back({"GPUs", "none: " + found.gpus.why_none});
  else rows.push_back({"GPU driver", or_unknown(found.gpus.driver)});
  rows.push_back({"memory", size_or_unknown(s.memory_bytes) + ", " + size_or_unknown(s.memory_available_bytes) + " available" + (s.memory_limit_bytes >= 0 ? ", limit " + size_or_unknown(s.memory_limit_bytes) : "")});
  rows.push_back({"/dev/shm", size_or_unknown(s.shared_memory_bytes) + " free"});
  rows.push_back({"settings", fmt::format("governor {}, turbo {}, SMT {}, huge pages {}", or_unknown(s.governor), or_unknown(s.turbo), or_unknown(s.smt), or_unknown(s.huge_pages))});
  rows.push_back({"now", fmt::format("load {}, steal {}, {} busy process{}", s.load < 0 ? "not told" : number_text(s.load), s.steal < 0 ? "not told" : fmt::format("{:.1f}%", s.steal * 100), s.busy.size(),
                                     s.busy.size() == 1 ? "" : "es")});
  return rows;
}

Rows software_rows(const Findings& found) {
  const Provenance& p = found.provenance;
  const auto or_without = [](const std::string& version) { return version.empty() ? "built without" : version; };
  return {{"faibench", p.version + (p.commit.empty() ? "" : " (" + p.commit + ")")}, {"compiler", p.compiler + " " + p.flags}, {"MPI", or_without(p.mpi)}, {"HDF5", or_without(p.hdf5)},
          {"CUDA", or_without(p.cuda)}, {"NCCL", or_without(p.nccl)}, {"worker", found.worker.empty() ? "missing" : found.worker}};
}

std::string variants_text(const Findings& found) {
  if (found.gpus.gpus.empty()) return "cpu: no GPU is visible";
  if (!find_device_library(DeviceKind::cuda)) return "cpu: " + no_device_library(DeviceKind::cuda);
  return fmt::format("cuda where a task has it, on the workload gpu ({} visible; each rank of a host is given one)", found.gpus.gpus.size());
}

Rows use_rows(const Findings& found) {
  std::size_t slots = found.layout.slot_files.empty() ? 0 : found.layout.slot_files.front().size();
  Rows rows = {{"processors", fmt::format("{} of this host's {} cores: {}", found.place.cpus.size(), found.place.host_cores, ranges_text(found.place.cpus))},
               {"threads", fmt::format("{} for a rank that is bound like this shell; ranks of one host share its cores", found.place.cpus.size())},
               {"timing slots", fmt::format("{} (one for each NUMA node: tasks on one host are timed one after another in it)", slots)},
               {"variants", variants_text(found)},
               {"results", found.results_folder}};
  if (!found.provenance.launcher.empty() && found.provenance.launcher != "alone") rows.push_back({"launcher", found.provenance.launcher});
  return rows;
}

Rows peak_rows(const Findings& found) {
  if (!found.peaks_missing.empty()) return {{"not measured", found.peaks_missing}};
  const MachinePeaks& p = found.peaks;
  return {{"copy, memory", rate_text(p.copy_bytes_per_second, "B") + " read and written"}, {"copy, cache", rate_text(p.cache_copy_bytes_per_second, "B")},
          {"f32 multiply-add", rate_text(p.operations_per_second, "FLOP")}, {"hand-shake", seconds_text(p.handshake_seconds) + " a call"},
          {"noise floor", fmt::format("+-{:.2f}% (the baseline against itself)", p.noise_floor * 100)}};
}

void print_lines(const char* title, const std::vector<std::string>& lines, int width) {
  fmt::print("\n{}\n", title);
  for (const std::string& line : lines) {
    const std::string text = wrapped(line, 4, width);
    fmt::print("  -{}", text.substr(3));
  }
}

Rows rank_rows(const Findings& found) {
  Rows rows;
  for (const RankFacts& rank : found.audit.ranks) {
    const std::string gpu = rank.gpu.empty() ? "no GPU" : fmt::format("{} of {} visible", rank.gpu, rank.gpus.size());
    rows.push_back({fmt::format("rank {}", rank.rank), fmt::format("{}, processors {}, {}, clock {}, {}, /dev/shm {}", rank.host, rank.cpus, gpu, or_unknown(rank.clock_source), rank.mpi,
                                                                   size_or_unknown(rank.shared_memory_bytes))});
  }
  return rows;
}

void print_text(const Findings& found) {
  const int width = terminal_width(STDOUT_FILENO);
  fmt::print("This machine\n{}", columns(machine_rows(found), 2, width));
  fmt::print("\nThis build\n{}", columns(software_rows(found), 2, width));
  fmt::print("\nWhat a run will use\n{}", columns(use_rows(found), 2, width));
  fmt::print("\nMeasured peaks\n{}", columns(peak_rows(found), 2, width));
  const auto disturbing = disturbances(found.state, static_cast<int>(found.place.cpus.size()));
  fmt::print("\nStart-up audit\n{}", columns(rank_rows(found), 2, width));
  for (const std::string& line : found.audit.notices) fmt::print("  -{}", wrapped(line, 4, width).substr(3));
  if (disturbing.empty()) fmt::print("\nNothing found that would disturb timings.\n");
  else print_lines("What will disturb timings", disturbing, width);
  if (!found.hindrances.empty()) print_lines("What keeps a run from working", found.hindrances, width);
}


Json gpus_json(const GpuList& list) {
  Json gpus = Json::array();
  for (const GpuFacts& gpu : list.gpus)
    gpus.push_back({{"uuid", gpu.uuid}, {"name", gpu.name}, {"memory_bytes", gpu.memory_bytes}, {"l2_bytes", gpu.l2_bytes}, {"multiprocessors", gpu.multiprocessors}, {"capability", gpu.capability},
                    {"exclusive", gpu.exclusive}, {"sm_clock_hz", gpu.sm_clock_hz}, {"memory_clock_hz", gpu.memory_clock_hz}, {"power_limit_watts", gpu.power_limit_watts}, {"driver", list.driver}});
  return gpus;
}

void print_json(const Findings& found) {
  const MachineState& s = found.state;
  Json busy = Json::array();
  for (const BusyProcess& process : s.busy) busy.push_back({{"pid", process.pid}, {"name", process.name}, {"cores", process.cores}});
  Json json = {{"format", "faibench-doctor/1"},
               {"provenance", Json::parse(to_json(found.provenance))},
               {"state",
                {{"governor", s.governor}, {"turbo", s.turbo}, {"smt", s.smt}, {"huge_pages", s.huge_pages}, {"virtual_machine", s.virtual_machine}, {"numa_balancing", s.numa_balancing}, {"load", s.load},
                 {"steal", s.steal}, {"cpu_quota", s.cpu_quota}, {"memory_bytes", s.memory_bytes}, {"memory_available_bytes", s.memory_available_bytes}, {"memory_limit_bytes", s.memory_limit_bytes},
                 {"shared_memory_bytes", s.shared_memory_bytes}, {"busy", busy}}},
               {"use", {{"cpus", found.place.cpus}, {"host_cores", found.place.host_cores}, {"numa_nodes", found.place.numa_nodes}, {"gpus", gpus_json(found.gpus)},
                        {"timing_slots", found.layout.slot_files.empty() ? std::vector<std::string>() : found.layout.slot_files.front()}, {"worker", found.worker}, {"results", found.results_folder}}}};
  json["peaks"] = found.peaks_missing.empty() ? Json::parse(to_json(found.peaks)) : Json();
  if (!found.peaks_missing.empty()) json["peaks_missing"] = found.peaks_missing;
  json["disturbances"] = disturbances(s, static_cast<int>(found.place.cpus.size()));
  json["hindrances"] = found.hindrances;
  Json ranks = Json::array();
  for (const RankFacts& rank : found.audit.ranks) ranks.push_back(Json::parse(to_json(rank)));
  json["audit"] = {{"errors", found.audit.errors}, {"notices", found.audit.notices}, {"ranks", ranks}};
  fmt::print("{}\n", json.dump(1, ' ', false, Json::error_handler_t::replace));
}

int doctor(const Options& options) {
  auto audited = audit_launch();
  if (!audited) return 0;  // another rank speaks
  const Findings found = examine(options, std::move(*audited));
  if (options.json) print_json(found);
  else print_text(found);
  return found.hindrances.empty() ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("doctor", "Say what this machine has, what a run will use and what will disturb timings");
  command->add_flag("--no-measure", options->no_measure, "Leave out the measured peaks (about 2 s)");
  command->add_flag("--json", options->json, "Print JSON for programs");
  command->footer("Exit code: 0 a run would work here, 1 something keeps it from working (it is named), 2 bad usage.\nUnder mpirun or srun it audits all ranks, as a run does at its start.\nExample: mpirun -n 8 --hostfile hosts faibench doctor");
  command->callback([options, &exit_code] { exit_code = doctor(*options); });
}

}  // namespace faibench
