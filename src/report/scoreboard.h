// The scoreboard of a run: for a terminal, and as JSON for programs.
#pragma once
#include <string>
#include <vector>

#include "results/provenance.h"
#include "results/record.h"

namespace faibench {

/// Sums over a run that count failures openly. Peers (variants "peer:...") are shown beside ours and not counted, emulated variants are counted apart.
struct Summary {
  int records = 0;
  int passed = 0;
  int failed = 0;                 ///< judged and not passed: wrong, crashed, noisy, ...
  int not_run = 0;                ///< skipped or lost
  double mean_score = 0;          ///< over all records: whatever is not passed counts 0
  int timed = 0;                  ///< passed performance records with a speedup
  double geometric_mean_speedup = 0;  ///< over the `timed` ones alone; 0 if there are none
  int emulated = 0, emulated_passed = 0;  ///< variants for GPUs on the emulator, in none of the sums above
};
Summary summarize(const std::vector<Record>& records);

struct ScoreboardOptions {
  int width = 100;                ///< columns, 80 at least
  bool colour = false;            ///< ANSI colours of the verdicts
};

/// A table, one line a record, failures explained beneath, then the summary. Ends in a newline.
std::string print_scoreboard(const std::vector<Record>& records, const Provenance& provenance, const ScoreboardOptions& options = {});

/// {"format": "faibench-scoreboard/1", "summary": {...}, "records": [...] (without samples), "provenance": {...}}, indented.
std::string scoreboard_json(const std::vector<Record>& records, const Provenance& provenance);

}  // namespace faibench
