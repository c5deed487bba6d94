// Calls of the MPI library alone, timed beside the tasks: what its collective of the task's kind and the compositions that should not beat it cost.
#pragma once
#include <mpi.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "task/task.h"

namespace faibench::scale {

/// Of f32, made once for a call: rank r brings r + 1 everywhere.
struct LibraryData {
  std::vector<float> in, out;
  std::vector<int> counts, offsets;  ///< elements of each rank's part of `out`; all-to-all: equal ones
};

struct LibraryCall {
  enum class Kind { all_reduce, all_gather, all_to_all };
  std::string name;  ///< of its rows' variant: "library:allreduce", ...
  Kind kind;
  void (*run)(LibraryData& data, MPI_Comm group);
};

/// Of the kind that the task is: an all-reduce where bandwidth is counted as one's, an all-to-all where its schedule is one, else an all-gather. The library's own first.
std::span<const LibraryCall> library_calls(const Task& task);

/// One call on a group: S = `bytes` as its kind counts them, at least one element a rank.
class LibraryBuffers {
 public:
  LibraryBuffers(const LibraryCall& call, std::int64_t bytes, MPI_Comm group);
  void run() { call_.run(data_, group_); }
  /// Collective: clears the result, calls, and says on every rank what is wrong.
  std::optional<std::string> check();
  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(data_.out.size() * sizeof(float)); }

 private:
  const LibraryCall& call_;
  MPI_Comm group_;
  LibraryData data_;
};

}  // namespace faibench::scale
