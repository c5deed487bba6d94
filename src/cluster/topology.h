// Where each rank sits: host, cores, NUMA nodes, GPUs; and what that means for the timing slots.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cluster/schedule.h"
#include "device/gpu_facts.h"
#include "results/provenance.h"

namespace faibench {

/// One rank's place, as it sees it itself. Indices are the operating system's.
struct Place {
  std::string host;
  int pid = 0;
  std::vector<int> cpus;        ///< one hardware thread of each core that the launcher bound this rank to: what its jobs run on
  std::vector<int> cores;       ///< all cores of the binding, by a number that is unique on the host
  std::vector<int> numa_nodes;  ///< that the cpus touch, ascending
  int host_cores = 0;           ///< cores of the host that processes may use at all
  std::vector<GpuFacts> gpus;   ///< visible to this rank, in the CUDA runtime's order
  std::string gpu_driver;
  std::string slot_folder;      ///< where this host's slot files lie
  std::string program_hash;     ///< of the program's bytes: all ranks must run the same
  std::string worker_hash;      ///< of faibench-worker's bytes
  RankFacts facts;              ///< for the provenance and the audit
  std::string host_facts;       ///< HostFacts as JSON; on the first rank of a host, else empty
  int node = 0;                 ///< lowest world rank on the same host
};

/// Asks hwloc and the binding. What the machine will not tell is taken as one core or NUMA node 0. `node`, the hashes, the folder and the host's facts stay empty.
Place find_place();

/// The GPU that a rank works on.
struct GivenGpu {
  int position = -1;       ///< among those that the rank sees; -1: it sees none
  std::string uuid;
  std::vector<int> ranks;  ///< all that were given it, in rank order: more than one where a node has more ranks than GPUs
};
/// By rank. On each node by node-local rank, whatever CUDA_VISIBLE_DEVICES leaves to each (see device/assignment.h).
std::vector<GivenGpu> give_gpus(const std::vector<Place>& places);

std::string to_json(const Place& place);
/// Throws Error(mpi) on text that is no place: it came from another rank.
Place place_from_json(std::string_view text);

/// "0-3,8" of ascending numbers; "" of none.
std::string ranges_text(const std::vector<int>& numbers);

/// What the places of all ranks, in rank order, mean together.
struct Layout {
  std::vector<Place> places;
  std::vector<RankSeat> seats;                       ///< for the schedule, in rank order
  std::vector<std::vector<std::string>> slot_files;  ///< by rank, in the order to lock
  std::vector<GivenGpu> gpus;                        ///< by rank
  std::vector<std::string> gpu_slot_files;           ///< by rank, of its GPU; empty without one
  std::vector<int> nodes;                            ///< first rank of each node, ascending
  /// One line where ranks leave most of a node's cores unused, else empty.
  std::string hint;
};
/// Ranks of one node whose cores overlap hold the slot for a whole task: else they would disturb each other's timings.
Layout lay_out(std::vector<Place> places);

/// The folder of slot files for this user: made if need be (mode 0700), safe from other users: a path that is not ours alone is passed over.
/// Throws Error(io) where nothing can be made.
std::string make_slot_folder();

}  // namespace faibench
