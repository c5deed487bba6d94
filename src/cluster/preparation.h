// What rank 0 settles before anything is judged: the places of all ranks, the plan, the files.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cluster/audit.h"
#include "cluster/ledger.h"
#include "cluster/plan.h"
#include "cluster/run.h"
#include "cluster/topology.h"

namespace faibench {

/// One rank's place as text for rank 0; an error on this rank travels the same way.
std::string describe_this_rank(int first_rank_of_host);
/// The places in rank order. Throws the first rank's error there is.
std::vector<Place> read_places(const std::vector<std::string>& texts);

struct Preparation {
  RunOptions options;            ///< with the resumed run's values filled in
  Layout layout;
  Audit audit;
  Plan plan;                     ///< everything asked for
  std::vector<PlanItem> to_judge;  ///< of it, what the resumed run lacks
  std::vector<std::pair<PlanItem, std::string>> given_up;  ///< of that, what is lost unjudged, and why: not in to_judge
  std::unique_ptr<Ledger> ledger;  ///< null for --dry-run and --list-cases
};
/// Throws Error: ranks that do not belong together (see audit.h), bad names, files that exist or cannot be written, nothing to do. Makes the files last, so that nothing is left behind by an error.
Preparation prepare(RunOptions options, std::vector<Place> places);

/// --dry-run and --list-cases, on stdout.
void print_plan(const Preparation& preparation);
void print_cases(const Preparation& preparation);

}  // namespace faibench
