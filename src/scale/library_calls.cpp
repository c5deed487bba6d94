#include "scale/library_calls.h"

#include <algorithm>
#include <array>

#include "communicator/node_map.h"
#include "schedule/schedule.h"

namespace faibench::scale {
namespace {

using Kind = LibraryCall::Kind;

std::size_t rank_in(MPI_Comm group) {
  int rank = 0;
  MPI_Comm_rank(group, &rank);
  return static_cast<std::size_t>(rank);
}
int count_of(const std::vector<float>& values) { return static_cast<int>(values.size()); }

const std::array<LibraryCall, 3> all_reduces = {{
    {"library:allreduce", Kind::all_reduce, [](LibraryData& d, MPI_Comm group) { MPI_Allreduce(d.in.data(), d.out.data(), count_of(d.in), MPI_FLOAT, MPI_SUM, group); }},
    {"library:reduce+broadcast", Kind::all_reduce,
     [](LibraryData& d, MPI_Comm group) {
       MPI_Reduce(d.in.data(), d.out.data(), count_of(d.in), MPI_FLOAT, MPI_SUM, 0, group);
       MPI_Bcast(d.out.data(), count_of(d.out), MPI_FLOAT, 0, group);
     }},
    {"library:reduce_scatter+allgather", Kind::all_reduce,
     [](LibraryData& d, MPI_Comm group) {
       MPI_Reduce_scatter(d.in.data(), d.out.data() + d.offsets[rank_in(group)], d.counts.data(), MPI_FLOAT, MPI_SUM, group);
       MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_FLOAT, d.out.data(), d.counts.data(), d.offsets.data(), MPI_FLOAT, group);
     }},
}};

const std::array<LibraryCall, 3> all_gathers = {{
    {"library:allgather", Kind::all_gather,
     [](LibraryData& d, MPI_Comm group) { MPI_Allgatherv(d.in.data() + d.offsets[rank_in(group)], d.counts[rank_in(group)], MPI_FLOAT, d.out.data(), d.counts.data(), d.offsets.data(), MPI_FLOAT, group); }},
    {"library:gather+broadcast", Kind::all_gather,
     [](LibraryData& d, MPI_Comm group) {
       MPI_Gatherv(d.in.data() + d.offsets[rank_in(group)], d.counts[rank_in(group)], MPI_FLOAT, d.out.data(), d.counts.data(), d.offsets.data(), MPI_FLOAT, 0, group);
       MPI_Bcast(d.out.data(), count_of(d.out), MPI_FLOAT, 0, group);
     }},
    // Zeros but for the own part.
    {"library:padded_allreduce", Kind::all_gather, [](LibraryData& d, MPI_Comm group) { MPI_Allreduce(d.in.data(), d.out.data(), count_of(d.in), MPI_FLOAT, MPI_SUM, group); }},
}};

const std::array<LibraryCall, 3> all_to_alls = {{
    {"library:alltoall", Kind::all_to_all, [](LibraryData& d, MPI_Comm group) { MPI_Alltoall(d.in.data(), d.counts[0], MPI_FLOAT, d.out.data(), d.counts[0], MPI_FLOAT, group); }},
    {"library:alltoallv", Kind::all_to_all,
     [](LibraryData& d, MPI_Comm group) { MPI_Alltoallv(d.in.data(), d.counts.data(), d.offsets.data(), MPI_FLOAT, d.out.data(), d.counts.data(), d.offsets.data(), MPI_FLOAT, group); }},
    {"library:scatters", Kind::all_to_all,
     [](LibraryData& d, MPI_Comm group) {
       for (std::size_t root = 0; root < d.counts.size(); ++root) MPI_Scatter(d.in.data(), d.counts[0], MPI_FLOAT, d.out.data() + d.offsets[root], d.counts[0], MPI_FLOAT, static_cast<int>(root), group);
     }},
}};

}  // namespace

std::span<const LibraryCall> library_calls(const Task& task) {
  const MultiRank::Scaling& scaling = *task.multi_rank->scaling;
  if (scaling.bus_formula == "2(P-1)/P") return all_reduces;
  const bool exchanges = scaling.schedule && scaling.schedule(1 << 20, NodeMap::regular(2, 2))->algorithm().find("all-to-all") != std::string::npos;
  return exchanges ? std::span<const LibraryCall>(all_to_alls) : all_gathers;
}

LibraryBuffers::LibraryBuffers(const LibraryCall& call, std::int64_t bytes, MPI_Comm group) : call_(call), group_(group) {
  int size = 1;
  MPI_Comm_size(group, &size);
  const auto P = static_cast<std::size_t>(size), own = rank_in(group);
  auto n = static_cast<std::size_t>(std::max<std::int64_t>(1, bytes / static_cast<std::int64_t>(sizeof(float))));
  if (call.kind == Kind::all_to_all) n = std::max<std::size_t>(1, n / P) * P;
  for (std::size_t r = 0; r < P; ++r) {
    data_.offsets.push_back(static_cast<int>(n * r / P));
    data_.counts.push_back(static_cast<int>(n * (r + 1) / P - n * r / P));
  }
  data_.in.assign(n, static_cast<float>(own + 1));
  data_.out.assign(n, 0);
  if (call.kind != Kind::all_gather) return;
  std::fill(data_.in.begin(), data_.in.begin() + data_.offsets[own], 0.0f);
  std::fill(data_.in.begin() + data_.offsets[own] + data_.counts[own], data_.in.end(), 0.0f);
}

std::optional<std::string> LibraryBuffers::check() {
  std::ranges::fill(data_.out, -1.0f);
  run();
  const std::size_t P = data_.counts.size();
  int wrong = 0;
  for (std::size_t r = 0; r < P; ++r) {
    const float wanted = static_cast<float>(call_.kind == Kind::all_reduce ? P * (P + 1) / 2 : r + 1);
    const auto first = data_.out.begin() + data_.offsets[r];
    wrong |= std::any_of(first, first + data_.counts[r], [&](float got) { return got != wanted; }) ? 1 : 0;
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, group_);
  if (wrong) return call_.name + " gave a wrong result";
  return std::nullopt;
}

}  // namespace faibench::scale
