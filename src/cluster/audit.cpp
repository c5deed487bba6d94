#include "cluster/audit.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

namespace faibench {
namespace {

constexpr std::int64_t memory_of_rank = std::int64_t{1} << 30;         // a standard workload and its copies
constexpr std::int64_t shared_memory_of_rank = std::int64_t{16} << 20; // what MPI takes, and some for collectives
constexpr std::array good_clocks = {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"};

const Place& at(const std::vector<Place>& places, int rank) { return places[static_cast<std::size_t>(rank)]; }

std::string megabytes(std::int64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

// Ranks whose fact is not rank 0's, by what they have.
std::map<std::string, std::vector<int>> others_by(const std::vector<Place>& places, const std::function<std::string(const Place&)>& fact) {
  std::map<std::string, std::vector<int>> others;
  for (int rank = 1; rank < static_cast<int>(places.size()); ++rank) {
    if (const std::string own = fact(at(places, rank)); own != fact(places.front())) others[own].push_back(rank);
  }
  return others;
}

std::vector<std::vector<int>> ranks_of_nodes(const std::vector<Place>& places) {
  std::map<int, std::vector<int>> nodes;
  for (int rank = 0; rank < static_cast<int>(places.size()); ++rank) nodes[at(places, rank).node].push_back(rank);
  std::vector<std::vector<int>> ranks;
  for (auto& [node, members] : nodes) ranks.push_back(std::move(members));
  return ranks;
}

void check_programs(const std::vector<Place>& places, Audit& found) {
  const std::string first = "rank 0 on " + places.front().host;
  for (const auto& [hash, ranks] : others_by(places, [](const Place& place) { return place.program_hash + " " + place.worker_hash; })) {
    found.errors.push_back(ranks_text(places, ranks) + (ranks.size() == 1 ? " runs" : " run") + " another build of faibench than " + first + ": install the same program and faibench-worker on all hosts");
  }
  for (const auto& [version, ranks] : others_by(places, [](const Place& place) { return place.facts.mpi; })) {
    found.errors.push_back(ranks_text(places, ranks) + (ranks.size() == 1 ? " runs" : " run") + " with " + version + ", " + first + " with " + places.front().facts.mpi + ": load the same MPI library on all hosts");
  }
}

void check_cores(const std::vector<Place>& places, const std::vector<int>& ranks, Audit& found) {
  std::map<int, std::vector<int>> users;  // by core
  for (int rank : ranks) {
    for (int core : at(places, rank).cores) users[core].push_back(rank);
  }
  std::set<int> sharing;
  std::vector<int> cores;
  for (const auto& [core, of_core] : users) {
    if (of_core.size() < 2) continue;
    cores.push_back(core);
    sharing.insert(of_core.begin(), of_core.end());
  }
  if (cores.empty()) return;
  const bool more_than_cores = sharing.size() > cores.size();
  found.notices.push_back((more_than_cores ? "oversubscribed: " : "") + ranks_text(places, {sharing.begin(), sharing.end()}) + " share " + (cores.size() == 1 ? "core " : "cores ") + ranges_text(cores) +
                          (more_than_cores ? ": what they do together is gated, its times are no measure" : ": tasks take turns; to give each its own: mpirun --map-by numa --bind-to numa, srun --cpu-bind=cores"));
}

void check_room(const std::vector<Place>& places, const std::vector<int>& ranks, Audit& found) {
  const Place& first = at(places, ranks.front());
  const auto count = static_cast<std::int64_t>(ranks.size());
  if (const std::int64_t there = first.facts.memory_available_bytes; there > 0 && there < count * memory_of_rank) {
    found.notices.push_back(first.host + " has " + megabytes(there) + " of memory available for " + ranks_text(places, ranks) + ": standard workloads may not fit");
  }
  if (const std::int64_t there = first.facts.shared_memory_bytes; count > 1 && there < count * shared_memory_of_rank) {
    found.notices.push_back("/dev/shm of " + first.host + " has " + megabytes(there) + " free for " + ranks_text(places, ranks) + ": MPI may fail there, registered variants are skipped; make room or mount it larger");
  }
}

void check_gpus(const std::vector<Place>& places, const std::vector<GivenGpu>& given, Audit& found) {
  for (int rank = 0; rank < static_cast<int>(places.size()); ++rank) {
    const GivenGpu& gpu = given[static_cast<std::size_t>(rank)];
    if (gpu.ranks.size() > 1 && gpu.ranks.front() == rank)
      found.notices.push_back(ranks_text(places, gpu.ranks) + " share one GPU, " + gpu.uuid + ": they take turns on it, and variants on NCCL are skipped or slow; start one rank a GPU");
    for (const GpuFacts& facts : at(places, rank).gpus)
      if (facts.exclusive && facts.uuid == gpu.uuid)
        found.notices.push_back("the GPU of " + ranks_text(places, {rank}) + ", " + gpu.uuid + ", is in exclusive mode: judge and candidates cannot both work on it, all its variants will fail; nvidia-smi -c DEFAULT");
  }
}

void check_clocks(const std::vector<Place>& places, Audit& found) {
  std::map<std::string, std::vector<int>> slow;
  for (int rank = 0; rank < static_cast<int>(places.size()); ++rank) {
    const std::string& clock = at(places, rank).facts.clock_source;
    if (!clock.empty() && std::ranges::find(good_clocks, clock) == good_clocks.end()) slow[clock].push_back(rank);
  }
  for (const auto& [clock, ranks] : slow) found.notices.push_back(ranks_text(places, ranks) + ": the kernel's clock is " + clock + ", whose readings cost microseconds: short calls look longer");
}

void check_hosts_alike(const std::vector<Place>& places, Audit& found) {
  for (const auto& [variables, ranks] : others_by(places, [](const Place& place) {
         std::string text;
         for (const std::string& entry : place.facts.environment)
           if (entry.starts_with("OMP_") || entry.starts_with("FAIBENCH_") || entry.starts_with("NCCL_") || entry.starts_with("UCX_")) text += entry + "\n";
         return text;
       })) {
    found.notices.push_back(ranks_text(places, ranks) + (ranks.size() == 1 ? " has" : " have") + " other settings in the environment than rank 0: see /provenance/ranks");
  }
}

std::vector<RankFacts> rank_facts(const std::vector<Place>& places, const std::vector<GivenGpu>& given) {
  std::vector<RankFacts> facts;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    facts.push_back(places[rank].facts);
    facts.back().rank = static_cast<int>(rank);
    facts.back().gpu = given[rank].uuid;
    for (const GpuFacts& gpu : places[rank].gpus)
      if (gpu.uuid == given[rank].uuid) facts.back().gpu_facts = facts_text(gpu) + (places[rank].gpu_driver.empty() ? "" : ", driver " + places[rank].gpu_driver);
    const auto& first = places.front().facts.environment;
    std::erase_if(facts.back().environment, [&](const std::string& entry) { return std::ranges::find(first, entry) != first.end(); });
    if (rank == 0) facts.back().environment.clear();
  }
  return facts;
}

}  // namespace

std::string ranks_text(const std::vector<Place>& places, const std::vector<int>& ranks) {
  std::vector<std::pair<std::string, std::vector<int>>> hosts;
  for (int rank : ranks) {
    const std::string& host = at(places, rank).host;
    const auto same = std::ranges::find(hosts, host, &std::pair<std::string, std::vector<int>>::first);
    if (same == hosts.end()) hosts.push_back({host, {rank}});
    else same->second.push_back(rank);
  }
  constexpr std::size_t most = 4;
  const std::size_t shown = hosts.size() <= most ? hosts.size() : most - 1;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : i + 1 == hosts.size() ? " and " : ", ") + ranges_text(hosts[i].second) + " on " + hosts[i].first;
  if (shown < hosts.size()) text += " and on " + std::to_string(hosts.size() - shown) + " more hosts";
  return text;
}

Audit audit(const std::vector<Place>& places) {
  Audit found;
  if (places.empty()) return found;
  check_programs(places, found);
  for (const std::vector<int>& ranks : ranks_of_nodes(places)) {
    check_cores(places, ranks, found);
    check_room(places, ranks, found);
  }
  const std::vector<GivenGpu> given = give_gpus(places);
  check_gpus(places, given, found);
  check_clocks(places, found);
  check_hosts_alike(places, found);
  found.ranks = rank_facts(places, given);
  return found;
}

}  // namespace faibench
