// A judge in a process of its own: started by a rank, polled by it, never waited for.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "judge/job.h"
#include "results/record.h"

namespace faibench {

/// Where the program `faibench-worker` lies: beside this program, or $FAIBENCH_WORKER. Throws Error(io) if it is not there.
std::string worker_path();

/// Owns one `faibench-worker judge` process. Destroying it kills the judge and, with it, the candidate.
class JudgeProcess {
 public:
  /// Starts the worker without this process's MPI and PMI variables. Throws Error(io) when it cannot start.
  explicit JudgeProcess(const JudgeJob& job);
  ~JudgeProcess();
  JudgeProcess(JudgeProcess&&) noexcept;
  JudgeProcess& operator=(JudgeProcess&&) noexcept;

  struct Outcome {
    std::optional<Record> record;        ///< of a Kind::judge job
    std::optional<MachinePeaks> peaks;   ///< of a Kind::calibrate job
    std::string failure;                 ///< neither: why, e.g. "judge killed by SIGKILL"
  };
  /// Never blocks. Empty while it works; then the outcome, once.
  std::optional<Outcome> poll();
  /// What it is doing, for progress: "fixed cases", "block 7", ...
  [[nodiscard]] const std::string& stage() const;
  /// A descriptor that becomes readable when poll() has something to say.
  [[nodiscard]] int descriptor() const;
  /// SIGKILL to the judge; its candidate dies with it.
  void kill();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace faibench
