#include "judge/candidate.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "judge/candidate_gpu.h"
#include "judge/gpu_bench.h"
#include "judge/processes.h"
#include "judge/ticker.h"
#include "task/task.h"

namespace faibench {
namespace {

constexpr rlim_t largest_written_file = rlim_t{64} << 20;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// A copy of what another process may be writing to right now: never past the field.
template <std::size_t N>
std::string bounded(const char (&field)[N]) {
  char copy[N];
  std::memcpy(copy, field, N);
  copy[N - 1] = 0;
  return copy;
}

template <std::size_t N>
void store(char (&field)[N], const std::string& text) {
  if (text.size() >= N) throw Error(Error::Kind::bad_input, "'" + text + "' is too long");
  std::memset(field, 0, N);
  std::memcpy(field, text.data(), text.size());
}

}  // namespace

std::string signal_name(int signal) {
  if (const char* name = sigabbrev_np(signal)) return std::string("SIG") + name;
  return "signal " + std::to_string(signal);
}

std::string cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t j = i;
    while (j + 1 < cpus.size() && cpus[j + 1] == cpus[j] + 1) ++j;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[i]) + (j > i ? "-" + std::to_string(cpus[j]) : "");
    i = j + 1;
  }
  return text;
}

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

Candidate::Candidate(const std::string& worker, std::string task, std::string variant, const std::vector<int>& cpus, CandidateLimits limits, GpuBench* gpu)
    : task_(std::move(task)), variant_(std::move(variant)), cpus_(cpus), limits_(limits), page_(arena_.control()), gpu_(gpu) {
  if (gpu_) {
    const Task* known = find_task(task_);
    const Variant* named = known ? known->find_variant(variant_) : nullptr;
    device_ = std::make_unique<DeviceTensors>(*gpu_, named ? named->on_host : std::vector<std::string>());
    store(page_.gpu, gpu_->facts().uuid);
  }
  stderr_ = memfd_create("faibench-candidate-stderr", MFD_CLOEXEC);  // a file, not a pipe: nobody has to drain it
  if (stderr_ < 0) throw Error(Error::Kind::io, std::string("cannot make a file for the candidate's stderr: ") + std::strerror(errno));
  // Everything is allocated before the fork: the child may call only async-signal-safe functions.
  std::vector<std::string> variables = worker_environment(cpus_);
  if (gpu_ && !variant_.starts_with("peer:")) variables.emplace_back("CUDA_MODULE_LOADING=EAGER");  // kernels are loaded with the variant, not at their first call
  std::vector<char*> env;
  for (const std::string& v : variables) env.push_back(const_cast<char*>(v.c_str()));
  env.push_back(nullptr);
  char* arguments[] = {const_cast<char*>(worker.c_str()), const_cast<char*>("candidate"), nullptr};
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (int cpu : cpus_) CPU_SET(cpu, &mask);
  const pid_t judge = getpid();
  pid_ = fork();
  if (pid_ < 0) throw Error(Error::Kind::io, std::string("cannot start the candidate process: ") + std::strerror(errno));
  if (pid_ == 0) {
    setpgid(0, 0);  // not setsid(): a session of its own would be scheduled as a group of its own, 0.5 us more a hand-over
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != judge) _exit(127);
    if (!cpus_.empty()) sched_setaffinity(0, sizeof mask, &mask);
    const int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);  // whatever it prints there is nobody's business
    dup2(stderr_, 2);
    if (arena_.descriptor() == arena_descriptor) fcntl(arena_descriptor, F_SETFD, 0);
    else dup2(arena_.descriptor(), arena_descriptor);
    close_range(arena_descriptor + 1, ~0u, 0);
    const rlimit core{0, 0}, file{largest_written_file, largest_written_file};
    setrlimit(RLIMIT_CORE, &core);
    setrlimit(RLIMIT_FSIZE, &file);
    const rlim_t data_bytes = static_cast<rlim_t>(limits_.memory_bytes) * 2;  // the judge's own watch comes first; this stops what outruns it
    const rlimit data{data_bytes, data_bytes};
    if (!gpu_) setrlimit(RLIMIT_DATA, &data);  // a CUDA context maps as much as the machine has memory, and touches little of it
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int s : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGPIPE, SIGHUP}) signal(s, SIG_DFL);
    execve(worker.c_str(), arguments, env.data());
    _exit(127);
  }
  register_child(pid_);
  alive_ = true;
}

