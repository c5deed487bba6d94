#include "judge/judge_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "device/assignment.h"
#include "judge/candidate.h"
#include "judge/processes.h"
#include "tensor/error.h"

namespace faibench {

std::string worker_path() {
  if (const char* path = std::getenv("FAIBENCH_WORKER"); path && *path) return path;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto beside = self.parent_path() / "faibench-worker";
  if (error || !std::filesystem::exists(beside, error))
    throw Error(Error::Kind::io, beside.string() + " is missing: build the target faibench-worker, or set FAIBENCH_WORKER to where it lies");
  return beside.string();
}

struct JudgeProcess::State {
  pid_t pid = -1;
  int output = -1;
  std::string buffer;
  std::string stage = "starting";
  std::optional<Outcome> outcome;
  bool delivered = false;

  ~State() {
    if (output >= 0) close(output);
    if (pid > 0) {
      ::kill(pid, SIGKILL);
      while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {}
    }
  }

  void hear(const std::string& line) {
    try {
      const auto message = nlohmann::json::parse(line);
      if (message.contains("stage")) stage = message["stage"].get<std::string>();
      else if (outcome) return;  // the first word counts
      else if (message.contains("record")) outcome = Outcome{record_from_json(message["record"].dump()), std::nullopt, ""};
      else if (message.contains("peaks")) outcome = Outcome{std::nullopt, peaks_from_json(message["peaks"].dump()), ""};
      else if (message.contains("failure")) outcome = Outcome{std::nullopt, std::nullopt, message["failure"].get<std::string>()};
    } catch (const std::exception& e) {
      outcome = Outcome{std::nullopt, std::nullopt, std::string("the judge said something that is no message: ") + e.what()};
    }
  }

  // Reads what is there; true at the end of the stream.
  bool drain() {
    char chunk[65536];
    for (;;) {
      const ssize_t n = read(output, chunk, sizeof chunk);
      if (n == 0) return true;
      if (n < 0) {
        if (errno == EINTR) continue;
        return errno != EAGAIN;
      }
      buffer.append(chunk, static_cast<std::size_t>(n));
      std::size_t start = 0;
      for (std::size_t end; (end = buffer.find('\n', start)) != std::string::npos; start = end + 1) hear(buffer.substr(start, end - start));
      buffer.erase(0, start);
    }
  }
};

JudgeProcess::JudgeProcess(const JudgeJob& job) : state_(std::make_unique<State>()) {
  const std::string worker = worker_path();
  std::vector<std::string> variables = worker_environment(job.cpus);
  if (job.gpu_position >= 0) {
    const char* visible = std::getenv(visible_devices);
    std::erase_if(variables, [](const std::string& v) { return v.starts_with(std::string(visible_devices) + "="); });
    variables.push_back(std::string(visible_devices) + "=" + only_device(visible ? std::optional<std::string>(visible) : std::nullopt, job.gpu_position));
  }
  std::vector<char*> env;
  for (const std::string& v : variables) env.push_back(const_cast<char*>(v.c_str()));
  env.push_back(nullptr);
  char* arguments[] = {const_cast<char*>(worker.c_str()), const_cast<char*>("judge"), nullptr};
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) throw Error(Error::Kind::io, std::string("cannot start a judge: ") + std::strerror(errno));
  if (pipe2(out, O_CLOEXEC) != 0) {
    close(in[0]);
    close(in[1]);
    throw Error(Error::Kind::io, std::string("cannot start a judge: ") + std::strerror(errno));
  }
  const pid_t rank = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);  // Ctrl-C and the launcher's signals go to the rank, which decides
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != rank) _exit(127);
    dup2(in[0], 0);
    dup2(out[1], 1);
    close_range(3, ~0u, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int s : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGPIPE, SIGHUP}) signal(s, SIG_DFL);
    execve(worker.c_str(), arguments, env.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  if (pid < 0) {
    const std::string reason = std::strerror(errno);
    close(in[1]);
    close(out[0]);
    throw Error(Error::Kind::io, "cannot start a judge: " + reason);
  }
  state_->pid = pid;
  state_->output = out[0];
  fcntl(out[0], F_SETFL, O_NONBLOCK);
  // A job is far smaller than a pipe's buffer; a judge that is already dead shows at poll().
  const std::string text = to_json(job) + "\n";
  struct sigaction ignore{}, before{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  [[maybe_unused]] const ssize_t written = write(in[1], text.data(), text.size());
  sigaction(SIGPIPE, &before, nullptr);
  close(in[1]);
}

JudgeProcess::~JudgeProcess() = default;
JudgeProcess::JudgeProcess(JudgeProcess&&) noexcept = default;
JudgeProcess& JudgeProcess::operator=(JudgeProcess&&) noexcept = default;

std::optional<JudgeProcess::Outcome> JudgeProcess::poll() {
  State& s = *state_;
  if (s.delivered) return std::nullopt;
  const bool ended = s.drain();
  if (!s.outcome && !ended) return std::nullopt;
  int status = 0;
  if (!s.outcome || ended) {
    while (waitpid(s.pid, &status, 0) < 0 && errno == EINTR) {}
    s.pid = -1;
  }
  if (!s.outcome)
    s.outcome = Outcome{std::nullopt, std::nullopt,
                        WIFSIGNALED(status) ? "the judge was killed by " + signal_name(WTERMSIG(status)) : "the judge ended with exit code " + std::to_string(WEXITSTATUS(status)) + " and no verdict"};
  s.delivered = true;
  return s.outcome;
}

const std::string& JudgeProcess::stage() const { return state_->stage; }
int JudgeProcess::descriptor() const { return state_->output; }
void JudgeProcess::kill() {
  if (state_->pid > 0) ::kill(state_->pid, SIGKILL);
}

}  // namespace faibench
