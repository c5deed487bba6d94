// The words of a job: how it is started first, how it goes on after a break, how its hosts are swept.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace faibench {

/// What `faibench launch` was asked for.
struct LaunchOptions {
  int ranks = 1;
  std::string hostfile;
  std::string launcher = "mpirun";    ///< mpirun or srun, by any path, with options of its own: "mpirun --bind-to none"
  double hang_after_seconds = 60;     ///< a rank may show no progress within a phase for this long; see stamp.h
  int retries = 2;                    ///< of what was in flight when the job broke, before it is recorded as lost
  std::vector<std::string> job;       ///< what comes after --: "run" or "scale" and its options
  std::string program;                ///< of the ranks: this one
};

/// An item that is recorded as lost instead of tried again.
struct GivenUp {
  std::string item, why;
};

class JobCommand {
 public:
  /// Throws Error(bad_input) for a launcher that is neither kind, a host file for srun, a job that is neither `run` nor `scale`.
  explicit JobCommand(LaunchOptions options);

  [[nodiscard]] const std::filesystem::path& run_file() const { return run_file_; }
  [[nodiscard]] const LaunchOptions& options() const { return options_; }
  /// Whether the first launch goes on with an earlier run.
  [[nodiscard]] bool resumes() const { return resumes_; }
  [[nodiscard]] bool by_srun() const { return by_srun_; }

  /// As asked, with an --out where none was given.
  [[nodiscard]] std::vector<std::string> first() const;
  /// The same over a journal that a start left without a whole line.
  [[nodiscard]] std::vector<std::string> again() const;
  /// Goes on with the journal.
  [[nodiscard]] std::vector<std::string> resume(const std::vector<GivenUp>& given_up) const;
  /// One process on `host` that ends what carries `cookie`.
  [[nodiscard]] std::vector<std::string> sweep_on(const std::string& host, const std::string& cookie) const;
  /// Hosts by the names that the launcher knows them under; empty where there is no host file.
  [[nodiscard]] std::vector<std::string> hosts_of_file() const;

 private:
  [[nodiscard]] std::vector<std::string> start(const std::vector<std::string>& job) const;

  LaunchOptions options_;
  std::vector<std::string> launcher_;
  bool by_srun_ = false;
  std::filesystem::path run_file_;
  bool resumes_ = false;   ///< was asked to
};

/// "mpirun --bind-to 'none'" as words; quotes group, a backslash takes the next character as it is. Throws Error(bad_input) on an open quote.
std::vector<std::string> split_words(const std::string& text);

}  // namespace faibench