Candidate::~Candidate() {
  kill_all();
  if (stderr_ >= 0) close(stderr_);
}

void Candidate::pause() {
  if (!alive_) return;
  kill(-pid_, SIGSTOP);
  int status = 0;
  while (waitpid(pid_, &status, WUNTRACED) < 0 && errno == EINTR) {}
  if (WIFEXITED(status) || WIFSIGNALED(status)) died(status, 0);  // between its calls
}

void Candidate::resume() {
  if (alive_) kill(-pid_, SIGCONT);
}

std::optional<Failure> Candidate::load() {
  store(page_.task, task_);
  store(page_.variant, variant_);
  if (!round_trip(ControlPage::Command::load, limits_.load_seconds)) return failure_;
  if (page_.status == ControlPage::Status::ok) return std::nullopt;
  fail(Verdict::build_failed, "cannot load", bounded(page_.message));
  return failure_;
}

std::optional<Failure> Candidate::touch(std::int64_t bytes) {
  page_.touch_bytes = bytes;
  if (device_) device_->make_room(bytes, arena_, page_);
  if (!round_trip(ControlPage::Command::touch, limits_.load_seconds)) return failure_;
  if (device_) device_->retire();
  if (page_.status == ControlPage::Status::ok) return std::nullopt;
  fail(Verdict::crashed, device_error, bounded(page_.message));
  return failure_;
}

void Candidate::to_device() {
  if (device_) device_->send(arena_);
}
void Candidate::from_device() {
  if (device_) device_->fetch(arena_);
}

std::optional<Failure> Candidate::settle() {
  if (!round_trip(ControlPage::Command::settle, limits_.load_seconds)) return failure_;
  return std::nullopt;
}

std::optional<Candidate::Reply> Candidate::call(int threads) {
  page_.threads = threads;
  arena_.describe(page_);
  if (gpu_) gpu_->window().open();
  auto seconds = round_trip(ControlPage::Command::call, limits_.call_seconds);
  if (!seconds) return std::nullopt;
  if (gpu_) *seconds = gpu_->window().close(*seconds);
  Reply reply;
  reply.seconds = *seconds;
  const ControlPage::Status status = page_.status;
  if (status == ControlPage::Status::rejected) {
    reply.rejected = Rejection{bounded(page_.code), bounded(page_.tensor), page_.index, bounded(page_.message)};
    return reply;
  }
  if (status == ControlPage::Status::out_of_memory) {
    fail(Verdict::out_of_memory, "allocation failed", "an allocation failed under the limit of " + std::to_string(limits_.memory_bytes >> 20) + " MiB");
    return std::nullopt;
  }
  if (status != ControlPage::Status::ok) {
    const std::string fault = bounded(page_.code);
    fail(fault == out_of_device_memory ? Verdict::out_of_memory : Verdict::crashed, fault.empty() ? "exception" : fault, bounded(page_.message));
    return std::nullopt;
  }
  // Rooms from the judge's own layout: by now the page may hold anything.
  std::size_t i = 0;
  for (const std::int64_t room : arena_.output_rooms()) {
    const std::int64_t length = page_.lengths[i++];
    if (length > room) {
      fail(Verdict::wrong, "shape", "output " + std::to_string(i - 1) + " claims " + std::to_string(length) + " rows, there is room for " + std::to_string(room));
      return std::nullopt;
    }
    reply.lengths.push_back(length < 0 ? -1 : length);
  }
  return reply;
}

