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
#include <optional>
#include <set>
#include <vector>

#include "launch/host_sweeper.h"
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
constexpr double ending_seconds = 8;      // in which a launcher ends by itself after a death that it told of
constexpr double look_again_seconds = 2;  // between two tries to reach a lost host
constexpr double agents_seconds = 2;
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

// Until the ranks leave their first stamps.
double start_up_seconds(const LaunchOptions& options) { return 2 * options.hang_after_seconds + 30; }

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
      if (auto casualty = casualty_in(std::string_view(heard_).substr(0, end)); casualty && !casualty_) {
        casualty_ = std::move(casualty);
        if (stopping_since_ || ending_since_) continue;  // of our own doing
        told_of_ = now();
        see_stamps();
        voice_.say(describe(*casualty_) + (is_lost_host(*casualty_) ? ranks_there() : "") + ": the job is ended");
      }
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

  void see_stamps() {
    if (auto seen = read_stamps(stamp_folder(command_.run_file()), cookie_); !seen.empty()) stamps_ = std::move(seen);
  }

  void look(double running_seconds) {
    looked_at_ = now();
    see_stamps();
    std::optional<Casualty> still = stillness_.look(stamps_, looked_at_);
    if (!still && stamps_.empty() && running_seconds > start_up_seconds(command_.options())) still = Casualty{-1, "", "the ranks did not come through the start-up within " + std::to_string(static_cast<int>(running_seconds)) + " s"};
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
    if (told_of_ && !ending_since_ && now() - *told_of_ > ending_seconds) end_now();
    if (ending_since_ && now() - *ending_since_ > term_seconds) process_.tell_group(SIGKILL);
  }

  Ending ending() {
    // The last word of ranks that left stamps: a run that comes to its end removes them.
    const std::map<int, Stamp> left = read_stamps(stamp_folder(command_.run_file()), cookie_);
    Ending ending;
    ending.code = *process_.exit_code();
    ending.broken = ending_since_.has_value() || !left.empty() || !own_end(ending.code) || (casualty_ && is_failed_start(*casualty_));
    ending.casualty = casualty_;
    if (casualty_ && is_lost_host(*casualty_)) ending.casualty->how += ranks_there();
    for (const auto& [rank, stamp] : stamps_) ending.hosts.insert(stamp.host);
    for (const auto& [rank, stamp] : left) ending.hosts.insert(stamp.host);
    if (casualty_ && is_lost_host(*casualty_) && std::ranges::none_of(ending.hosts, [&](const std::string& host) { return is_same_host(host, casualty_->host); })) ending.hosts.insert(casualty_->host);
    // Ranks that wake up to be ended may tidy up: what they had in hand when they hung is what counts.
    for (const auto& [rank, stamp] : hung_.empty() ? left : hung_) {
      if (!stamp.item.empty() && is_to_blame(stamp)) ending.in_flight.push_back(stamp.item);
    }
    std::ranges::sort(ending.in_flight);
    ending.in_flight.erase(std::ranges::unique(ending.in_flight).begin(), ending.in_flight.end());
    return ending;
  }

  // The rank at fault, or all of a lost host, or all where that is not known.
  bool is_to_blame(const Stamp& stamp) const {
    if (!casualty_) return true;
    return is_lost_host(*casualty_) ? is_same_host(stamp.host, casualty_->host) : casualty_->rank < 0 || casualty_->rank == stamp.rank;
  }

  // " (of rank 2, 3)" of a lost host, as far as stamps tell.
  std::string ranks_there() const {
    std::string text;
    for (const auto& [rank, stamp] : stamps_) {
      if (is_same_host(stamp.host, casualty_->host)) text += (text.empty() ? " (of rank " : ", ") + std::to_string(rank);
    }
    return text.empty() ? text : text + ")";
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
  std::optional<double> stopping_since_, told_of_, ending_since_;
};

