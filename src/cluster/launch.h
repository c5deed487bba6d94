// How this process came to be one of N: MPI's start and end, and what Slurm thinks of it.
#pragma once
#include <mpi.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tensor/error.h"

namespace faibench {

/// MPI from MPI_Init to MPI_Finalize. One in a process.
class MpiSession {
 public:
  MpiSession();
  /// Finalizes; a rank that cannot (others are gone) leaves the process with the exit code after ten seconds: what was agreed on last, so that a run that is whole stays so.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] MPI_Comm world() const { return MPI_COMM_WORLD; }
  void set_exit_code(int code) { exit_code_ = code; }

  /// Lowest rank on this rank's host. Collective.
  [[nodiscard]] int first_rank_of_host() const;
  /// All ranks' texts in rank order on rank 0, nothing elsewhere. Collective.
  [[nodiscard]] std::vector<std::string> gather(const std::string& text) const;
  /// Rank 0's text on every rank. Collective.
  [[nodiscard]] std::string text_from_first(std::string text) const;
  /// Rank 0's number on every rank. Collective.
  [[nodiscard]] int from_first(int number) const;
  /// The largest of all ranks' numbers, on every rank. Collective.
  [[nodiscard]] int largest(int number) const;
  /// Rank 0's word on how a phase ended, on every rank, as the exit code of each; rank 0 throws its error. Collective.
  int conclude(int word, const std::optional<Error>& error);
  /// Prints the line and ends every rank at once. For what cannot be told to the others.
  [[noreturn]] static void abandon(const std::string& line, int exit_code);

 private:
  int rank_ = 0, size_ = 1, exit_code_ = 3;  // until all agreed on another
};

/// What launchers say of themselves in the environment, through `get` (std::getenv in the product).
struct LaunchView {
  int world_size = 1;
  std::function<const char*(const char*)> get;
};
/// One line where the launcher started more processes than MPI sees (each is then a world of its own), else empty. A launch by mpirun within an allocation may have any size.
std::optional<std::string> wrong_launch(const LaunchView& view);
/// The first of the processes that the launcher started, or no launcher: the one that speaks of a wrong launch.
bool speaks_for_launch(const LaunchView& view);
/// Whether a launcher says that there is more than one rank.
bool launched_with_others(const LaunchView& view);

}  // namespace faibench
