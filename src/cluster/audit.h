// Looks at the places of all ranks before anything is timed: do they belong together, and what will disturb them. Knows no MPI.
#pragma once
#include <string>
#include <vector>

#include "cluster/topology.h"

namespace faibench {

struct Audit {
  std::vector<std::string> errors;   ///< what keeps these ranks from one run: one line each, naming ranks and hosts
  std::vector<std::string> notices;  ///< what a reader of their timings must know
  std::vector<RankFacts> ranks;      ///< for the provenance: environments cut down to what differs from rank 0's
};

/// `places` in rank order.
Audit audit(const std::vector<Place>& places);

/// "rank 3 on node7", "ranks 2-3,7 on node7", "ranks 0-1 on node1 and 2-3 on node2"; of more than four hosts the first three and how many more.
std::string ranks_text(const std::vector<Place>& places, const std::vector<int>& ranks);

}  // namespace faibench