class Supervisor {
 public:
  Supervisor(const JobCommand& command, const SupervisorVoice& voice) : command_(command), voice_(voice), sweeper_(command, voice.say), retries_(command.options().retries) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // ranks whose launcher was killed come to us
  }
  ~Supervisor() { prctl(PR_SET_CHILD_SUBREAPER, 0); }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  int run() {
    const int code = launch_until_done();
    if (stop_signal_ == 0) sweeper_.again();  // else there is no time
    sweeper_.say_what_is_left();
    return code;
  }

 private:
  int launch_until_done() {
    const std::string base = new_job_cookie();
    std::vector<std::string> words = command_.first();
    const JournalState before_all = journal_state(command_.run_file());
    for (int number = 1;; ++number) {
      const JournalState before = journal_state(command_.run_file());
      const std::string cookie = base + "." + std::to_string(number);
      Launch launch(command_, words, cookie, voice_, signals_, stop_signal_);
      Ending ending = launch.run();
      if (number == 1 && !command_.resumes() && ending.casualty && is_failed_start(*ending.casualty)) ending.broken = false;  // rather a mistake than bad luck
      clean_up(ending, cookie);
      hear_stops();
      if (stop_signal_ != 0) return ending.code == 0 ? 0 : code_of_stop(stop_signal_);
      if (!ending.broken) return ending.code;

      const JournalState after = journal_state(command_.run_file());
      const bool lacks_hosts = !sweeper_.out_of_reach().empty() && (ending.hosts.empty() || (ending.casualty && is_lost_host(*ending.casualty)));
      std::string why = ending.casualty ? describe(*ending.casualty) : "the job ended with exit code " + std::to_string(ending.code);
      if (ending.hosts.empty() && lacks_hosts) why += " (" + sweeper_.out_of_reach() + " cannot be reached)";
      const bool go_on = retries_.after({ending.in_flight, after.records > before.records, why});
      const std::string safe = std::to_string(after.records) + (after.records == 1 ? " record is" : " records are") + " safe in " + command_.run_file().string();
      if (!go_on) {
        voice_.say(why + "; " + std::to_string(number) + " launches, and the last ones got nowhere: giving up (" + safe + ")");
        return exit_code_gave_up;
      }
      if (lacks_hosts) wait_for_hosts();
      if (stop_signal_ != 0) return code_of_stop(stop_signal_);
      voice_.say(why + "; " + safe + "; going on with launch " + std::to_string(number + 1));
      const bool ours = command_.resumes() || !(after == before_all);  // a journal of earlier days is nothing to go on with
      words = !ours || !after.exists ? command_.first() : after.lines == 0 ? command_.again() : command_.resume(retries_.given_up());
    }
  }

  void hear_stops() {
    for (int signal : signals_.stops()) stop_signal_ = stop_signal_ != 0 ? stop_signal_ : signal;
  }

  // A launch that wants a host that is not there hangs in its start-up or fails: better wait for the host, as long.
  void wait_for_hosts() {
    const double until = now() + start_up_seconds(command_.options());
    voice_.say("waiting for " + sweeper_.out_of_reach() + ", " + std::to_string(static_cast<int>(until - now() + 0.5)) + " s at most");
    while (stop_signal_ == 0 && now() < until && !sweeper_.again()) {
      poll(nullptr, 0, static_cast<int>(1000 * look_again_seconds));
      hear_stops();
    }
  }

  void clean_up(const Ending& ending, const std::string& cookie) {
    // The agents of a launcher that came to its end are on their way out.
    for (const double until = now() + agents_seconds; !ending.broken && now() < until && !processes_of_job(cookie).empty();) poll(nullptr, 0, 50);
    const int left = sweep(cookie, sweep_seconds);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {}  // what came to us when its launcher died
    hosts_.insert(ending.hosts.begin(), ending.hosts.end());
    if (ending.broken) sweeper_.sweep(hosts_, cookie);
    if (left > 0 && !ending.broken) voice_.say(std::to_string(left) + (left == 1 ? " process was" : " processes were") + " left of the job, and killed");
  }

  const JobCommand& command_;
  const SupervisorVoice& voice_;
  Signals signals_;
  int stop_signal_ = 0;
  HostSweeper sweeper_;
  std::set<std::string> hosts_;  // of all launches so far: one that hangs in its start-up names none
  Retries retries_;
};

}  // namespace

int supervise(const JobCommand& command, const SupervisorVoice& voice) { return Supervisor(command, voice).run(); }

}  // namespace faibench