std::optional<double> Candidate::round_trip(ControlPage::Command command, double limit_seconds) {
  if (!alive_) return std::nullopt;
  page_.command = command;
  page_.status = ControlPage::Status::none;
  page_.index = -1;
  page_.code[0] = 0;
  std::fill(std::begin(page_.lengths), std::end(page_.lengths), -1);
  Ticker& ticker = Ticker::instance();
  ticker.watch(page_.turn);
  const double start = now();
  page_.turn.store(ControlPage::candidate_turn, std::memory_order_release);
  wake(page_.turn);
  double last_look = start;
  while (page_.turn.load(std::memory_order_acquire) == ControlPage::candidate_turn) {
    wait_while(page_.turn, ControlPage::candidate_turn);
    if (page_.turn.load(std::memory_order_acquire) != ControlPage::candidate_turn) break;
    const double time = now();
    if (time - last_look < Ticker::period_seconds / 2) continue;
    last_look = time;
    int status = 0;
    rusage usage{};
    if (wait4(pid_, &status, WNOHANG, &usage) == pid_) {
      died(status, usage.ru_maxrss);
      return std::nullopt;
    }
    std::string how;
    if (over_memory(how)) {
      fail(Verdict::out_of_memory, "memory limit", how);
      return std::nullopt;
    }
    if (time - start > limit_seconds) {
      char text[80];
      std::snprintf(text, sizeof text, "no answer within %.3g s", limit_seconds);
      fail(Verdict::timed_out, "time limit", text);
      return std::nullopt;
    }
  }
  const double seconds = now() - start;
  ticker.rest();
  return seconds;
}

bool Candidate::over_memory(std::string& how) const {
  std::ifstream statm("/proc/" + std::to_string(pid_) + "/statm");
  std::int64_t size = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  if (!(statm >> size >> resident >> shared >> text >> library >> data)) return false;
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  // Shared pages count as well, but for the arena's and some for program text; mapped but untouched memory counts half.
  constexpr std::int64_t text_bytes = std::int64_t{32} << 20;
  const std::int64_t beyond_arena = resident * page - arena_.most_bytes() - text_bytes;
  const std::int64_t used = std::max({(resident - shared) * page, beyond_arena, gpu_ ? 0 : data * page / 2});
  if (used <= limits_.memory_bytes) return false;
  how = "uses " + std::to_string(used >> 20) + " MiB, the limit is " + std::to_string(limits_.memory_bytes >> 20) + " MiB";
  return true;
}

void Candidate::died(int status, std::int64_t peak_kib) {
  unregister_child(pid_);
  alive_ = false;
  const bool memory = peak_kib * 1024 - arena_.most_bytes() > limits_.memory_bytes;
  if (memory) fail(Verdict::out_of_memory, "memory limit", "died after using " + std::to_string(peak_kib >> 10) + " MiB, the limit is " + std::to_string(limits_.memory_bytes >> 20) + " MiB");
  else if (WIFSIGNALED(status)) fail(Verdict::crashed, signal_name(WTERMSIG(status)), "the candidate died of " + signal_name(WTERMSIG(status)));
  else fail(Verdict::crashed, "exit " + std::to_string(WEXITSTATUS(status)), "the candidate ended itself with exit code " + std::to_string(WEXITSTATUS(status)) + " instead of answering");
}

void Candidate::fail(Verdict verdict, std::string reason, std::string detail) {
  failure_ = {verdict, std::move(reason), std::move(detail), stderr_tail()};
  Ticker::instance().rest();
  kill_all();
}

void Candidate::kill_all() {
  if (pid_ < 0) return;
  kill(-pid_, SIGKILL);
  if (alive_) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
    unregister_child(pid_);
    alive_ = false;
  }
  reap_orphans();  // what left its group, or outlived its parent
  pid_ = -1;
}

std::string Candidate::stderr_tail() const {
  constexpr off_t most = 2000;
  const off_t end = lseek(stderr_, 0, SEEK_END);
  if (end <= 0) return "";
  const off_t start = std::max<off_t>(0, end - most);
  std::string text(static_cast<std::size_t>(end - start), '\0');
  const ssize_t got = pread(stderr_, text.data(), text.size(), start);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  // Keep it printable and valid UTF-8 for the journal: other bytes become '?'.
  for (char& c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  int lines = 0;
  for (std::size_t i = text.size(); i-- > 0;)
    if (text[i] == '\n' && i + 1 < text.size() && ++lines == 5) return text.substr(i + 1);
  return text;
}

std::int64_t Candidate::involuntary_switches() const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("nonvoluntary_ctxt_switches:")) return std::atoll(line.c_str() + 27);
  return -1;
}

}  // namespace faibench
