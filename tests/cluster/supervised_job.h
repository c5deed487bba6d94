// A run under `faibench launch` as a test sees it: started, hurt at a chosen moment, looked at afterwards. All of its processes carry a mark of the test's own.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cli/program.h"
#include "launch/journal_state.h"
#include "launch/stamp.h"
#include "patience.h"
#include "results/run_file.h"

namespace faibench::testing_support {

inline double test_clock() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

inline std::string proc_text(pid_t pid, const char* file) {
  std::string text = read_text("/proc/" + std::to_string(pid) + "/" + file);
  return text;
}

class SupervisedJob {
 public:
  /// `launch` are options of `faibench launch`, `job` what comes after --; `wrapper` is put in front of all: a shell that prepares a mount.
  SupervisedJob(const Scratch& scratch, std::vector<std::string> launch, std::vector<std::string> job, std::vector<std::string> wrapper = {})
      : output_(scratch.file("output-" + std::to_string(++number()))), mark_("FAIBENCH_TEST_MARK=" + std::to_string(getpid()) + "." + std::to_string(number())) {
    std::vector<std::string> words = std::move(wrapper);
    words.insert(words.end(), {std::getenv("FAIBENCH_BIN"), "launch", "--launcher", "mpirun --oversubscribe --bind-to none"});
    words.insert(words.end(), launch.begin(), launch.end());
    words.push_back("--");
    words.insert(words.end(), job.begin(), job.end());
    pid_ = fork();
    if (pid_ == 0) {
      const int out = open(output_.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600), in = open("/dev/null", O_RDONLY);
      dup2(in, 0);
      dup2(out, 1);
      dup2(out, 2);
      putenv(mark_.data());
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
  }
  ~SupervisedJob() {
    if (!code_) kill(pid_, SIGKILL);
    for (const auto& [role, pid] : processes()) kill(pid, SIGKILL);
    if (!code_) waitpid(pid_, nullptr, 0);
  }
  SupervisedJob(const SupervisedJob&) = delete;
  SupervisedJob& operator=(const SupervisedJob&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::string output() const { return read_text(output_); }

  /// By role: "supervisor", "mpirun", "rank 0", ..., "worker".
  [[nodiscard]] std::multimap<std::string, pid_t> processes() const {
    std::multimap<std::string, pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const auto pid = static_cast<pid_t>(std::atol(entry.path().filename().c_str()));
      if (pid <= 0) continue;
      const std::string environment = '\0' + proc_text(pid, "environ"), command = proc_text(pid, "cmdline");
      if (environment.find('\0' + mark_ + '\0') == std::string::npos) continue;
      const std::string program = command.substr(0, command.find('\0')), name = program.substr(program.rfind('/') + 1);
      const std::size_t rank = environment.find(std::string(1, '\0') + "OMPI_COMM_WORLD_RANK=");
      if (name == "faibench-worker") found.emplace("worker", pid);
      else if (name != "faibench") found.emplace(name, pid);
      else if (rank == std::string::npos) found.emplace("supervisor", pid);
      else found.emplace("rank " + std::to_string(std::atoi(environment.c_str() + rank + 22)), pid);
    }
    return found;
  }

  /// True when `holds` came true while the job ran.
  bool until(const std::function<bool()>& holds) {
    for (const double start = test_clock(); test_clock() - start < 60 * patience() && !ended();) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }
  /// Until the journal has so many records and that rank has something in hand whose name contains `item`: its process, or -1. `signal` is sent to it in the same moment.
  pid_t until_busy(const std::string& file, int rank, int records, const std::string& item = "", int signal = 0) {
    pid_t pid = -1;
    until([&] {
      if (journal_state(file).records < records) return false;
      const auto stamp = read_stamp(stamp_folder(file), rank);
      if (!stamp || stamp->item.empty() || stamp->item.find(item) == std::string::npos || kill(stamp->pid, signal) != 0) return false;
      pid = stamp->pid;
      return true;
    });
    return pid;
  }
  bool signal_role(const std::string& role, int signal) {
    const auto all = processes();
    const auto found = all.find(role);
    return found != all.end() && kill(found->second, signal) == 0;
  }
  /// Seconds from now until the output has the text; negative: not within `most`, or what that is on a busy machine.
  double seconds_until_said(const std::string& text, double most) {
    const double start = test_clock();
    return wait_until([&] { return output().find(text) != std::string::npos; }, most) ? test_clock() - start : -1;
  }
  int wait() {
    wait_until([&] { return ended(); }, 120);
    return code_.value_or(-1);
  }
  /// Whether the last process is gone within `seconds`, or what that is on a busy machine.
  bool nothing_left(double seconds) const {
    return wait_until([&] { return processes().empty(); }, seconds);
  }

 private:
  static int& number() {
    static int count = 0;
    return count;
  }
  bool ended() {
    int status = 0;
    if (!code_ && waitpid(pid_, &status, WNOHANG) == pid_) code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return code_.has_value();
  }

  std::string output_, mark_;
  pid_t pid_ = -1;
  std::optional<int> code_;
};

/// What a run judged, without what depends on when and where: equal for an unbroken run and one that was resumed.
inline std::map<std::string, std::string> judged(const std::string& file) {
  std::map<std::string, std::string> all;
  for (Record record : read_run(file).records) {
    record.started = record.wall_seconds = 0;
    record.host.clear();
    record.cpus.clear();
    record.rank = 0;
    EXPECT_TRUE(all.emplace(record.task + "/" + record.variant + "@" + std::to_string(record.ranks), to_json(record)).second) << "twice: " << record.task << "/" << record.variant;
  }
  return all;
}

}  // namespace faibench::testing_support
