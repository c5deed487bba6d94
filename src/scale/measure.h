// One cell of a study, timed by all ranks of a group together.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "communicator/communicator.h"
#include "results/scaling.h"
#include "scale/clock.h"
#include "scale/statistics.h"

namespace faibench::scale {

/// This rank's clock, seconds of CLOCK_MONOTONIC: one clock for all ranks of a node.
double own_clock();

/// Collective: this rank's clock against rank 0's. Ranks of rank 0's node share its clock (offset and error 0); the others by rounds of 100 ping-pongs spread over `seconds`.
GlobalClock synchronise(Communicator& communicator, double seconds);

/// Collective. A barrier of log2 P rounds of our own messages, so that no library's algorithm enters the times.
void own_barrier(Communicator& communicator);

struct Calls {
  std::function<void()> prepare;                          ///< before a call, not timed; may be empty
  std::function<void()> run;
  std::function<std::optional<std::string>()> check;      ///< collective: poisons the outputs, calls once, says on every rank what is wrong
};

struct MeasureOptions {
  StopRule stop;
  bool yields = false;        ///< more ranks than cores: who waits lets others run
  bool check_first = true;    ///< the result before anything is timed; it is checked after in any case
};

/// Collective. Fills in times, samples, verdict; the raw samples on rank 0 alone. All ranks see the same series and so decide alike. Samples in which a rank lost its core to another
/// process are left out, unless hardly any other is there: then all count and the row is flagged.
void measure_isolated(Communicator& communicator, const GlobalClock& clock, const Calls& calls, const MeasureOptions& options, ScalingRow& row);
void measure_streaming(Communicator& communicator, const GlobalClock& clock, const Calls& calls, const MeasureOptions& options, ScalingRow& row);

}  // namespace faibench::scale
