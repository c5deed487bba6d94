// The candidate as the judge sees it: a process of its own that answers calls, crashes, hangs or eats memory.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "judge/arena.h"
#include "results/record.h"
#include "task/contract.h"

namespace faibench {

class GpuBench;
class DeviceTensors;

/// What went wrong with a candidate, in the words of a record.
struct Failure {
  Verdict verdict = Verdict::crashed;
  std::string reason;   ///< "SIGSEGV", "exit 0", "time limit", ...
  std::string detail;
  std::string stderr_tail;
};

struct CandidateLimits {
  double load_seconds = 30;
  double call_seconds = 60;
  std::int64_t memory_bytes = std::int64_t{4} << 30;  ///< private memory: resident, or mapped writable
};

/// Owns one process group. Destroying it kills the group and every process that descends from it.
class Candidate {
 public:
  /// Starts `worker` as the candidate of `task`/`variant`, with shared memory of its own, bound to `cpus` with as many threads. Throws Error(io) when no process can be started.
  /// A device variant is given a bench on its GPU, which must outlive it: its calls are timed there.
  Candidate(const std::string& worker, std::string task, std::string variant, const std::vector<int>& cpus, CandidateLimits limits, GpuBench* gpu = nullptr);
  ~Candidate();
  Candidate(const Candidate&) = delete;
  Candidate& operator=(const Candidate&) = delete;

  [[nodiscard]] Arena& arena() { return arena_; }

  /// Stops every process of the group, and lets them go on: while another's call is timed, a candidate does nothing.
  void pause();
  void resume();

  /// Loads the variant; a failure when it does not come up.
  std::optional<Failure> load();
  /// Faults in the data region's first `bytes` bytes in the candidate, so that no timed call pays for it. On a GPU: device memory for as much, opened by the candidate.
  std::optional<Failure> touch(std::int64_t bytes);

  /// Before load(): takes the memory that has nothing to do with a variant (program text, thread team), and has every larger block go back to the system when it is freed.
  std::optional<Failure> settle();

  /// One hand-over there and back with nothing to do between: seconds by the judge's clock, or nothing if the candidate is gone.
  std::optional<double> ping() { return round_trip(ControlPage::Command::none, limits_.load_seconds); }

  struct Reply {
    Rejected rejected;                     ///< the candidate's own claim
    std::vector<std::int64_t> lengths;     ///< claimed first extents of the outputs, -1: as laid out; checked against the room
    double seconds = 0;                    ///< by the judge's clock, hand-over included; on a GPU by the bench's (device/timing_window.h)
  };
  /// On a GPU: what the arena holds goes to the device, after its layout and touch(), and back after a call. Else nothing.
  void to_device();
  void from_device();
  /// The bench it was given.
  [[nodiscard]] GpuBench* gpu() const { return gpu_; }

  /// One call on what the arena holds. Empty reply: see failure().
  std::optional<Reply> call(int threads);
  [[nodiscard]] const Failure& failure() const { return failure_; }

  void set_call_limit(double seconds) { limits_.call_seconds = seconds; }
  /// Involuntary context switches of the main thread so far, -1 if the system does not say.
  [[nodiscard]] std::int64_t involuntary_switches() const;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  // Hands the page over and waits; the elapsed seconds, or nothing after filling failure_.
  std::optional<double> round_trip(ControlPage::Command command, double limit_seconds);
  [[nodiscard]] bool over_memory(std::string& how) const;
  void fail(Verdict verdict, std::string reason, std::string detail);
  void died(int status, std::int64_t peak_kib);
  void kill_all();
  [[nodiscard]] std::string stderr_tail() const;

  Arena arena_;
  std::string task_, variant_;
  std::vector<int> cpus_;
  CandidateLimits limits_;
  ControlPage& page_;
  GpuBench* gpu_;
  std::unique_ptr<DeviceTensors> device_;
  pid_t pid_ = -1;
  int stderr_ = -1;
  bool alive_ = false;
  Failure failure_;
};

/// "SIGSEGV" for 11, "signal 77" for what has no name.
std::string signal_name(int signal);
/// "0-3,8".
std::string cpu_list(const std::vector<int>& cpus);

/// Makes this process the one that inherits orphans, so that nothing a candidate leaves behind escapes. Call once, first thing in a judge.
void adopt_orphans();

}  // namespace faibench
