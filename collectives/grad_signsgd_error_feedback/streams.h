// The many-step gate: an optimiser's view of the compressor.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/grad_signsgd_error_feedback/grad_signsgd_error_feedback.h"

namespace faibench::grad_signsgd_error_feedback {

/// A measured figure of a whole stream beside what it may be.
struct Bound {
  std::string name;
  double value, limit;
  bool at_most;  ///< else at least
  [[nodiscard]] bool holds() const { return at_most ? value <= limit : value >= limit; }
};

struct Measured {
  GateResult mismatch;        ///< the rule of a single step that was broken; the stream ends there
  bool ended = false;         ///< a call failed
  std::vector<Bound> bounds;  ///< of a stream that came to its end, those over many steps; always: contraction, error norm and longest payload so far
  double ratio = 0;           ///< 4n bytes a step / payload bytes
  std::int64_t steps = 0;     ///< payloads
};

/// Stream 'O' or 'C' of a workload: "standard" (both), "smoke" (few steps, not judged over many), "gpu" (O alone). No steps where the workload has no such stream.
/// An error that outgrows its bound, or grows in a step, ends the stream too, unless `to_the_end`.
Measured measure_stream(char which, const std::string& workload, std::uint64_t seed, Stream::Calls& calls, bool to_the_end);

}  // namespace faibench::grad_signsgd_error_feedback
