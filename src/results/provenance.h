// Where a run's figures come from: the build, the machines, the job. Everything a reader needs to tell two runs apart.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace faibench {

/// One host of the run. Peaks are 0 until measured; texts are empty where the machine will not tell.
struct HostFacts {
  std::string name;
  std::string cpu_model;
  std::string isa;               ///< the instruction sets that matter, space-separated: "sse2 avx2 fma avx512f"
  std::string topology;          ///< "1 package, 1 NUMA node, 2 cores, 2 processors; L1d 32 KiB, L2 1024 KiB, L3 32768 KiB"
  std::string system;            ///< kernel and its release
  std::int64_t memory_bytes = 0;
  std::vector<std::string> gpus; ///< model names
  std::string gpu_driver;
  std::string machine_class;     ///< equal for machines whose timings may be compared: CPU model, cores, instruction sets, GPUs
  std::vector<int> ranks;        ///< of the world, that ran here

  double copy_bytes_per_second = 0;
  double cache_copy_bytes_per_second = 0;
  double operations_per_second = 0;
  double handshake_seconds = 0;
  double noise_floor = 0;
};

/// One rank of the run: what may differ between ranks, and spoils comparisons where it does.
struct RankFacts {
  int rank = 0;
  std::string host;
  std::string cpus;                      ///< processors that it is bound to, as a list of ranges
  std::vector<std::string> gpus;         ///< visible to it, by UUID
  std::string gpu, gpu_facts;            ///< the one that it was given, by UUID, and what that is; empty: none
  std::string clock_source;              ///< of the kernel: "tsc", "hpet", ...
  std::string mpi;                       ///< version of the MPI library that it runs with, and whether that takes device memory
  std::int64_t memory_available_bytes = 0, shared_memory_bytes = 0;  ///< on its host at the start; 0 where that is not told
  std::vector<std::string> environment;  ///< "NAME=value" of the variables that matter; in a Provenance only those that rank 0 has not or has otherwise
};

struct Provenance {
  std::string version, commit;   ///< of faibench; the commit ends in "-dirty" where the tree had changes
  std::string compiler, flags, build_type;
  std::string hdf5, mpi, cuda, nccl;  ///< versions; empty where built without
  std::string command_line;
  std::string started;           ///< UTC, "2026-01-31T23:59:59Z"
  std::uint64_t seed = 0;
  int world_size = 1;
  std::string launcher;          ///< "slurm", "mpirun" or "alone"
  std::string slurm_job_id;      ///< empty outside Slurm
  std::string machine_class;     ///< of the coordinator's host
  std::vector<std::pair<std::string, std::string>> environment;  ///< SLURM_*, OMP_*, MPI and library variables that matter, by name
  std::vector<HostFacts> hosts;
  std::vector<RankFacts> ranks;  ///< in rank order; empty in files of earlier versions
  std::vector<std::string> audit;  ///< what the start-up audit had to say, one line each
};

/// What this process can know about its host, its build and its job: `hosts` holds this host alone, without peaks, with `ranks` empty. Never throws for what a machine will not tell.
Provenance collect_local(const std::vector<std::string>& command_line = {});
/// This host alone: what a rank sends to the coordinator.
HostFacts collect_host();

/// This process as a rank: all but `rank`, `cpus` and what is about GPUs.
RankFacts collect_rank();

/// One JSON object on one line, and back. The readers throw Error(bad_input) naming the field; unknown fields are ignored.
std::string to_json(const HostFacts& host);
HostFacts host_from_json(std::string_view text);
std::string to_json(const RankFacts& rank);
RankFacts rank_from_json(std::string_view text);
std::string to_json(const Provenance& provenance);
Provenance provenance_from_json(std::string_view text);

}  // namespace faibench
