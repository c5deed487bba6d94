// The only way in which a run shows how far it is. Rank 0 alone has one.
#pragma once
#include <cstdio>
#include <memory>
#include <string>

#include "results/record.h"

namespace faibench {

class Progress {
 public:
  virtual ~Progress() = default;
  struct Standing {
    std::int64_t done = 0, total = 0;  ///< items of this run, those found in a resumed file among them
    std::int64_t running = 0;          ///< items in flight
    double seconds_left = 0;           ///< estimate; 0: none yet
  };
  virtual void started(const std::string& what, const Standing& standing) = 0;
  virtual void verdict(const std::string& label, const Record& record, const Standing& standing) = 0;
  /// What a rank's judge is doing.
  virtual void stage(int rank, const std::string& label, const std::string& stage) = 0;
  /// From time to time.
  virtual void tick(const Standing& standing) = 0;
  virtual void notice(const std::string& line) = 0;
  /// Before anything else is printed: the screen is left tidy.
  virtual void close() = 0;
};

/// A moving bar where `out` is a terminal and `moving` is set, plain lines elsewhere, nothing with `quiet`. `out` must outlive it.
std::unique_ptr<Progress> make_progress(std::FILE* out, bool quiet, bool moving);

/// "passed  task/cpu  12.3x [12.1, 12.6]  score 0.42": the words about one verdict, in every form of progress.
std::string verdict_line(const std::string& label, const Record& record);
/// "45 s", "3 min", "1 h 20 min".
std::string duration_text(double seconds);

}  // namespace faibench
