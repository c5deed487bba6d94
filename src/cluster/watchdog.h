// Looks after this rank from a thread of its own, which speaks no MPI: what the rank's main thread is doing, since when, and whether that is too long.
#pragma once
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "launch/stamp.h"
#include "launch/stillness.h"

namespace faibench {

/// How long each phase may last without a step of the main thread, as multiples of what a rank may hang (hang_after_from_environment()).
struct PhaseDeadlines {
  double start_up, loop, gang_stage, folding, end;
  explicit PhaseDeadlines(double hang_after) : start_up(2 * hang_after), loop(hang_after), gang_stage(hang_after), folding(5 * hang_after), end(6 * hang_after) {}
};

class Watchdog {
 public:
  /// `expired` is called once, on the watchdog's thread, with one line "stuck: rank 3 on node7, ...", and should end all ranks.
  Watchdog(int rank, int ranks, std::string host, double hang_after_seconds, std::function<void(const std::string& line)> expired);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// The main thread begins a phase, or a step within it where only `detail` is new.
  void enter(const std::string& phase, double deadline_seconds, const std::string& item = {}, const std::string& detail = {});
  /// From now on the stamp is also in this folder, and the next rank's stamp there is looked after. A folder that cannot be written leaves things as they were.
  void publish(const std::filesystem::path& folder);
  [[nodiscard]] const PhaseDeadlines& deadlines() const { return deadlines_; }

 private:
  void watch();
  void check_self(const Stamp& stamp, double now);
  void check_next(double now);
  void speak(const std::string& line);
  void write(const Stamp& stamp);
  std::string silent_ranks();

  const int ranks_;
  const PhaseDeadlines deadlines_;
  const std::function<void(const std::string&)> expired_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Stamp stamp_;                     // under the mutex
  std::filesystem::path folder_;    // under the mutex; empty: not published
  bool leaving_ = false;            // under the mutex
  int file_ = -1;                   // the thread's own, like what follows
  bool spoke_ = false;
  Stillness self_, next_;
  std::thread thread_;              // last: starts when the rest is there
};

}  // namespace faibench
