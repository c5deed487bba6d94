#include "scale/library_calls.h"

#include <algorithm>
#include <array>

namespace faibench::scale {
namespace {

int rank_in(MPI_Comm group) {
  int rank = 0;
  MPI_Comm_rank(group, &rank);
  return rank;
}

const std::array<LibraryCall, 3> calls = {{
    {"library:allreduce",
     [](const std::vector<float>& in, std::vector<float>& out, const std::vector<int>&, const std::vector<int>&, MPI_Comm group) {
       MPI_Allreduce(in.data(), out.data(), static_cast<int>(in.size()), MPI_FLOAT, MPI_SUM, group);
     }},
    {"library:reduce+broadcast",
     [](const std::vector<float>& in, std::vector<float>& out, const std::vector<int>&, const std::vector<int>&, MPI_Comm group) {
       MPI_Reduce(in.data(), out.data(), static_cast<int>(in.size()), MPI_FLOAT, MPI_SUM, 0, group);
       MPI_Bcast(out.data(), static_cast<int>(out.size()), MPI_FLOAT, 0, group);
     }},
    {"library:reduce_scatter+allgather",
     [](const std::vector<float>& in, std::vector<float>& out, const std::vector<int>& counts, const std::vector<int>& offsets, MPI_Comm group) {
       const auto own = static_cast<std::size_t>(rank_in(group));
       MPI_Reduce_scatter(in.data(), out.data() + offsets[own], counts.data(), MPI_FLOAT, MPI_SUM, group);
       MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_FLOAT, out.data(), counts.data(), offsets.data(), MPI_FLOAT, group);
     }},
}};

}  // namespace

std::span<const LibraryCall> all_reduce_calls() { return calls; }

LibraryBuffers::LibraryBuffers(const LibraryCall& call, std::int64_t bytes, MPI_Comm group) : call_(call), group_(group) {
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(1, bytes / static_cast<std::int64_t>(sizeof(float))));
  int size = 1;
  MPI_Comm_size(group, &size);
  in_.assign(n, static_cast<float>(rank_in(group) + 1));
  out_.assign(n, 0);
  const auto P = static_cast<std::size_t>(size);
  for (std::size_t r = 0; r < P; ++r) {
    offsets_.push_back(static_cast<int>(n * r / P));
    counts_.push_back(static_cast<int>(n * (r + 1) / P - n * r / P));
  }
}

std::optional<std::string> LibraryBuffers::check() {
  std::fill(out_.begin(), out_.end(), -1.0f);
  run();
  const auto P = static_cast<float>(counts_.size());
  int wrong = std::any_of(out_.begin(), out_.end(), [&](float sum) { return sum != P * (P + 1) / 2; }) ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, group_);
  if (wrong) return call_.name + " gave a wrong sum";
  return std::nullopt;
}

}  // namespace faibench::scale
