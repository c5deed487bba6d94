// Calls of the MPI library alone, timed beside the tasks: what its all-reduce and the compositions that should not beat it cost.
#pragma once
#include <mpi.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace faibench::scale {

struct LibraryCall {
  std::string name;  ///< of its rows' variant: "library:allreduce", ...
  void (*run)(const std::vector<float>& in, std::vector<float>& out, const std::vector<int>& counts, const std::vector<int>& offsets, MPI_Comm group);
};
/// All-reduce of f32, and reduce + broadcast, reduce-scatter + all-gather, which give the same.
std::span<const LibraryCall> all_reduce_calls();

/// One call on a group, its buffers made once: `bytes` / 4 elements, at least one; rank r's are all r + 1.
class LibraryBuffers {
 public:
  LibraryBuffers(const LibraryCall& call, std::int64_t bytes, MPI_Comm group);
  void run() { call_.run(in_, out_, counts_, offsets_, group_); }
  /// Collective: clears the result, calls, and says on every rank what is wrong.
  std::optional<std::string> check();
  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(in_.size() * sizeof(float)); }

 private:
  const LibraryCall& call_;
  MPI_Comm group_;
  std::vector<float> in_, out_;
  std::vector<int> counts_, offsets_;
};

}  // namespace faibench::scale
