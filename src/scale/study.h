// A study: every task, variant, size, number of ranks and cadence of one launch, in random order, each on disk when it is done.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "results/scaling.h"
#include "task/task.h"

namespace faibench::scale {

struct StudyOptions {
  std::vector<const Task*> tasks;       ///< each with a multi-rank form and its `scaling`
  std::string sizes;                    ///< as parse_sizes(); empty: the task's own
  std::string ranks;                    ///< as parse_ranks(); empty: 1, 2, 4, ... and all
  std::vector<std::string> variants;    ///< empty: all
  double budget_seconds = 1;            ///< of a cell
  std::uint64_t seed = 1;
  std::string out, resume;              ///< out empty: results/scale-<pid>.h5
  bool force = false, json = false, quiet = false;
  std::vector<std::string> command_line;
};

/// Runs on every rank of a launch: MPI_Init to MPI_Finalize. 0; 1 where a cell was wrong; 2 bad input; 3 everything else. Throws Error on rank 0 alone, when all know.
int run_study(const StudyOptions& options);

/// The guidelines that do not hold within 5%, where the intervals of both medians lie apart: t rises with S; ours is no slower than the library's own; an all-reduce no slower than what it can be composed of. Pure.
std::vector<ScalingFinding> findings_of(const std::vector<ScalingRow>& rows);
/// A fit for each task, variant, number of ranks and cadence with three sizes or more. Pure.
std::vector<ScalingFit> fits_of(const std::vector<ScalingRow>& rows);
/// Fills in both efficiencies from the rows on one rank, and flags those above 1.02. Pure.
void add_efficiencies(std::vector<ScalingRow>& rows);
/// Parts of one study, as the elements of a job array leave them: all rows with efficiencies, fits and findings of the whole. A row that is in several parts is the first one's. Pure.
ScalingStudy merge(const std::vector<ScalingStudy>& parts);
/// One line a row. Pure.
std::string table_text(const ScalingStudy& study);

}  // namespace faibench::scale
