#include "cluster/topology.h"

#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "device/assignment.h"
#include "tensor/error.h"

namespace faibench {
namespace {

struct Bitmap {
  hwloc_bitmap_t bits = hwloc_bitmap_alloc();
  Bitmap() = default;
  Bitmap(const Bitmap&) = delete;
  Bitmap& operator=(const Bitmap&) = delete;
  ~Bitmap() { hwloc_bitmap_free(bits); }
};

struct Topology {
  hwloc_topology_t handle = nullptr;
  Topology() {
    if (hwloc_topology_init(&handle) != 0) handle = nullptr;
    if (handle && hwloc_topology_load(handle) != 0) {
      hwloc_topology_destroy(handle);
      handle = nullptr;
    }
  }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;
  ~Topology() {
    if (handle) hwloc_topology_destroy(handle);
  }
};

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

// Cores within `allowed`: a processor each, the lowest one, and the core's own number.
void add_cores(hwloc_topology_t topology, hwloc_const_bitmap_t allowed, Place& place) {
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core));) {
    Bitmap mine;
    hwloc_bitmap_and(mine.bits, core->cpuset, allowed);
    if (const int cpu = hwloc_bitmap_first(mine.bits); cpu >= 0) {
      place.cpus.push_back(cpu);
      place.cores.push_back(static_cast<int>(core->logical_index));
    }
  }
  if (!place.cpus.empty()) return;
  for (int cpu = hwloc_bitmap_first(allowed); cpu >= 0; cpu = hwloc_bitmap_next(allowed, cpu)) {  // a machine that does not show its cores
    place.cpus.push_back(cpu);
    place.cores.push_back(cpu);
  }
}

bool overlap(const std::vector<int>& a, const std::vector<int>& b) {
  return std::ranges::any_of(a, [&](int x) { return std::ranges::find(b, x) != b.end(); });
}

std::string core_hint(const std::vector<Place>& places, int node) {
  std::set<int> used;
  int ranks = 0;
  for (const Place& place : places) {
    if (place.node != node) continue;
    used.insert(place.cores.begin(), place.cores.end());
    ++ranks;
  }
  const Place& first = places[static_cast<std::size_t>(node)];
  if (static_cast<int>(used.size()) * 2 > first.host_cores || first.host_cores < 2) return {};
  return std::to_string(ranks) + (ranks == 1 ? " rank is" : " ranks are") + " bound to " + std::to_string(used.size()) + " of the " + std::to_string(first.host_cores) +
         " cores of " + first.host + ": tasks will use no more. To use all: mpirun --bind-to none with one rank a node, or --map-by numa --bind-to numa; srun --cpus-per-task";
}

}  // namespace

Place find_place() {
  Place place;
  place.host = host_name();
  place.pid = static_cast<int>(getpid());
  place.facts = collect_rank();
  GpuList gpus = list_gpus();
  place.facts.gpus = uuids_of(gpus.gpus);
  place.gpus = std::move(gpus.gpus);
  place.gpu_driver = gpus.driver;
  place.host_cores = 1;
  Topology topology;
  if (topology.handle) {
    const hwloc_const_bitmap_t allowed = hwloc_topology_get_allowed_cpuset(topology.handle);
    Bitmap bound;
    if (hwloc_get_cpubind(topology.handle, bound.bits, HWLOC_CPUBIND_PROCESS) != 0 || hwloc_bitmap_iszero(bound.bits)) hwloc_bitmap_copy(bound.bits, allowed);
    hwloc_bitmap_and(bound.bits, bound.bits, allowed);
    add_cores(topology.handle, bound.bits, place);
    Place whole_host;
    add_cores(topology.handle, allowed, whole_host);
    place.host_cores = static_cast<int>(whole_host.cores.size());
    for (hwloc_obj_t numa = nullptr; (numa = hwloc_get_next_obj_by_type(topology.handle, HWLOC_OBJ_NUMANODE, numa));) {
      if (std::ranges::any_of(place.cpus, [&](int cpu) { return hwloc_bitmap_isset(numa->cpuset, static_cast<unsigned>(cpu)); })) {
        place.numa_nodes.push_back(static_cast<int>(numa->os_index));
      }
    }
  }
  if (place.cpus.empty()) place.cpus = place.cores = {0};
  if (place.numa_nodes.empty()) place.numa_nodes = {0};
  std::ranges::sort(place.cpus);
  std::ranges::sort(place.numa_nodes);
  place.facts.cpus = ranges_text(place.cpus);
  return place;
}

std::vector<GivenGpu> give_gpus(const std::vector<Place>& places) {
  std::map<int, std::vector<int>> nodes;
  for (int rank = 0; rank < static_cast<int>(places.size()); ++rank) nodes[places[static_cast<std::size_t>(rank)].node].push_back(rank);
  std::vector<GivenGpu> given(places.size());
  for (const auto& [node, ranks] : nodes) {
    std::vector<std::vector<std::string>> visible;
    for (int rank : ranks) visible.push_back(places[static_cast<std::size_t>(rank)].facts.gpus);
    const std::vector<int> positions = assign_gpus(visible);
    std::map<std::string, std::vector<int>> users;
    for (std::size_t local = 0; local < ranks.size(); ++local) {
      if (positions[local] >= 0) users[visible[local][static_cast<std::size_t>(positions[local])]].push_back(ranks[local]);
    }
    for (std::size_t local = 0; local < ranks.size(); ++local) {
      if (positions[local] < 0) continue;
      const std::string& uuid = visible[local][static_cast<std::size_t>(positions[local])];
      given[static_cast<std::size_t>(ranks[local])] = {positions[local], uuid, users[uuid]};
    }
  }
  return given;
}

std::string ranges_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[i]);
    if (last > i) text += '-' + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

Layout lay_out(std::vector<Place> places) {
  Layout layout;
  layout.gpus = give_gpus(places);
  std::map<std::pair<int, int>, int> slot_numbers;  // (node, NUMA node)
  for (std::size_t r = 0; r < places.size(); ++r) {
    const Place& place = places[r];
    const bool shares_cores = [&] {
      for (std::size_t other = 0; other < places.size(); ++other) {
        if (other != r && places[other].node == place.node && overlap(places[other].cores, place.cores)) return true;
      }
      return false;
    }();
    RankSeat seat{.slots = {}, .has_gpu = layout.gpus[r].position >= 0, .whole_task_in_slot = shares_cores};
    std::vector<std::string> files;
    for (int numa : place.numa_nodes) {
      seat.slots.push_back(slot_numbers.try_emplace({place.node, numa}, static_cast<int>(slot_numbers.size())).first->second);
      files.push_back(places[static_cast<std::size_t>(place.node)].slot_folder + "/numa-" + std::to_string(numa) + ".lock");
    }
    layout.seats.push_back(std::move(seat));
    layout.slot_files.push_back(std::move(files));
    const std::string& folder = places[static_cast<std::size_t>(place.node)].slot_folder;
    layout.gpu_slot_files.push_back(layout.gpus[r].position >= 0 ? folder + "/" + layout.gpus[r].uuid + ".lock" : "");
    if (place.node == static_cast<int>(r)) {
      layout.nodes.push_back(place.node);
      if (layout.hint.empty()) layout.hint = core_hint(places, place.node);
    }
  }
  layout.places = std::move(places);
  return layout;
}

}  // namespace faibench
