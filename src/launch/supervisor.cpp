#include "launch/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "launch/job_process.h"
#include "launch/journal_state.h"
#include "launch/launcher_words.h"
#include "launch/retries.h"
#include "launch/stamp.h"
#include "launch/stillness.h"
#include "launch/sweep.h"
#include "tensor/error.h"

namespace faibench {
namespace {

constexpr double look_every_seconds = 1;
constexpr double stop_seconds = 15;       // a job that was told to stop has folded its journal by then
constexpr double term_seconds = 4;        // between SIGTERM and SIGKILL
constexpr double sweep_seconds = 5;
constexpr double remote_sweep_seconds = 10;
constexpr int exit_code_gave_up = 4;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// SIGCHLD wakes the loop; the others are asked about.
class Signals {
 public:
  Signals() {
    sigset_t mask;
    sigemptyset(&mask);
    for (int signal : {SIGCHLD, SIGTERM, SIGINT, SIGUSR1}) sigaddset(&mask, signal);
    sigprocmask(SIG_BLOCK, &mask, &before_);
    descriptor_ = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (descriptor_ < 0) throw Error(Error::Kind::io, "no descriptor for signals is left");
  }
  ~Signals() {
    close(descriptor_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  [[nodiscard]] int descriptor() const { return descriptor_; }
  // Those that ask us to stop, since the last call.
  std::vector<int> stops() const {
    std::vector<int> signals;
    for (signalfd_siginfo info; read(descriptor_, &info, sizeof info) == static_cast<ssize_t>(sizeof info);) {
      if (info.ssi_signo != SIGCHLD) signals.push_back(static_cast<int>(info.ssi_signo));
    }
    return signals;
  }

 private:
  sigset_t before_{};
  int descriptor_ = -1;
};

std::string signal_text(int signal) { return signal == SIGTERM ? "SIGTERM" : signal == SIGINT ? "SIGINT" : "SIGUSR1"; }
int code_of_stop(int signal) { return signal == SIGUSR1 ? 1 : 128 + signal; }

// Codes of a program that came to its own end; see cluster/run.h.
bool own_end(int code) { return (code >= 0 && code <= 3) || code == 128 + SIGINT || code == 128 + SIGTERM; }

struct Ending {
  int code = 0;
  bool broken = false;
  std::optional<Casualty> casualty;
  std::vector<std::string> in_flight;
  std::set<std::string> hosts;  // by the ranks' own names
};

// From the start of one launch to the end of its last process on this host.
class Launch {
 public:
  Launch(const JobCommand& command, const std::vector<std::string>& words, std::string cookie, const SupervisorVoice& voice, const Signals& signals, int& stop_signal)
      : command_(command), cookie_(std::move(cookie)), voice_(voice), signals_(signals), stop_signal_(stop_signal), stillness_(command.options().hang_after_seconds),
        process_(words, {cookie_, command.options().hang_after_seconds}) {}

  Ending run() {
    const double started = now();
    while (!process_.exit_code()) {
      std::array<pollfd, 2> waited{pollfd{signals_.descriptor(), POLLIN, 0}, pollfd{process_.descriptor(), POLLIN, 0}};
      poll(waited.data(), waited.size(), 200);
      hear();
      obey_signals();
      if (now() - looked_at_ >= look_every_seconds && !ending_since_ && !stopping_since_) look(now() - started);
      press_on();
    }
    hear();
    return ending();
  }

 private:
  void hear() {
    const std::string bytes = process_.read_errors();
    if (bytes.empty()) return;
    voice_.pass_on(bytes);
    heard_ += bytes;
    for (std::size_t end; (end = heard_.find('\n')) != std::string::npos; heard_.erase(0, end + 1)) {
      if (auto casualty = casualty_in(std::string_view(heard_).substr(0, end)); casualty && !casualty_) casualty_ = std::move(casualty);
    }
    if (heard_.size() > 65536) heard_.clear();  // no launcher's line is that long
  }

  // The first signal stops the job cleanly: its launcher hands SIGUSR1 on to the ranks. A second one is not patient.
  void obey_signals() {
    for (int signal : signals_.stops()) {
      if (stop_signal_ != 0 && signal != SIGUSR1) {
        end_now();
      } else if (stop_signal_ == 0) {
        stop_signal_ = signal;
        stopping_since_ = now();
        voice_.say(signal_text(signal) + ": the job is told to stop");
        process_.tell(SIGUSR1);
      }
    }
  }

  void look(double running_seconds) {
    looked_at_ = now();
    if (!command_.leaves_stamps()) return;
    if (auto seen = read_stamps(stamp_folder(command_.run_file()), cookie_); !seen.empty()) stamps_ = std::move(seen);
    const double hang_after = command_.options().hang_after_seconds;
    std::optional<Casualty> still = stillness_.look(stamps_, looked_at_);
    if (!still && stamps_.empty() && running_seconds > 2 * hang_after + 30) still = Casualty{-1, "", "the ranks did not come through the start-up within " + std::to_string(static_cast<int>(running_seconds)) + " s"};
    if (!still) return;
    casualty_ = std::move(still);
    hung_ = stamps_;
    voice_.say(describe(*casualty_) + ": the job is ended");
    end_now();
  }

  void end_now() {
    if (ending_since_) return;
    ending_since_ = now();
    process_.tell_group(command_.by_srun() ? SIGINT : SIGTERM);
    if (command_.by_srun()) process_.tell_group(SIGINT);  // the second one makes srun kill its step
  }

  void press_on() {
    if (stopping_since_ && !ending_since_ && now() - *stopping_since_ > stop_seconds) end_now();
    if (ending_since_ && now() - *ending_since_ > term_seconds) process_.tell_group(SIGKILL);
  }

  Ending ending() {
    // The last word of ranks that left stamps: a run that comes to its end removes them.
    std::map<int, Stamp> left;
    if (command_.leaves_stamps()) left = read_stamps(stamp_folder(command_.run_file()), cookie_);
    Ending ending;
    ending.code = *process_.exit_code();
    ending.broken = ending_since_.has_value() || !left.empty() || !own_end(ending.code) || (!command_.leaves_stamps() && ending.code == 3);
    ending.casualty = casualty_;
    for (const auto& [rank, stamp] : stamps_) ending.hosts.insert(stamp.host);
    for (const auto& [rank, stamp] : left) ending.hosts.insert(stamp.host);
    // Ranks that wake up to be ended may tidy up: what they had in hand when they hung is what counts.
    for (const auto& [rank, stamp] : hung_.empty() ? left : hung_) {
      if (!stamp.item.empty() && (!casualty_ || casualty_->rank < 0 || casualty_->rank == rank)) ending.in_flight.push_back(stamp.item);
    }
    std::ranges::sort(ending.in_flight);
    ending.in_flight.erase(std::ranges::unique(ending.in_flight).begin(), ending.in_flight.end());
    return ending;
  }

  const JobCommand& command_;
  std::string cookie_;
  const SupervisorVoice& voice_;
  const Signals& signals_;
  int& stop_signal_;
  Stillness stillness_;
  JobProcess process_;
  std::string heard_;
  std::optional<Casualty> casualty_;
  std::map<int, Stamp> stamps_, hung_;
  double looked_at_ = 0;
  std::optional<double> stopping_since_, ending_since_;
};

std::string own_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Other hosts are reached the way the ranks were: one launcher a host, so that one that is gone does not keep the others from being swept.
void sweep_hosts(const JobCommand& command, const std::set<std::string>& seen, const std::string& cookie) {
  std::vector<std::string> hosts = command.hosts_of_file();
  if (hosts.empty()) hosts.assign(seen.begin(), seen.end());
  std::erase(hosts, own_host());
  constexpr std::size_t at_once = 16;
  for (std::size_t first = 0; first < hosts.size(); first += at_once) {
    std::vector<std::unique_ptr<JobProcess>> sweeps;
    for (std::size_t i = first; i < std::min(first + at_once, hosts.size()); ++i) sweeps.push_back(std::make_unique<JobProcess>(command.sweep_on(hosts[i], cookie), JobSurroundings{}));
    const double until = now() + remote_sweep_seconds;
    for (auto& one : sweeps) {
      while (!one->exit_code() && now() < until) poll(nullptr, 0, 20);
    }
  }
}

class Supervisor {
 public:
  Supervisor(const JobCommand& command, const SupervisorVoice& voice) : command_(command), voice_(voice), retries_(command.options().retries) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // ranks whose launcher was killed come to us
  }
  ~Supervisor() { prctl(PR_SET_CHILD_SUBREAPER, 0); }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  int run() {
    const std::string base = new_job_cookie();
    std::vector<std::string> words = command_.first();
    const JournalState before_all = journal_state(command_.run_file());
    for (int number = 1;; ++number) {
      const JournalState before = journal_state(command_.run_file());
      const std::string cookie = base + "." + std::to_string(number);
      Launch launch(command_, words, cookie, voice_, signals_, stop_signal_);
      const Ending ending = launch.run();
      clean_up(ending, cookie);
      for (int signal : signals_.stops()) stop_signal_ = stop_signal_ != 0 ? stop_signal_ : signal;
      if (stop_signal_ != 0) return ending.code == 0 ? 0 : code_of_stop(stop_signal_);
      if (!ending.broken) return ending.code;

      const JournalState after = journal_state(command_.run_file());
      const std::string why = ending.casualty ? describe(*ending.casualty) : "the job ended with exit code " + std::to_string(ending.code);
      const bool go_on = retries_.after({ending.in_flight, after.records > before.records, why});
      const std::string safe = std::to_string(after.records) + (after.records == 1 ? " record is" : " records are") + " safe in " + command_.run_file().string();
      if (!go_on) {
        voice_.say(why + "; " + std::to_string(number) + " launches, and the last ones got nowhere: giving up (" + safe + ")");
        return exit_code_gave_up;
      }
      voice_.say(why + "; " + safe + "; going on with launch " + std::to_string(number + 1));
      const bool ours = command_.resumes() || !(after == before_all);  // a journal of earlier days is nothing to go on with
      words = !ours || !after.exists ? command_.first() : after.lines == 0 ? command_.again() : command_.resume(retries_.given_up());
    }
  }

 private:
  void clean_up(const Ending& ending, const std::string& cookie) const {
    const int left = sweep(cookie, sweep_seconds);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {}  // what came to us when its launcher died
    if (ending.broken) sweep_hosts(command_, ending.hosts, cookie);
    if (left > 0 && !ending.broken) voice_.say(std::to_string(left) + (left == 1 ? " process was" : " processes were") + " left of the job, and killed");
  }

  const JobCommand& command_;
  const SupervisorVoice& voice_;
  Signals signals_;
  int stop_signal_ = 0;
  Retries retries_;
};

}  // namespace

int supervise(const JobCommand& command, const SupervisorVoice& voice) { return Supervisor(command, voice).run(); }

}  // namespace faibench
