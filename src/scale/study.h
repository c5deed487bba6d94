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
  double budget_seconds = 0.3;          ///< of a cell: warm-up and timing of all its visits
  int visits = 3;                       ///< of a cell, at different times
  std::uint64_t seed = 1;
  std::string out, resume;              ///< out empty: results/scale-<pid>.h5
  bool force = false, json = false, quiet = false;
  std::vector<std::string> command_line;
};

/// Runs on every rank of a launch: MPI_Init to MPI_Finalize. 0; 1 where a cell was wrong; 2 bad input; 3 everything else. Throws Error on rank 0 alone, when all know.
int run_study(const StudyOptions& options);

/// The guidelines that do not hold beyond a tolerance (5%; 25% below 10 us) and where the intervals of both medians lie apart, one entry a cell: t rises with S; a call of kS takes no longer than k of S; fewer ranks
/// take no longer; ours is no slower than the library's own; a collective no slower than what it can be composed of. Rows of other elements are not compared, nor those of more ranks than cores or of ranks that lost them. Pure.
std::vector<ScalingFinding> findings_of(const std::vector<ScalingRow>& rows);
/// Them by guideline, variant, ranks and cadence: at how many cells, and the worst. Pure.
std::vector<std::string> grouped_text(const std::vector<ScalingFinding>& findings);
/// Fits for each task, variant, number of ranks and cadence with three sizes or more, and forecasts of sizes left out. Pure.
void add_fits(ScalingStudy& study);
/// Fills in both efficiencies from the rows on one rank, and flags those above 1.02. Pure.
void add_efficiencies(std::vector<ScalingRow>& rows);
/// Parts of one study, as the elements of a job array leave them: all rows with efficiencies, fits and findings of the whole. A row that is in several parts is the first one's. Pure.
ScalingStudy merge(const std::vector<ScalingStudy>& parts);
/// One line a row. Pure.
std::string table_text(const ScalingStudy& study);

}  // namespace faibench::scale
