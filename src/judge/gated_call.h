// One judged call: lay out, call, look for violations, gate.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "judge/arena.h"
#include "judge/candidate.h"
#include "task/task.h"

namespace faibench {

/// Calls candidates on given inputs. Keeps no state between calls but what is already faulted in.
class CallSite {
 public:
  explicit CallSite(const Task& task) : task_(task) {}

  struct Result {
    std::optional<Failure> failure;   ///< died, hung, wrote where it must not, or claims nonsense
    Rejected rejected;
    double seconds = 0;
    TensorRefMap outputs;             ///< in the candidate's arena: valid until its next call
  };
  /// Lays out a call on these inputs and has the candidate fault it in.
  std::optional<Failure> make_room(Candidate& candidate, const TensorRefMap& inputs);
  /// `threads` 0: as many as the candidate was started with.
  Result call(Candidate& candidate, const TensorRefMap& inputs, int threads = 0);

  /// The whole gate on one input set: the right rejection, or right outputs (probes included). Empty: it held.
  std::optional<Failure> gate(Candidate& candidate, const TensorRefMap& inputs, bool candidate_is_baseline);

  /// The gate on outputs already there; runs the task's probes. `expected` may be empty where the gate needs none.
  std::optional<Failure> gate_outputs(Candidate& candidate, const TensorRefMap& inputs, const TensorRefMap& outputs, const TensorRefMap& expected, bool candidate_is_baseline);

 private:
  const Task& task_;
  std::uint64_t nonce_ = 0;
  std::map<pid_t, std::int64_t> touched_bytes_;  // by candidate: how much of the arena it has faulted in
};

/// Of tensors that a candidate's next call writes over, or that it may go on writing.
TensorMap copies(const TensorRefMap& tensors);

/// A candidate that rejects what a workload gives it, as a verdict.
Failure rejected_workload(const Rejection& rejection);
/// A gate's finding as a verdict.
Failure wrong(const Mismatch& mismatch);

}  // namespace faibench
