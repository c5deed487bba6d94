// A study over ranks and sizes: what lies under /scaling of a run file and, a line a row, in its journal.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace faibench {

/// One cell of a study: a task's variant at one size on so many ranks, in one cadence. Times are the slowest rank's: latest exit - earliest enter.
struct ScalingRow {
  std::string task, variant, cadence;    ///< cadence: "isolated" or "streaming", never to be compared
  int ranks = 1;
  std::int64_t bytes = 0;                ///< S
  std::string verdict, detail;           ///< passed, wrong, skipped, late; why
  std::int64_t samples = 0, invalid = 0; ///< samples that count; those left out because a rank came late or lost its core
  std::string stop_reason;
  double seconds = 0, low = 0, high = 0, p90 = 0, p99 = 0, least = 0, most = 0, dispersion = 0;
  double arrival_skew = 0, exit_skew = 0, transfer = 0;
  double algbw = 0, busbw = 0;
  std::string bus_formula;
  std::string element;                     ///< dtype of the largest input; rows of other elements are not compared
  double wire_node = 0, wire_network = 0;  ///< bytes that the busiest rank sends, by the schedule
  double sent_node = 0, sent_network = 0;  ///< bytes that the busiest rank sent in one call, counted by the executor; 0 where it did not run
  std::int64_t calls = 1;                  ///< of a sample
  std::int64_t visits = 1;                 ///< how often the cell was come back to
  double visit_spread = 1;                 ///< slowest over fastest median of its visits
  double bound_seconds = 0, bound_ratio = 0;
  double strong_efficiency = 0, weak_efficiency = 0;
  bool oversubscribed = false;
  std::vector<std::string> flags;
  double clock_error = 0;
  std::string key;
  std::vector<std::vector<double>> enter, exit;  ///< by rank, of every sample, seconds after its start instant; streaming: after the first rank's enter
};

struct ScalingFit {
  std::string task, variant, cadence;
  int ranks = 1, piece = 0;
  double from_bytes = 0, to_bytes = 0, alpha = 0, beta = 0, max_residual = 0, held_out_bytes = 0, held_out_seconds = 0, held_out_forecast = 0, held_out_error = 0;
  double median_residual = 0, plain_alpha = 0, plain_beta = 0, plain_max_residual = 0;  ///< plain: one line through all sizes
};

/// A size left out of a fit, and what the fit of all others says of it.
struct ScalingForecast {
  std::string task, variant, cadence;
  int ranks = 1;
  double bytes = 0, seconds = 0, forecast = 0, error = 0;
  bool beyond = false, named = false;
};

/// What one message costs between rank 0 and the nearest rank at a level; bounds are counted from it.
struct ScalingLink {
  int ranks = 1;
  std::string level;  ///< "node" or "network"
  int nodes = 1;
  double alpha = 0, beta = 0, clock_error = 0;
};

/// One cell at which a guideline does not hold.
struct ScalingFinding {
  std::string task, rule, detail;
  std::string variant, cadence, other;  ///< who is slower; than what
  int ranks = 1;
  std::int64_t bytes = 0;
  double seconds = 0, other_seconds = 0;
  std::int64_t cells = 0;               ///< at which the guideline could be tested for this variant, cadence and number of ranks
};

struct ScalingStudy {
  std::vector<ScalingRow> rows;
  std::vector<ScalingFit> fits;
  std::vector<ScalingForecast> forecasts;
  std::vector<ScalingFinding> findings;
  std::vector<ScalingLink> links;
};

/// One line of the journal, without its line feed, and back. Throws Error(bad_input) naming the field.
std::string to_json(const ScalingRow& row);
ScalingRow scaling_row_from_json(std::string_view text);
/// The study without raw samples, as one JSON object.
std::string to_json(const ScalingStudy& study);

}  // namespace faibench
